"""The course of a fit: q at checkpoints, by gradients spent and time taken.

Both ways take the same noise for the same seed, so that a run does not depend on its company.
"""

from __future__ import annotations

import math
import time
from collections.abc import Generator, Iterator, Sequence
from typing import Any, NamedTuple, cast

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import Noise
from scorevi.base.target import Target
from scorevi.engine.compiled import Lanes
from scorevi.engine.run import Run
from scorevi.engine.settings import Settings
from scorevi.families import Gaussian
from scorevi.fit import make_run
from scorevi.solvers import Solver
from scorevi.starts.start import Initial
from scorevi.targets.jax import JaxTarget


class Moment(NamedTuple):
    """A fit at a checkpoint."""

    q: Gaussian
    gradients: int
    seconds: float


class Marks:
    """A watcher that wants to look at certain numbers of gradients."""

    def __init__(self, grid: Sequence[int]) -> None:
        self._grid = grid
        self._due = 0
        self.reached = False
        """Whether the last update came to the mark that was due."""
        self.next_update = 1.0

    def begin(self, run: Run) -> None:
        """Do nothing."""

    def look(self, run: Run) -> None:
        """See whether the mark is reached, and when the next one will be."""
        spent = run.evaluator.spent
        self.reached = run.num_updates > 0 and spent >= self._grid[self._due]
        if self.reached:
            self._due = min(sum(mark <= spent for mark in self._grid), len(self._grid) - 1)
        missing = math.ceil((self._grid[self._due] - spent) / run.batch_size)
        self.next_update = run.num_updates + max(1, missing)

    def end(self, run: Run) -> None:
        """Do nothing."""


def checkpoints(most: int, per_decade: int, marks: Sequence[int] = ()) -> list[int]:
    """Return numbers of gradients, evenly spaced on the log scale up to ``most``, and the marks.

    Examples
    --------
    >>> checkpoints(100, 4, marks=[50])
    [2, 3, 6, 10, 18, 32, 50, 56, 100]
    """
    count = math.ceil(per_decade * math.log10(most / 2))
    grid = {round(most * 10 ** (-k / per_decade)) for k in range(count + 1)}
    return sorted(grid | {mark for mark in marks if mark <= most})


def follow(
    target: Target,
    solver: Solver,
    grid: Sequence[int],
    *,
    seed: int,
    initial: Initial = None,
    chunked: bool = False,
) -> Generator[Moment, None, str]:
    """Yield q at, or just after, each number of gradients in the grid, and at the end.

    The time is that of the fit; what is done between two moments is not counted, nor is the time
    to compile.

    Returns
    -------
    str
        How the run ended, as the value of the generator.
    """
    run = make_run(target, solver, Settings(seed, initial, grid[-1], chunked=chunked))
    marks = Marks(grid)
    updates = run.updates(marks)
    seconds, seen = 0.0, 0
    while True:
        began = time.perf_counter()
        done = next(updates, None)
        seconds += time.perf_counter() - began
        if done is None:
            break
        if marks.reached:
            yield Moment(cast("Gaussian", run.q), run.evaluator.spent, seconds - run.compiling)
            seen = run.num_updates
    if run.num_updates > seen:
        yield Moment(cast("Gaussian", run.q), run.evaluator.spent, seconds - run.compiling)
    return str(run.status)


def follow_together(
    target: JaxTarget, solver: Solver, grid: Sequence[int], seeds: Sequence[int], start: Gaussian
) -> Iterator[dict[int, Moment]]:
    """Yield the moments of several seeds at each number of gradients in the grid, by seed.

    All run in one compiled loop; each is charged its share of the time. A seed that meets a score
    or an update that is not finite is in no later moment: :func:`follow` knows what to do with it.
    """
    batch_size = solver.batch_size_for(target.dim)
    lanes = Lanes(target, solver, batch_size, len(seeds))
    first = solver.init(start)
    # Every entry of a state, numbers included, gets an axis for the lanes.
    states = _stacked(first, len(seeds))
    alive = np.ones(len(seeds), dtype=bool)
    volume = np.full(len(seeds), start.log_volume)
    noise = [Noise(seed, target.dim) for seed in seeds]
    lanes(states, alive, _noise(noise, 0, batch_size), volume)  # compiles
    steps, seconds = 0, 0.0
    for mark in grid:
        wanted = mark // batch_size if mark == grid[-1] else math.ceil(mark / batch_size)
        began = time.perf_counter()
        before = steps
        while steps < wanted:
            few = min(wanted - steps, lanes.max_steps)
            states, alive = lanes(states, alive, _noise(noise, few, batch_size), volume)
            steps += few
        seconds += (time.perf_counter() - began) / len(seeds)
        if steps > before:
            yield {
                seed: Moment(_q_of(states, lane), steps * batch_size, seconds)
                for lane, seed in enumerate(seeds)
                if alive[lane]
            }


def _noise(streams: Sequence[Noise], steps: int, batch_size: int) -> Array:
    """Return the next noise of all streams, (lanes, steps, B, D)."""
    rows = np.stack([one.take(steps * batch_size) for one in streams])
    return rows.reshape(len(streams), steps, batch_size, rows.shape[-1])


def _stacked(state: Any, count: int) -> Any:
    import jax

    return jax.tree.map(lambda value: np.stack([np.asarray(value)] * count), state)


def _q_of(states: Any, lane: int) -> Gaussian:
    q = states.q
    return Gaussian(q.mean[lane].copy(), q.factor[lane].copy(), float(q.log_det[lane]))
