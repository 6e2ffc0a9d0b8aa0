"""Calling a target: every gradient counted, every bad score kept for the report."""

from __future__ import annotations

import math
import threading
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.base.pairs import Pair
from scorevi.base.target import Evaluation, Failure, Target, TargetLost, failure
from scorevi.base.threads import users_threads

_EXAMPLES = 5
WINDOW = 100
"""Points after which the share of bad ones among them is looked at."""
MOST_BAD = 0.9
"""The share above which nearly all are."""


class Exhausted(Exception):
    """No gradient, or no time, is left for what was asked."""


class Interrupted(Exception):
    """The user said to stop, from another thread."""


class TooManyBadScores(Exception):
    """Nearly all recent scores were bad."""


class BadScore(NamedTuple):
    """A point at which there was no usable score."""

    point: Array
    cause: str
    detail: str


@dataclass
class BadScores:
    """The bad scores of a run.

    Attributes
    ----------
    counts
        How many there were, by cause: ``nan``, ``infinite``, ``overflow``, ``wrong-shape``,
        ``raised``; and where scores come from processes of their own, ``died`` and ``timeout``.
    examples
        The first few points, with the reason.
    """

    counts: Counter[str] = field(default_factory=Counter)
    examples: list[BadScore] = field(default_factory=list)

    @property
    def total(self) -> int:
        """How many there were."""
        return self.counts.total()

    def add(self, point: Array, why: Failure) -> None:
        """Enter one."""
        self.counts[why.cause] += 1
        if len(self.examples) < _EXAMPLES:
            self.examples.append(BadScore(np.array(point), why.cause, why.detail))

    def describe(self) -> str:
        """Return one line: how many of which cause, and the first reason."""
        if not self.total:
            return "no bad scores"
        causes = ", ".join(f"{count} {cause}" for cause, count in sorted(self.counts.items()))
        return (
            f"{self.total} bad scores ({causes}); the first: {self.examples[0].detail.rstrip('.')}"
        )


class Account(NamedTuple):
    """What an evaluator has counted, to go on from."""

    spent: int
    retried: int
    window_start: int
    window_bad: int
    bad_counts: dict[str, int]
    bad_examples: tuple[BadScore, ...]


class Evaluator:
    """A target with a budget.

    Parameters
    ----------
    target
        Where the scores come from.
    max_gradients
        The number of points at which the score may be asked for; None for no limit.
    deadline
        The moment, on ``time.perf_counter``, after which nothing is evaluated.
    """

    def __init__(
        self, target: Target, max_gradients: int | None = None, deadline: float | None = None
    ) -> None:
        self.target = target
        self.max_gradients = max_gradients
        self.deadline = deadline
        self.spent = 0
        self.retried = 0
        """Points of batched calls that raised, and were evaluated again one by one."""
        self.bad = BadScores()
        self.quickest = math.inf
        """Seconds of the call that took the least: compiling, and waiting, are not in it."""
        self.interrupted = threading.Event()
        """Set, by any thread, to have nothing evaluated any more."""
        self._window_start = 0
        self._window_bad = 0

    @property
    def remaining(self) -> float:
        """How many gradients are left; infinite without a limit."""
        return math.inf if self.max_gradients is None else self.max_gradients - self.spent

    @property
    def late(self) -> bool:
        """Whether the time is over."""
        return self.deadline is not None and time.perf_counter() >= self.deadline

    def __call__(self, theta: Array) -> Evaluation:
        """Evaluate the rows of theta; raises :class:`Exhausted` rather than overspend."""
        if self.interrupted.is_set():
            raise Interrupted
        size = len(theta)
        spent = self.spent + size
        if self.max_gradients is not None and spent > self.max_gradients:
            raise Exhausted
        if self.deadline is not None and self.late:
            raise Exhausted
        self.spent = spent
        began = time.perf_counter()
        try:
            with users_threads():
                found = self.target.evaluate(theta)
            self.quickest = min(self.quickest, time.perf_counter() - began)
            return found
        except TargetLost:
            raise
        except Exception as error:
            why = failure(error)
            if size > 1 and size <= self.remaining:
                return self._one_by_one(theta)
            return self._failed(size, why)

    @property
    def account(self) -> Account:
        """What was counted so far."""
        return Account(
            self.spent,
            self.retried,
            self._window_start,
            self._window_bad,
            dict(self.bad.counts),
            tuple(self.bad.examples),
        )

    def restore(self, account: Account) -> None:
        """Go on from what was counted before."""
        self.spent, self.retried = account.spent, account.retried
        self._window_start, self._window_bad = account.window_start, account.window_bad
        self.bad = BadScores(Counter(account.bad_counts), list(account.bad_examples))

    def noted(self, theta: Array) -> tuple[Evaluation, Mask]:
        """Evaluate points, and enter those that are no use; returns which are, too."""
        evaluation = self(theta)
        good = self.usable(evaluation)
        self.note_bad(theta, evaluation, good)
        return evaluation, good

    def point(self, theta: Array) -> Pair | None:
        """Evaluate one point; None, and an entry among the bad scores, if it is no use."""
        evaluation, good = self.noted(theta[None])
        if not good[0]:
            return None
        log_density = evaluation.log_density
        value = math.nan if log_density is None else float(log_density[0])
        return Pair(np.array(theta), np.array(evaluation.score[0]), value)

    def spare(self, theta: Array) -> Evaluation | None:
        """Evaluate points that are good to know but not needed; None where nothing is left.

        What is bad among them is entered, and ends nothing.
        """
        try:
            evaluation = self(theta)
            self.note_bad(theta, evaluation, self.usable(evaluation))
        except Exhausted:
            return None
        except TooManyBadScores:
            pass
        return evaluation

    @staticmethod
    def usable(evaluation: Evaluation) -> Mask:
        """Return, for each row, whether |score|² and the log density are finite, shape (n,)."""
        with np.errstate(all="ignore"):
            good: Mask = np.asarray(np.isfinite(np.vecdot(evaluation.score, evaluation.score)))
        if evaluation.log_density is not None:
            good &= np.isfinite(evaluation.log_density)
        return good

    def note_bad(self, theta: Array, evaluation: Evaluation, good: Mask) -> None:
        """Enter the rows that are not good among the bad scores.

        Raises :class:`TooManyBadScores` when nearly all of the last 100 points or more were bad.
        """
        for row in np.flatnonzero(~good):
            why = evaluation.failures.get(int(row)) or diagnose(evaluation, int(row))
            self.bad.add(theta[row], why)
        self._window_bad += int((~good).sum())
        judged = self.spent - self.retried
        seen = judged - self._window_start
        if seen >= WINDOW:
            share = self._window_bad / seen
            self._window_start, self._window_bad = judged, 0
            if share > MOST_BAD:
                raise TooManyBadScores

    def _one_by_one(self, theta: Array) -> Evaluation:
        """Find out which points of a failed batch were to blame."""
        parts = []
        self.retried += len(theta)
        for point in theta:
            self.spent += 1
            try:
                with users_threads():
                    score, log_density, failures = self.target.evaluate(point[None])
                # Copies, because a function may hand out the same buffer each time.
                known = None if log_density is None else np.array(log_density)
                parts.append(Evaluation(np.array(score), known, failures))
            except TargetLost:
                raise
            except Exception as error:
                parts.append(self._failed(1, failure(error)))
        log_densities = [part.log_density for part in parts if part.log_density is not None]
        return Evaluation(
            np.concatenate([part.score for part in parts]),
            np.concatenate(log_densities) if log_densities else None,
            {row: part.failures[0] for row, part in enumerate(parts) if part.failures},
        )

    def _failed(self, size: int, why: Failure) -> Evaluation:
        return Evaluation(
            np.full((size, self.target.dim), np.nan),
            np.full(size, np.nan) if self.target.has_log_density else None,
            dict.fromkeys(range(size), why),
        )


def diagnose(evaluation: Evaluation, row: int) -> Failure:
    """Say what is wrong with a row that is not usable."""
    score = evaluation.score[row]
    log_density = None if evaluation.log_density is None else evaluation.log_density[row]
    for name, values in (("score", score), ("log density", log_density)):
        if values is None:
            continue
        if np.isnan(values).any():
            return Failure("nan", f"the {name} is NaN")
        if np.isinf(values).any():
            return Failure("infinite", f"the {name} is infinite")
    largest = float(np.abs(score).max())
    return Failure("overflow", f"the score is finite but too large to use ({largest:.1e})")
