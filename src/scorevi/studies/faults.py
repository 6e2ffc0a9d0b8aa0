"""Targets that fail on purpose, with a ledger of every fault: what robustness is measured with."""

from __future__ import annotations

import hashlib
import os
import time
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Target
from scorevi.families import Gaussian
from scorevi.targets.function import FunctionTarget, from_function


class Fault(NamedTuple):
    """A way in which a score function goes wrong."""

    cause: str
    """The entry among ``fit.bad_scores.counts`` that it should lead to."""
    answer: Callable[[Array], Any]
    """What is returned in place of the score, or log density, of a point."""
    whole_call: bool = False
    """Whether in a batched function it takes the whole call with it, and not only one row."""


def _raise(_: Array) -> Any:
    raise ArithmeticError("there is no score here")


def _one_nan(theta: Array) -> Array:
    return np.where(np.arange(len(theta)) == 0, np.nan, 0.0)


FAULTS: dict[str, Fault] = {
    "NaN": Fault("nan", lambda theta: np.full(theta.shape, np.nan)),
    "one entry NaN": Fault("nan", _one_nan),
    "infinite": Fault("infinite", lambda theta: np.full(theta.shape, np.inf)),
    "minus infinite": Fault("infinite", lambda theta: np.full(theta.shape, -np.inf)),
    "huge (1e200)": Fault("overflow", lambda theta: np.full(theta.shape, 1e200)),
    "exception": Fault("raised", _raise, whole_call=True),
    "wrong shape": Fault("wrong-shape", lambda theta: np.zeros(theta.size + 1), whole_call=True),
    "None": Fault("wrong-shape", lambda _: None, whole_call=True),
    "text": Fault("wrong-shape", lambda _: "no score", whole_call=True),
}
"""Name → fault, of score functions."""

LOG_DENSITY_FAULTS: dict[str, Fault] = {
    "log density NaN": Fault("nan", lambda _: np.nan),
    "log density −∞": Fault("infinite", lambda _: -np.inf),
}
"""The same, of log densities."""


@dataclass
class Ledger:
    """What a faulty target was asked, and what it answered.

    Attributes
    ----------
    points
        Points at which the score was asked for.
    injected
        How many of them were answered with each fault, by the fault's name. A whole batched call
        that failed and was asked again point by point counts by the later answers.
    own
        How many were answered with a score or log density of the target's own that is of no use.
    extreme
        How many scores of the target's own were longer than 1e100, though their squares are finite.
        A fit has no use for them either where q is so wide that they overflow in its coordinates.
    """

    points: int = 0
    injected: Counter[str] = field(default_factory=Counter)
    own: int = 0
    extreme: int = 0
    _failed_call: tuple[bytes, str, int] | None = None

    @property
    def total(self) -> int:
        """How many answers were of no use."""
        return self.injected.total() + self.own

    @property
    def causes(self) -> dict[str, int]:
        """The same by the cause under which a fit should have counted them."""
        counts: Counter[str] = Counter()
        for name, count in self.injected.items():
            counts[(FAULTS | LOG_DENSITY_FAULTS)[name].cause] += count
        return {cause: count for cause, count in counts.items() if count}

    def asked(self, theta: Array) -> None:
        """Enter the points of a call."""
        self.points += len(theta)
        if self._failed_call is not None:
            first, name, count = self._failed_call
            if len(theta) == 1 and theta.tobytes() == first:
                self.injected[name] -= count
            self._failed_call = None

    def failed(self, theta: Array, name: str) -> None:
        """Enter a call that failed as a whole."""
        self.injected[name] += len(theta)
        if len(theta) > 1:
            self._failed_call = theta[:1].tobytes(), name, len(theta)


def inject(
    target: Target,
    rate: float,
    kinds: Sequence[str] = tuple(FAULTS),
    *,
    seed: int = 0,
    batched: bool = False,
) -> tuple[FunctionTarget, Ledger]:
    """Return the target with a share of its answers replaced by faults, and the ledger of them.

    Parameters
    ----------
    target
        What answers otherwise. It is asked for both score and log density at each point.
    rate
        The share of points with a fault, from 0 to 1.
    kinds
        The faults to choose from at random: names in ``FAULTS`` and, where the target has a log
        density, ``LOG_DENSITY_FAULTS``.
    seed
        Decides which points.
    batched
        Whether the functions take batches, or points.

    Examples
    --------
    >>> import scorevi
    >>> target, ledger = inject(scorevi.examples.eight_schools(), 0.3, ["NaN"])
    >>> fit = scorevi.fit(target, max_gradients=500)
    >>> fit.num_gradients == ledger.points
    True
    >>> fit.bad_scores.counts["nan"] == ledger.injected["NaN"]
    True
    """
    faults = FAULTS | LOG_DENSITY_FAULTS
    unknown = [name for name in kinds if name not in faults]
    if unknown:
        raise ValueError(f"`kinds` must be among {', '.join(faults)}; got {unknown[0]!r}.")
    rng = np.random.default_rng(seed)
    ledger = Ledger()
    marked: dict[bytes, float] = {}

    def of_rows(theta: Array) -> Any:
        ledger.asked(theta)
        hits = rng.random(len(theta)) < rate
        choices = rng.integers(len(kinds), size=len(theta))
        chosen = [kinds[k] if hit else "" for k, hit in zip(choices, hits, strict=True)]
        for name in chosen:
            if name and faults[name].whole_call:
                ledger.failed(theta, name)
                return faults[name].answer(theta if batched else theta[0])
        score, log_density, _ = target.evaluate(theta)
        score = np.array(score)
        with np.errstate(all="ignore"):
            useful = np.isfinite(np.vecdot(score, score))
        if log_density is not None:
            useful &= np.isfinite(log_density)
        for row, name in enumerate(chosen):
            if name:
                ledger.injected[name] += 1
                if name in FAULTS:
                    score[row] = faults[name].answer(theta[row])
                else:
                    marked[theta[row].tobytes()] = faults[name].answer(theta[row])
            elif not useful[row]:
                ledger.own += 1
            else:
                ledger.extreme += int(np.linalg.norm(score[row]) > 1e100)
        return score if batched else score[0]

    def log_density_of_rows(theta: Array) -> Any:
        values = np.array(target.evaluate(theta).log_density)
        for row, point in enumerate(theta):
            values[row] = marked.pop(point.tobytes(), values[row])
        return values if batched else values[0]

    def pointwise(function: Callable[[Array], Any]) -> Callable[[Array], Any]:
        return function if batched else lambda theta: function(theta[None])

    faulty = from_function(
        pointwise(of_rows),
        target.dim,
        pointwise(log_density_of_rows) if target.has_log_density else None,
        batched=batched,
    )
    return faulty, ledger


ISOLATED_CAUSES = ("nan", "infinite", "raised", "wrong-shape", "timeout", "died")
"""Every cause under which a point that is evaluated in a process of its own may be counted."""


def deadly(
    p: Gaussian, rate: float, ledger: Path, causes: Sequence[str] = ISOLATED_CAUSES
) -> FunctionTarget:
    """Return a Gaussian target of which a share of the points fails, hangs or ends the process.

    The point itself decides which; every fault is written to the file ``ledger``, a line each,
    before it happens.
    """
    mean, precision = p.mean, np.linalg.inv(p.covariance)

    def score(theta: Array) -> Any:
        digest = hashlib.sha256(theta.tobytes()).digest()
        if int.from_bytes(digest[:8], "little") / 2**64 >= rate:
            return precision @ (mean - theta)
        cause = causes[digest[8] % len(causes)]
        with ledger.open("a") as file:
            file.write(cause + "\n")
        if cause == "raised":
            _raise(theta)
        if cause == "timeout":
            time.sleep(600)
        if cause == "died":
            os._exit(3)
        answers = {"nan": np.full(theta.shape, np.nan), "infinite": np.full(theta.shape, np.inf)}
        return answers.get(cause, np.zeros(3))

    return from_function(score, p.dim, batched=False)
