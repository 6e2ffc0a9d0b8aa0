"""The only loop.

It owns what solvers do not: randomness, target calls, counting, timing, finiteness, and the ways
to end. A run goes forward by one update at a time, or for JAX targets by a chunk of updates in
a compiled loop; the iterates are the same.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from scorevi._arrays import Array
from scorevi.compiled import Loop
from scorevi.contradiction import ADVICE, contradiction
from scorevi.diagnostics import (
    FEWEST,
    drift,
    elbo_estimate,
    is_full_rank,
    is_sound,
    still_moving,
)
from scorevi.drawing import Drawing, NothingGood
from scorevi.evaluate import Evaluator, Exhausted, Interrupted, Pair, TooManyBadScores
from scorevi.gaussian import Gaussian
from scorevi.initialize import Initial, Near, NoFinitePoint, search, start
from scorevi.noise import RESTART, SEARCH, Noise, stream
from scorevi.recent import Draws, Quality, Recent, drawn
from scorevi.records import Snapshot, Updates
from scorevi.ridge import improper
from scorevi.signcheck import SignCheck
from scorevi.solvers.base import Batch, Remembers, Solver
from scorevi.status import Status
from scorevi.targets.base import Evaluation, Target
from scorevi.targets.isolated import IsolatedTarget
from scorevi.targets.jax import JaxTarget
from scorevi.targets.observations import blame

_CHUNK_SECONDS = 0.1
_NEARLY_EXACT = 0.01
"""A Fisher residual at which q has arrived, however few updates there were."""
_LOOKED_AT = ("converged", "stalled", "budget", "time")
"""Ways to end after which a few more evaluations, within the budget, are no trouble."""
_FIRST_LOOK = 8
"""Updates before the scores are asked for a direction along which the posterior has no end."""
_CLOSING = 16
"""Draws of the final q, where the last ones of the run do not tell what it is worth."""
_RARELY = 32
"""Where bad scores interrupt the compiled loop more often, go step by step for as long."""


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
        self.entropy = entropy
        self.evaluator = Evaluator(target, max_gradients)
        self.solver = solver
        self.batch_size = solver.batch_size_for(target.dim)
        self.noise = Noise(entropy, target.dim)
        self._drawing = Drawing(self.evaluator, self.noise)
        self.notes: list[str] = []
        self.num_updates = 0
        self.info: Any = None
        self.status: Status | None = None
        self.next_look: float = math.inf
        """The update at which somebody wants to look; a chunk of updates ends there."""
        self.has_checkpoint = False
        """Whether there is a file to go on from; what is advised at the end depends on it."""
        self._max_seconds = max_seconds
        self._began: float | None = None
        self._seconds_before = 0.0
        self.compiling = 0.0
        self._rng = stream(entropy, SEARCH)
        self._loop: Loop | None = None
        if chunked and solver.compilable and isinstance(target, JaxTarget):
            self._loop = Loop(target, solver, self.batch_size)
        self._loop_raised = False
        self._failed: Evaluation | None = None
        self._chunk = 1
        self._one_by_one = 0
        self._smooth = 0
        self._stepwise = 0
        self._state: Any = None
        self._sign = SignCheck()
        self._recent = Recent()
        self._initial = initial
        self.q = Gaussian.standard(target.dim)
        self._log_det_at_start = 0.0

    @property
    def seconds(self) -> float:
        """The time since the run began to go forward, that of earlier processes included."""
        here = 0.0 if self._began is None else time.perf_counter() - self._began
        return self._seconds_before + here

    def from_elsewhere(self, index: int) -> Run:
        """Return a run like this one, with a seed and a start of its own."""
        target = self.evaluator.target
        rng = stream(self.entropy, RESTART, index)
        point = rng.uniform(-2.0, 2.0, target.dim)
        return Run(
            target,
            self.solver,
            entropy=int(rng.integers(2**63)),
            initial=Near(point) if target.has_log_density else point,
            max_gradients=self.evaluator.max_gradients,
            max_seconds=self._max_seconds,
            chunked=self._loop is not None,
        )

    def updates(self) -> Iterator[Updates]:
        """Go forward until the run ends; ``self.status`` then says how.

        The first of a run that was not restored has no records: it says that the start is made.
        The clock starts here: a run may have to wait for its turn.
        """
        self._began = time.perf_counter()
        self._set_deadline()
        try:
            if self._state is None:
                # What is not finite is looked for and counted; it need not be warned of as well.
                with np.errstate(all="ignore"):
                    self._start()
                yield Updates.none()
            if self._loop is not None and self.evaluator.remaining >= self.batch_size:
                self._compile(self._loop)
            while self.status is None:
                if self.evaluator.interrupted.is_set():
                    raise Interrupted
                with np.errstate(all="ignore"):
                    updates = self._advance()
                yield updates
        except Exhausted:
            self.status = self._out_of_budget()
        except NoFinitePoint:
            self.status = self._bad_scores("no point with a finite score was found")
        except TooManyBadScores:
            self.status = self._bad_scores("more than 90 % of the last 100 scores were bad")
        except (Interrupted, KeyboardInterrupt):
            self.end_interrupted()

    def conclude(self, drifts: Array, quality: Quality) -> str:
        """Add what is to be said at the end to the notes; returns what is worth a warning."""
        if self.evaluator.retried:
            self.notes.append(
                f"batched calls of the score raised; {self.evaluator.retried} points were "
                "evaluated again one by one"
            )
        if self.evaluator.target.has_log_density and self.status in _LOOKED_AT:
            text = contradiction(self._recent.draws, self.q, self.evaluator)
            if text is not None:
                self.status = Status("bad-scores", text, ADVICE)
        if self.status is not None and self.status.ok and not is_full_rank(self.q):
            self.status = Status(
                "diverged",
                f"the approximation is singular to rounding after {self._so_far()}",
            )
        share = still_moving(drifts)
        warning = ""
        if share is not None:
            warning = (
                f"NOT SETTLED: in {share:.0%} of the last updates the draws agreed on the way to "
                "go, where a settled fit has about half. q may be far from the posterior, and much "
                "too narrow. Allow more gradients, or start closer: initial='laplace', a point, or "
                "parameters rescaled to be of order one."
            )
        elif self._ended_early and not quality.fisher < _NEARLY_EXACT:
            fisher = f"{quality.fisher:.2g}" if quality.known else "not known"
            warning = (
                f"NOT SETTLED: {self.num_updates} updates are too few to tell, and the Fisher "
                f"residual of q is {fisher}. q may be far from the posterior. Allow more "
                f"{'time' if self.status == 'time' else 'gradients'}."
            )
        if warning:
            self.notes.append(warning)
        return warning

    @property
    def _ended_early(self) -> bool:
        """Whether a limit left too few updates to tell a direction from a coin."""
        return self.status in ("budget", "time") and 0 < self.num_updates < FEWEST

    def quality(self) -> Quality:
        """Return the ELBO and the Fisher residual of q, which was never drawn from itself.

        Where the last draws cannot tell, a few of its own are spent on it, if there are any left.
        """
        found = self._recent.quality(self.q)
        if found.known or self.num_updates == 0 or self.status in ("interrupted", "bad-scores"):
            return found
        size = int(min(_CLOSING, self.evaluator.remaining))
        if size < _CLOSING // 2:
            return found
        try:
            with np.errstate(all="ignore"):
                batch, _ = self._drawing.batch(self.q, size, None, first=False)
        except (Exhausted, TooManyBadScores):
            return found
        columns = batch.theta, batch.score, batch.log_density
        own = drawn(batch.z, float(self.q.log_det or 0.0), *columns)
        return Recent([own]).quality(self.q)

    def interrupt(self) -> None:
        """Ask the run to end; any thread may, and it does before the next evaluation."""
        self.evaluator.interrupted.set()

    def end_interrupted(self) -> None:
        """End because the user said so."""
        go_on = "resume=True (--resume) goes on from the checkpoint."
        if self.num_updates:
            self.status = Status(
                "interrupted",
                f"stopped by the user after {self._so_far()}",
                f"The fit holds what was reached; {go_on}" if self.has_checkpoint else "",
            )
        else:
            self.status = Status(
                "interrupted",
                "stopped by the user before the first update, after "
                f"{self.evaluator.spent} gradients",
                go_on if self.has_checkpoint else "There is nothing to go on from: begin again.",
            )

    def snapshot(self) -> Snapshot:
        """Return what :meth:`restore` needs, by reference: no array of a run is ever changed."""
        return Snapshot(
            state=self._state,
            position=self.noise.position,
            search=dict(self._rng.bit_generator.state),
            account=self.evaluator.account,
            num_updates=self.num_updates,
            log_det_at_start=self._log_det_at_start,
            slopes=tuple(self._sign.slopes),
            notes=tuple(self.notes),
            seconds=self.seconds,
            compiling=self.compiling,
            smooth=self._smooth,
            stepwise=self._stepwise,
            loop_raised=self._loop_raised,
            recent=self._recent.batches,
        )

    def restore(self, snapshot: Snapshot) -> None:
        """Become the run that the snapshot was taken of; limits and solver stay as they are."""
        self._state, self.q = snapshot.state, snapshot.state.q
        self.noise.position = snapshot.position
        self._rng.bit_generator.state = snapshot.search
        self.evaluator.restore(snapshot.account)
        self.num_updates = snapshot.num_updates
        self._log_det_at_start = snapshot.log_det_at_start
        self._sign = SignCheck(snapshot.slopes)
        self.notes = list(snapshot.notes)
        self._seconds_before = snapshot.seconds
        self.compiling = snapshot.compiling
        self._smooth, self._stepwise = snapshot.smooth, snapshot.stepwise
        self._loop_raised = snapshot.loop_raised
        self._recent = Recent(snapshot.recent)
        self._loop = None if self._loop_raised else self._loop
        self._size_batch()

    def _set_deadline(self) -> None:
        if self._max_seconds is not None:
            left = self._max_seconds + self.compiling - self.seconds
            self.evaluator.deadline = time.perf_counter() + left

    def _start(self) -> None:
        begin = start(self._initial, self.evaluator, self._rng)
        self.notes += begin.notes
        self._begin(begin.q)
        if self.evaluator.target.has_log_density:
            self.status = self._sign.add(*begin.pairs)
        if begin.pairs and isinstance(self.solver, Remembers):
            self._state = self.solver.remember(self._state, begin.pairs)
        self._size_batch()

    def _compile(self, loop: Loop) -> None:
        began = time.perf_counter()
        loop.compile(self._state)
        self.compiling += time.perf_counter() - began
        self._set_deadline()

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
        updates = Updates.none()
        if self._failed is None:
            updates = self._many_steps(self._loop)
        if updates.elbo or self.status is not None:
            return updates
        # Counted in updates, not in chunks, whose length is a matter of speed: the iterates of
        # the loop and of single steps differ by rounding.
        if self._smooth < _RARELY:
            self._stepwise = _RARELY
        self._smooth = 0
        failed, self._failed = self._failed, None
        return self._step(failed)

    def _many_steps(self, loop: Loop) -> Updates:
        if self.evaluator.remaining < self.batch_size or self.evaluator.late:
            raise Exhausted
        before = self.seconds
        size = self.batch_size
        chunk = 1 if self._one_by_one else self._chunk
        ahead = max(1.0, self.next_look - self.num_updates)
        steps = int(min(chunk, loop.max_steps, self.evaluator.remaining // size, ahead))
        noise = self.noise.rows(self.noise.position, steps * size)
        try:
            result = loop(self._state, noise, steps, self._log_det_at_start)
        except Exception as error:
            # A target with host callbacks may raise. Step by step, that is one bad score; the
            # steps before it are the loop's, wherever the chunk happened to begin.
            if steps > 1:
                self._one_by_one = steps
                return self._many_steps(loop)
            self._loop, self._loop_raised = None, True
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
        self._one_by_one = max(0, self._one_by_one - 1)
        self._smooth += done
        self._failed = result.failed
        self._accept(result.state, done, result.last)
        return Updates(
            [first + size * (k + 1) for k in range(done)],
            [before + elapsed * (k + 1) / done for k in range(done)],
            result.elbo.tolist(),
            result.fisher.tolist(),
            result.drift.tolist(),
        )

    def _step(self, evaluation: Evaluation | None) -> Updates:
        """Take one step; ``evaluation`` is the batch's if it is already known and paid for."""
        batch, fisher = self._batch(evaluation)
        elbo = math.nan
        if batch.log_density is not None:
            elbo = float(elbo_estimate(batch.z, batch.log_density, self.q.log_det))
            if not self._sign.done:
                rows = zip(batch.theta[:2], batch.score[:2], batch.log_density[:2], strict=True)
                self.status = self._sign.add(*(Pair(t, g, float(v)) for t, g, v in rows))
        try:
            state, self.info = self.solver.step(self._state, batch)
        except np.linalg.LinAlgError as error:
            self.status = self._diverged(f"the update failed ({error})")
            return Updates.none()
        if self.status is None:
            log_det = float(self.q.log_det or 0.0)
            columns = batch.theta, batch.score, batch.log_density
            self._accept(state, 1, drawn(batch.z, log_det, *columns))
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

    def _accept(self, state: Any, updates: int, draws: Draws) -> None:
        """Make the new state the current one, or end the run if it cannot be."""
        if is_sound(state.q, self._log_det_at_start):
            self._state, self.q = state, state.q
            self.num_updates += updates
            self._recent.add(draws)
            self._look_for_ridge(updates)
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

    def _look_for_ridge(self, updates: int) -> None:
        """Look, whenever the number of updates doubles, for a direction without an end."""
        before = self.num_updates - updates
        if self.num_updates >= _FIRST_LOOK and before.bit_length() < self.num_updates.bit_length():
            self.status = improper(self._recent.draws, self.q, self.evaluator)

    def _batch(self, evaluation: Evaluation | None) -> tuple[Batch, float]:
        """Return a full batch with good scores and its Fisher residual, moving q if need be."""
        try:
            return self._drawing.batch(
                self.q, self.batch_size, evaluation, first=self.num_updates == 0
            )
        except NothingGood:
            q, note = search(self.evaluator, self.q, self._rng)
        self.notes.append(note)
        self._begin(q)
        return self._batch(None)

    def _out_of_budget(self) -> Status:
        if self.num_updates == 0:
            word = "time" if self.evaluator.late else "budget"
            bad = self.evaluator.bad
            return Status(
                word,
                f"it ended before the first update, after {self.evaluator.spent} gradients"
                + (f" with {bad.describe()}" if bad.total else ""),
                self._blame() or "Allow more gradients or time, or choose a start that costs less.",
            )
        if self.evaluator.late:
            return Status("time", f"the time ran out after {self._so_far()}")
        return Status("budget", f"the budget was spent: {self._so_far()}")

    def _bad_scores(self, why: str) -> Status:
        return Status("bad-scores", f"{why}: {self.evaluator.bad.describe()}", self._blame())

    def _blame(self) -> str:
        """Say which data are at fault, if it can be told and no exception has told it already."""
        bad, target = self.evaluator.bad, self.evaluator.target
        if not bad.total or bad.counts["raised"]:
            return ""
        # What was to be kept out of this process is not called in it.
        return blame(target, evaluate=not isinstance(target, IsolatedTarget))

    def _diverged(self, why: str) -> Status:
        return Status("diverged", f"{why} after {self._so_far()}; the last sound state is kept")

    def _so_far(self) -> str:
        return f"{self.evaluator.spent} gradients and {self.num_updates} updates"
