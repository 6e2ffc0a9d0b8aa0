"""The only loop.

It owns what solvers do not: randomness, target calls, counting, timing, finiteness, and the ways
to end. A run goes forward by one update at a time, or for JAX targets by a chunk of updates in
a compiled loop; the iterates are the same.
"""

from __future__ import annotations

import itertools
import math
import time
from array import array
from collections.abc import Iterator, MutableSequence
from typing import Any, NamedTuple

import numpy as np

from scorevi._arrays import Array
from scorevi.compiled import Loop
from scorevi.diagnostics import (
    drift,
    elbo_estimate,
    fisher_residual,
    is_full_rank,
    is_sound,
    predicted_and_actual,
    still_moving,
)
from scorevi.evaluate import Evaluator, Exhausted, Pair, TooManyBadScores
from scorevi.gaussian import Gaussian
from scorevi.initialize import Initial, NoFinitePoint, search, start
from scorevi.noise import SEARCH, Noise, stream
from scorevi.solvers.base import Batch, Remembers, Solver
from scorevi.status import Status
from scorevi.targets.base import Evaluation, Target
from scorevi.targets.jax import JaxTarget

_TRIES_BEFORE_SEARCH = 10
_CHUNK_SECONDS = 0.1
_GRADIENT_CHECKS = 20
_RARELY = 32
"""Where bad scores interrupt the compiled loop more often, go step by step for as long."""


class Updates(NamedTuple):
    """The records of one or more updates, in order."""

    num_gradients: MutableSequence[int]
    seconds: MutableSequence[float]
    elbo: MutableSequence[float]
    fisher: MutableSequence[float]
    drift: MutableSequence[float]

    @classmethod
    def none(cls) -> Updates:
        """Return no records, with room for millions: eight bytes an entry."""
        return cls(array("q"), array("d"), array("d"), array("d"), array("d"))

    def extend(self, more: Updates) -> None:
        """Append the records of later updates."""
        self.num_gradients.extend(more.num_gradients)
        self.seconds.extend(more.seconds)
        self.elbo.extend(more.elbo)
        self.fisher.extend(more.fisher)
        self.drift.extend(more.drift)


class _NoStart(Exception):
    """The first draws all had bad scores."""


class Run:
    """One fit under way.

    Parameters
    ----------
    target, solver
        What is fitted, and how.
    entropy
        The seed, as one integer.
    initial
        See :func:`scorevi.initialize.start`.
    max_gradients, max_seconds
        When to end; None for never.
    chunked
        Whether updates may be done many at a time, where the target allows it.
    """

    def __init__(
        self,
        target: Target,
        solver: Solver,
        *,
        entropy: int,
        initial: Initial,
        max_gradients: int | None,
        max_seconds: float | None,
        chunked: bool,
    ) -> None:
        self.began = time.perf_counter()
        self.entropy = entropy
        deadline = None if max_seconds is None else self.began + max_seconds
        self.evaluator = Evaluator(target, max_gradients, deadline)
        self.solver = solver
        self.batch_size = solver.batch_size_for(target.dim)
        self.noise = Noise(entropy, target.dim)
        self.notes: list[str] = []
        self.num_updates = 0
        self.info: Any = None
        self.status: Status | None = None
        self._chunked = chunked
        self._rng = stream(entropy, SEARCH)
        self._loop: Loop | None = None
        self._chunk = 1
        self._stepwise = 0
        self._state: Any = None
        self._slopes: list[tuple[float, float]] = []
        self._initial = initial
        self.q = Gaussian.standard(target.dim)
        self._log_det_at_start = 0.0

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return time.perf_counter() - self.began

    def updates(self) -> Iterator[Updates]:
        """Go forward until the run ends; ``self.status`` then says how."""
        try:
            # What is not finite is looked for and counted; it need not be warned of as well.
            with np.errstate(all="ignore"):
                self._start()
            while self.status is None:
                with np.errstate(all="ignore"):
                    updates = self._advance()
                yield updates
        except Exhausted:
            self.status = self._out_of_budget()
        except NoFinitePoint:
            self.status = self._bad_scores("no point with a finite score was found")
        except TooManyBadScores:
            self.status = self._bad_scores("more than 90 % of the last 100 scores were bad")
        except KeyboardInterrupt:
            self.interrupt()

    def conclude(self, drifts: Array) -> str:
        """Add what is to be said at the end to the notes; returns what is worth a warning."""
        if self.evaluator.retried:
            self.notes.append(
                f"batched calls of the score raised; {self.evaluator.retried} points were "
                "evaluated again one by one"
            )
        if self.status is not None and self.status.ok and not is_full_rank(self.q):
            self.status = Status(
                "diverged",
                f"the approximation is singular to rounding after {self._so_far()}",
            )
        share = still_moving(drifts)
        if share is None:
            return ""
        warning = (
            f"NOT SETTLED: in {share:.0%} of the last updates the draws agreed on the way to go, "
            "where a settled fit has about half. q may be far from the posterior, and much too "
            "narrow. Allow more gradients, or start closer: initial='laplace', a point, or "
            "parameters rescaled to be of order one."
        )
        self.notes.append(warning)
        return warning

    def interrupt(self) -> None:
        """End because the user said so."""
        self.status = Status("interrupted", f"stopped by the user after {self._so_far()}")

    def _start(self) -> None:
        target, solver = self.evaluator.target, self.solver
        begin = start(self._initial, self.evaluator, self._rng)
        self.notes += begin.notes
        self._begin(begin.q)
        self._check_gradient(*begin.pairs)
        if begin.pairs and isinstance(solver, Remembers):
            self._state = solver.remember(self._state, begin.pairs)
        self._size_batch()
        if self._chunked and solver.compilable and isinstance(target, JaxTarget):
            self._loop = Loop(target, solver, self.batch_size)
            began = time.perf_counter()
            self._loop.compile(self._state)
            if self.evaluator.deadline is not None:
                self.evaluator.deadline += time.perf_counter() - began

    def _begin(self, q: Gaussian) -> None:
        self._state = self.solver.init(q)
        # Its q, not ours: a solver may want another square root of the same covariance.
        self.q = self._state.q
        self._log_det_at_start = float(q.log_det or 0.0)

    def _advance(self) -> Updates:
        if self._loop is None:
            return self._step(None)
        if self._stepwise > 0:
            self._stepwise -= 1
            return self._step(None)
        return self._many_steps(self._loop)

    def _many_steps(self, loop: Loop) -> Updates:
        if self.evaluator.remaining < self.batch_size or self.evaluator.late:
            raise Exhausted
        before = self.seconds
        size = self.batch_size
        steps = int(min(self._chunk, loop.max_steps, self.evaluator.remaining // size))
        noise = self.noise.rows(self.noise.position, steps * size)
        try:
            result = loop(self._state, noise, steps, self._log_det_at_start)
        except Exception as error:
            # A target with host callbacks may raise. Step by step, that is one bad score.
            self._loop = None
            self.notes.append(
                f"the compiled loop raised {type(error).__name__}; went on step by step"
            )
            return self._step(None)
        done = len(result.elbo)
        first = self.evaluator.spent
        self.evaluator.spent += done * size
        self.noise.position += done * size
        elapsed = self.seconds - before
        # Chunks of a tenth of a second: limits in time and Ctrl-C are heeded between them.
        self._chunk = max(1, int(steps * min(4.0, _CHUNK_SECONDS / max(elapsed, 1e-9))))
        if done < min(steps, _RARELY):
            self._stepwise = _RARELY
        self._accept(result.state, done)
        updates = Updates(
            [first + size * (k + 1) for k in range(done)],
            [before + elapsed * (k + 1) / done for k in range(done)],
            result.elbo.tolist(),
            result.fisher.tolist(),
            result.drift.tolist(),
        )
        if result.failed is None:
            return updates
        updates.extend(self._step(result.failed))
        return updates

    def _step(self, evaluation: Evaluation | None) -> Updates:
        """Take one step; ``evaluation`` is the batch's if it is already known and paid for."""
        batch, fisher = self._batch(evaluation)
        elbo = math.nan
        if batch.log_density is not None:
            elbo = float(elbo_estimate(batch.z, batch.log_density, self.q.log_det))
            if len(self._slopes) < _GRADIENT_CHECKS and len(batch.z) > 1:
                rows = zip(batch.theta[:2], batch.score[:2], batch.log_density[:2], strict=True)
                self._check_gradient(*(Pair(t, g, float(v)) for t, g, v in rows))
        try:
            state, self.info = self.solver.step(self._state, batch)
        except np.linalg.LinAlgError as error:
            self.status = self._diverged(f"the update failed ({error})")
            return Updates.none()
        if self.status is None:
            self._accept(state, 1)
        if self.status is not None:
            return Updates.none()
        return Updates(
            [self.evaluator.spent],
            [self.seconds],
            [elbo],
            [fisher],
            [float(drift(batch.whitened_score))],
        )

    def _size_batch(self) -> None:
        """Heed a state that says how large a batch it wants; the last one may be what is left."""
        wanted = getattr(self._state, "batch_size", None)
        if wanted is not None:
            self.batch_size = int(max(1, min(wanted, self.evaluator.remaining)))

    def _check_gradient(self, *pairs: Pair) -> None:
        """Compare scores and log densities of the first pairs seen: a wrong sign ends the run."""
        if not self.evaluator.target.has_log_density or len(self._slopes) >= _GRADIENT_CHECKS:
            return
        self._slopes += [predicted_and_actual(a, b) for a, b in itertools.pairwise(pairs)]
        if len(self._slopes) < _GRADIENT_CHECKS:
            return
        predicted, actual = np.array(self._slopes).T
        scale = float(np.linalg.norm(predicted) * np.linalg.norm(actual))
        if scale > 0 and float(predicted @ actual) < -0.5 * scale:
            self.status = Status(
                "bad-scores",
                "the score contradicts the log density: between draws the log density falls where "
                "the score says that it rises",
                "Check the sign of the score, and compare it with finite differences of the "
                "log density.",
            )

    def _accept(self, state: Any, updates: int) -> None:
        """Make the new state the current one, or end the run if it cannot be."""
        if is_sound(state.q, self._log_det_at_start):
            self._state, self.q = state, state.q
            self.num_updates += updates
            self._size_batch()
        else:
            growth = float(state.q.log_det) - self._log_det_at_start
            finite = math.isfinite(growth + float(state.q.mean @ state.q.mean))
            verb = "grown" if growth > 0 else "shrunk"
            self.status = self._diverged(
                f"the approximation has {verb} by more than 1e15 in each dimension"
                if finite
                else "an update was not finite"
            )

    def _batch(self, evaluation: Evaluation | None) -> tuple[Batch, float]:
        """Return a full batch of draws with good scores, and its Fisher residual.

        Draws whose score is bad are dropped, counted and drawn anew.
        """
        z = self.noise.take(self.batch_size)
        offset = self.q.image(z)
        theta = self.q.mean + offset
        if evaluation is None:
            evaluation = self.evaluator(theta)
        else:
            self.evaluator.spent += self.batch_size
        score, log_density, _ = evaluation
        white = self.q.whiten_score(score)
        fisher = float(fisher_residual(z, white))
        # A sum is finite only if all its terms are: one test for the usual case.
        if math.isfinite(fisher) and (
            log_density is None or math.isfinite(float(log_density.sum()))
        ):
            return Batch(z, offset, theta, score, white, log_density), fisher
        return self._redrawn(self._good_rows(z, offset, evaluation))

    def _redrawn(self, batch: Batch) -> tuple[Batch, float]:
        """Fill up a batch of which some draws were dropped."""
        while (missing := self.batch_size - len(batch.z)) > 0:
            nothing_good_yet = self.num_updates == 0 and len(batch.z) == 0
            if nothing_good_yet and self.evaluator.bad.total >= _TRIES_BEFORE_SEARCH:
                q, note = search(self.evaluator, self.q, self._rng)
                self.notes.append(note)
                self._begin(q)
                return self._batch(None)
            z = self.noise.take(missing)
            offset = self.q.image(z)
            more = self._good_rows(z, offset, self.evaluator(self.q.mean + offset))
            columns = zip(batch, more, strict=True)
            batch = Batch(*(None if a is None else np.concatenate([a, b]) for a, b in columns))
        return batch, float(fisher_residual(batch.z, batch.whitened_score))

    def _good_rows(self, z: Array, offset: Array, evaluation: Evaluation) -> Batch:
        theta = self.q.mean + offset
        score, log_density, _ = evaluation
        white = self.q.whiten_score(score)
        good = self.evaluator.usable(evaluation)
        good &= np.isfinite(np.vecdot(white, white))
        self.evaluator.note_bad(theta, evaluation, good)
        return Batch(
            z[good],
            offset[good],
            theta[good],
            score[good],
            white[good],
            None if log_density is None else log_density[good],
        )

    def _out_of_budget(self) -> Status:
        if self.num_updates == 0:
            word = "time" if self.evaluator.late else "budget"
            bad = self.evaluator.bad
            return Status(
                word,
                f"it ended before the first update, after {self.evaluator.spent} gradients"
                + (f" with {bad.describe()}" if bad.total else ""),
                "Allow more gradients or time, or choose a start that costs less.",
            )
        if self.evaluator.late:
            return Status("time", f"the time ran out after {self._so_far()}")
        return Status("budget", f"the budget was spent: {self._so_far()}")

    def _bad_scores(self, why: str) -> Status:
        return Status("bad-scores", f"{why}: {self.evaluator.bad.describe()}")

    def _diverged(self, why: str) -> Status:
        return Status("diverged", f"{why} after {self._so_far()}; the last sound state is kept")

    def _so_far(self) -> str:
        return f"{self.evaluator.spent} gradients and {self.num_updates} updates"
