"""The only loop.

It owns what solvers do not: randomness, target calls, counting, timing, finiteness, and the ways
to end. A run goes forward by one update at a time, or for JAX targets by a chunk of updates in
a compiled loop; the iterates are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scorevi._arrays import Array
from scorevi.compiled import Loop
from scorevi.diagnostics import elbo_terms, fisher_residuals, is_sound
from scorevi.evaluate import Evaluator, Exhausted, TooManyBadScores
from scorevi.gaussian import Gaussian
from scorevi.initialize import Initial, NoFinitePoint, search, start
from scorevi.noise import SEARCH, Noise, stream
from scorevi.solvers.base import Batch, Solver
from scorevi.status import Status
from scorevi.targets.base import Evaluation, Target
from scorevi.targets.jax import JaxTarget

_TRIES_BEFORE_SEARCH = 10
_CHUNK_SECONDS = 0.1


class Updates(NamedTuple):
    """The records of one or more updates, in order."""

    num_gradients: list[int]
    seconds: list[float]
    elbo: list[float]
    fisher: list[float]


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
        self._chunk = 32
        self._initial = initial
        self.q = Gaussian.standard(target.dim)
        self._begin(self.q)

    @property
    def seconds(self) -> float:
        """The time since the run began."""
        return time.perf_counter() - self.began

    def updates(self) -> Iterator[Updates]:
        """Go forward until the run ends; ``self.status`` then says how."""
        try:
            self._start()
            while self.status is None:
                yield self._advance()
        except Exhausted:
            self.status = self._out_of_budget()
        except NoFinitePoint:
            self.status = self._bad_scores("no point with a finite score was found")
        except TooManyBadScores:
            self.status = self._bad_scores("more than 90 % of the last 100 scores were bad")
        except KeyboardInterrupt:
            self.interrupt()

    def interrupt(self) -> None:
        """End because the user said so."""
        self.status = Status("interrupted", f"stopped by the user after {self._so_far()}")

    def _start(self) -> None:
        target, solver = self.evaluator.target, self.solver
        begin = start(self._initial, self.evaluator, self._rng)
        self.notes += begin.notes
        self._begin(begin.q)
        if self._chunked and isinstance(target, JaxTarget):
            self._loop = Loop(target, solver, self.batch_size)

    def _begin(self, q: Gaussian) -> None:
        self.q = q
        self._state = self.solver.init(q)
        self._log_det_at_start = float(q.log_det or 0.0)

    def _advance(self) -> Updates:
        if self.evaluator.remaining < self.batch_size or self.evaluator.late:
            raise Exhausted
        if self._loop is not None:
            return self._many_steps(self._loop)
        return self._step(None)

    def _many_steps(self, loop: Loop) -> Updates:
        before = self.seconds
        size = self.batch_size
        steps = int(min(self._chunk, loop.max_steps, self.evaluator.remaining // size))
        noise = self.noise.rows(self.noise.position, loop.max_steps * size)
        result = loop(self._state, noise, steps, self._log_det_at_start)
        done = len(result.elbo)
        first = self.evaluator.spent
        self.evaluator.spent += done * size
        self.noise.position += done * size
        elapsed = self.seconds - before
        if elapsed < _CHUNK_SECONDS:
            self._chunk *= 2
        self._accept(result.state, done)
        updates = Updates(
            [first + size * (k + 1) for k in range(done)],
            [before + elapsed * (k + 1) / done for k in range(done)],
            result.elbo.tolist(),
            result.fisher.tolist(),
        )
        if result.failed is None:
            return updates
        careful = self._step(result.failed)
        return Updates(*(a + b for a, b in zip(updates, careful, strict=True)))

    def _step(self, evaluation: Evaluation | None) -> Updates:
        """Take one step; ``evaluation`` is the batch's if it is already known and paid for."""
        batch = self._batch(evaluation)
        z = batch.z
        fisher = float(fisher_residuals(z, batch.whitened_score).sum()) / len(z)
        elbo = math.nan
        if batch.log_density is not None:
            elbo = float(elbo_terms(z, batch.log_density, self.q.log_det).sum()) / len(z)
        try:
            with np.errstate(all="ignore"):
                state, self.info = self.solver.step(self._state, batch)
        except np.linalg.LinAlgError as error:
            self.status = self._diverged(f"the update failed ({error})")
            return Updates([], [], [], [])
        self._accept(state, 1)
        if self.status is not None:
            return Updates([], [], [], [])
        return Updates([self.evaluator.spent], [self.seconds], [elbo], [fisher])

    def _accept(self, state: Any, updates: int) -> None:
        """Make the new state the current one, or end the run if it cannot be."""
        if is_sound(state.q, self._log_det_at_start):
            self._state, self.q = state, state.q
            self.num_updates += updates
        else:
            change = float(state.q.log_det) - self._log_det_at_start
            verb = "grown" if change > 0 else "shrunk"
            self.status = self._diverged(
                f"the approximation has {verb} by more than 1e15 in each dimension"
                if math.isfinite(change)
                else "an update was not finite"
            )

    def _batch(self, evaluation: Evaluation | None) -> Batch:
        """Return a full batch of draws with good scores, redrawing those that have none."""
        q, size = self.q, self.batch_size
        z = self.noise.take(size)
        theta = q.unwhiten(z)
        if evaluation is None:
            evaluation = self.evaluator(theta)
        else:
            self.evaluator.spent += size
        score, log_density = evaluation.score, evaluation.log_density
        white = self._whiten(score)
        # A sum is finite only if all its terms are: one test for the usual case.
        sum_of_squares = float(np.vdot(white, white))
        if math.isfinite(sum_of_squares) and (
            log_density is None or math.isfinite(float(log_density.sum()))
        ):
            return Batch(z, theta, score, white, log_density)
        parts = [self._good_rows(z, theta, evaluation)]
        while (missing := size - sum(len(part.z) for part in parts)) > 0:
            nothing_good_yet = self.num_updates == 0 and missing == size
            if nothing_good_yet and self.evaluator.bad.total >= _TRIES_BEFORE_SEARCH:
                return self._batch_elsewhere()
            z = self.noise.take(missing)
            theta = self.q.unwhiten(z)
            parts.append(self._good_rows(z, theta, self.evaluator(theta)))
        columns = zip(*parts, strict=True)
        return Batch(*(None if c[0] is None else np.concatenate(c) for c in columns))

    def _good_rows(self, z: Array, theta: Array, evaluation: Evaluation) -> Batch:
        score, log_density = evaluation.score, evaluation.log_density
        white = self._whiten(score)
        with np.errstate(all="ignore"):
            good = self.evaluator.usable(evaluation)
            good &= np.isfinite(np.vecdot(white, white))
        self.evaluator.note_bad(theta, evaluation, good)
        return Batch(
            z[good],
            theta[good],
            score[good],
            white[good],
            None if log_density is None else log_density[good],
        )

    def _whiten(self, score: Array) -> Array:
        with np.errstate(all="ignore"):
            return np.asarray(self.q.whiten_score(score))

    def _batch_elsewhere(self) -> Batch:
        """Nothing was finite where the run began: move, and draw the first batch there."""
        q, note = search(self.evaluator, self.q, self._rng)
        self.notes.append(note)
        self._begin(q)
        return self._batch(None)

    def _out_of_budget(self) -> Status:
        if self.evaluator.late:
            return Status("time", f"the time ran out after {self._so_far()}")
        return Status("budget", f"the budget was spent: {self._so_far()}")

    def _bad_scores(self, why: str) -> Status:
        return Status("bad-scores", f"{why}: {self.evaluator.bad.describe()}")

    def _diverged(self, why: str) -> Status:
        return Status("diverged", f"{why} after {self._so_far()}; the last sound state is kept")

    def _so_far(self) -> str:
        return f"{self.evaluator.spent} gradients and {self.num_updates} updates"
