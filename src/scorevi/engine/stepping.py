"""The two ways to go forward: update by update, and for JAX targets in compiled chunks.

The iterates are the same. Where a chunk meets a bad score, or something raises, single steps take
over for a while.
"""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Protocol

import numpy as np

from scorevi.base.estimates import drift
from scorevi.base.evaluate import Exhausted, Interrupted
from scorevi.base.target import Evaluation
from scorevi.engine import ending
from scorevi.engine.compiled import Loop
from scorevi.engine.records import ChunksSnapshot, Updates
from scorevi.targets.jax import JaxTarget

if TYPE_CHECKING:
    from scorevi.engine.run import Run

_CHUNK_SECONDS = 0.1
_RARELY = 32
"""Where bad scores interrupt the compiled loop more often, go step by step for as long."""


class Stepping(Protocol):
    """A way to go forward."""

    def prepare(self, run: Run) -> None:
        """Get ready, when the start is made or the run restored."""

    def advance(self, run: Run) -> Updates:
        """Make one or more updates; may set ``run.status`` instead."""

    def snapshot(self) -> ChunksSnapshot | None:
        """Return what it needs to know to go on, if anything."""

    def restore(self, snapshot: ChunksSnapshot | None) -> None:
        """Go on from there."""


def stepping(run: Run) -> Stepping:
    """Return the way for a run: chunks where its settings, solver and target all allow them."""
    target = run.evaluator.target
    if run.settings.chunked and run.solver.compilable and isinstance(target, JaxTarget):
        return Chunks(Loop(target, run.solver, run.batch_size))
    return SingleSteps()


class SingleSteps:
    """Update by update."""

    def prepare(self, run: Run) -> None:
        """Do nothing."""

    def advance(self, run: Run) -> Updates:
        """Make one update."""
        return step(run, None)

    def snapshot(self) -> None:
        """Return nothing."""

    def restore(self, snapshot: ChunksSnapshot | None) -> None:
        """Do nothing."""


class Chunks:
    """Many updates in one call of a compiled loop, and single steps where that fails."""

    def __init__(self, loop: Loop) -> None:
        self._loop: Loop | None = loop
        self._failed: Evaluation | None = None
        self._chunk = 1
        self._one_by_one = 0
        self._smooth = 0
        self._stepwise = 0

    def prepare(self, run: Run) -> None:
        """Compile, off the clock."""
        if self._loop is None or run.evaluator.remaining < run.batch_size:
            return
        began = time.perf_counter()
        self._loop.compile(run.state)
        run.compiling += time.perf_counter() - began
        run.set_deadline()

    def snapshot(self) -> ChunksSnapshot:
        """Return what decides whether the loop or a single step comes next."""
        return ChunksSnapshot(self._smooth, self._stepwise, self._loop is None)

    def restore(self, snapshot: ChunksSnapshot | None) -> None:
        """Go on from there."""
        if snapshot is None:
            return
        self._smooth, self._stepwise, raised = snapshot
        self._loop = None if raised else self._loop

    def advance(self, run: Run) -> Updates:
        """Make a chunk of updates, or one."""
        if self._loop is None:
            return step(run, None)
        if self._stepwise > 0:
            self._stepwise -= 1
            return step(run, None)
        updates = Updates.none()
        if self._failed is None:
            updates = self._many(run, self._loop)
        if updates.elbo or run.status is not None:
            return updates
        # Counted in updates, not in chunks, whose length is a matter of speed: the iterates of
        # the loop and of single steps differ by rounding.
        if self._smooth < _RARELY:
            self._stepwise = _RARELY
        self._smooth = 0
        failed, self._failed = self._failed, None
        return step(run, failed)

    def _many(self, run: Run, loop: Loop) -> Updates:
        evaluator, noise, size = run.evaluator, run.noise, run.batch_size
        if evaluator.interrupted.is_set():
            raise Interrupted
        if evaluator.remaining < size or evaluator.late:
            raise Exhausted
        before = run.seconds
        chunk = 1 if self._one_by_one else self._chunk
        ahead = max(1.0, run.ahead)
        steps = int(min(chunk, loop.max_steps, evaluator.remaining // size, ahead))
        rows = noise.rows(noise.position, steps * size)
        try:
            result = loop(run.state, rows, steps, run.volume_at_start)
        except Exception as error:
            # A target with host callbacks may raise. Step by step, that is one bad score; the
            # steps before it are the loop's, wherever the chunk happened to begin.
            if steps > 1:
                self._one_by_one = steps
                return self._many(run, loop)
            self._loop = None
            run.notes.append(
                f"the compiled loop raised {type(error).__name__}; went on step by step"
            )
            return step(run, None)
        done = len(result.elbo)
        first = evaluator.spent
        evaluator.spent += done * size
        noise.position += done * size
        elapsed = run.seconds - before
        # Chunks of a tenth of a second: limits in time and Ctrl-C are heeded between them.
        self._chunk = max(1, int(steps * min(4.0, _CHUNK_SECONDS / max(elapsed, 1e-9))))
        self._one_by_one = max(0, self._one_by_one - 1)
        self._smooth += done
        self._failed = result.failed
        run.accept(result.state, done, result.last)
        return Updates(
            [first + size * (k + 1) for k in range(done)],
            [before + elapsed * (k + 1) / done for k in range(done)],
            result.elbo.tolist(),
            result.fisher.tolist(),
            result.drift.tolist(),
        )


def step(run: Run, evaluation: Evaluation | None) -> Updates:
    """Make one update; ``evaluation`` is the batch's if it is already known and paid for."""
    batch, fisher, elbo = run.take_batch(evaluation)
    run.notice(batch)
    try:
        state, run.info = run.solver.step(run.state, batch)
    except np.linalg.LinAlgError as error:
        run.status = ending.failed(run, error)
        return Updates.none()
    before = run.num_updates
    if run.status is None:
        run.accept(state, 1, batch)
    if run.num_updates == before:  # a run may end with an update that was made
        return Updates.none()
    moved = float(drift(batch.whitened_score))
    # A batch may come from elsewhere than q.
    elbo, fisher = getattr(run.info, "elbo", elbo), getattr(run.info, "fisher", fisher)
    return Updates([run.evaluator.spent], [run.seconds], [elbo], [fisher], [moved])
