"""One round of NUTS in compiled code, for targets in JAX: no gradient passes through Python.

All chains run by the same compiled function (:mod:`scorevi.sampling.compiled_loop`), each for some
hundredths of a second at a time, the one with the fewest draws next; in between it is seen whether
the time is over or the user wants to stop. A round is a function of starts, step size and seeds,
however it was divided. Chains take turns and are not computed side by side, because XLA gains
little by that on a CPU, where trajectories of different lengths wait for the longest, and takes
twice as long to compile.

Near the end of its budget a chain makes draws of as many doublings as it can still pay for, and
ends, without the draw, at the first that would have taken more. So a budget is never exceeded.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor, wait

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted
from scorevi.base.extras import require
from scorevi.families import Gaussian
from scorevi.sampling.compiled_loop import CAUSES, LOW_START, ROWS, Now, Row, loop_of
from scorevi.sampling.running import Stretch
from scorevi.targets.jax import JaxTarget

_STATS = {
    "lp": "log_density",
    "energy": "energy",
    "diverging": "diverging",
    "tree_depth": "depth",
    "reached_max_treedepth": "reached_depth",
    "n_steps": "steps",
    "acceptance_rate": "acceptance",
}
"""ArviZ's names, and those of the rows; the step size is known."""
_PATIENCE = 0.1
"""Seconds between two looks at whether the user wants to stop."""
_TURN = 0.05
"""Seconds from which on a turn is long enough."""
_STEPS = 32
"""Of the first turns, which tell how long a step takes."""
_UNBOUNDED = 1 << 60
"""Gradients, where there is no limit."""


class _Chain:
    """One chain, between two turns.

    Parameters
    ----------
    white
        The coordinates.
    evaluator
        Who has the target, a budget, and the account of what was bad; it evaluates at the start,
        and is told of what was evaluated without it.
    start
        Where the chain begins, in the target's space.
    draws
        How many there are to be.
    seed
        Below 2⁶⁴.
    """

    def __init__(
        self, white: Gaussian, evaluator: Evaluator, start: Array, draws: int, seed: int
    ) -> None:
        self.evaluator = evaluator
        self.drawn = 0
        self._white, self._start, self._draws = white, start, draws
        self._key = np.array(divmod(seed, 1 << 32), dtype=np.uint32)
        self._now: Now | None = None
        self._over = False
        self._rows: list[Row] = []

    @property
    def ended(self) -> bool:
        """Whether it has all its draws, or can have no more."""
        return self._over or self.drawn == self._draws

    def advance(self, mean: Array, factor: Array, step_size: float, steps: int) -> None:
        """Make some draws, in so many steps and what the last of them takes."""
        if self._now is None:
            self._begin()
        if self._now is None:
            self._over = True
            return
        assert isinstance(self.evaluator.target, JaxTarget)
        room = min(ROWS, self._draws - self.drawn)
        result = loop_of(self.evaluator.target)(
            self._now, mean, factor, step_size, self._key, self.drawn, room, steps
        )
        now, made, rows = require("jax").tree.map(np.asarray, result)
        self.evaluator.spent += int(self._now.left - now.left)
        self._now, self._over = now, bool(now.over)
        self._take(Row(*(column[: int(made)] for column in rows)))

    def _begin(self) -> None:
        """Evaluate at the start; nothing begins where not even that may be spent."""
        z = np.asarray(self._white.whiten(self._start))
        try:
            pair = self.evaluator.point(self._start)
        except Exhausted:
            return
        left = min(self.evaluator.remaining, _UNBOUNDED)
        counts = (np.int64(left), np.int64(1), np.int64(pair is None), np.bool_(False))
        if pair is None:
            self._now = Now(z, np.float64(LOW_START), np.zeros_like(z), *counts)
        else:
            score = np.asarray(self._white.factor.T @ pair.score)
            self._now = Now(z, np.float64(pair.log_density), score, *counts)

    def _take(self, rows: Row) -> None:
        """Keep draws, and enter what was bad on the way."""
        self.drawn += len(rows.steps)
        self._rows.append(rows)
        for place in np.flatnonzero(rows.bad):
            point = self._white.unwhiten(rows.bad_z[place][None])[0]
            self.evaluator.bad.add(point, CAUSES[rows.bad[place] - 1])

    def stretch(self, step_size: float) -> Stretch:
        """Return what was drawn."""
        if not self._rows:
            empty = np.empty(0)
            return Stretch(
                np.empty((0, self._white.dim)), dict.fromkeys((*_STATS, "step_size"), empty)
            )
        rows = Row(*(np.concatenate(columns) for columns in zip(*self._rows, strict=True)))
        stats = {name: getattr(rows, ours) for name, ours in _STATS.items()}
        stats["step_size"] = np.full(self.drawn, step_size)
        return Stretch(np.asarray(self._white.unwhiten(rows.z)), stats)


def run(
    evaluators: Sequence[Evaluator],
    white: Gaussian,
    starts: Array,
    draws: int,
    step_size: float,
    seeds: Sequence[int],
) -> tuple[list[Stretch], bool]:
    """Run all chains of a round; returns also whether the user stopped it.

    Parameters
    ----------
    evaluators
        Of each chain, with a budget of its own and a target in JAX.
    white
        The coordinates.
    starts
        Of each chain, (chains, D).
    draws
        Of each chain.
    step_size
        In whitened coordinates.
    seeds
        Of each chain.
    """
    chains = [
        _Chain(white, evaluator, start, draws, seed)
        for evaluator, start, seed in zip(evaluators, starts, seeds, strict=True)
    ]
    stopped = False
    # In a thread, so that Ctrl-C waits for the end of a turn and nothing that was spent is lost.
    with ThreadPoolExecutor(1) as thread:
        running = thread.submit(_take_turns, chains, white, step_size)
        while not running.done():
            try:
                wait([running], timeout=_PATIENCE)
            except KeyboardInterrupt:
                stopped = True
                for evaluator in evaluators:
                    evaluator.interrupted.set()
    running.result()
    return [chain.stretch(step_size) for chain in chains], stopped


def _take_turns(chains: Sequence[_Chain], white: Gaussian, step_size: float) -> None:
    """Go on with the chain that has the fewest draws, until all have ended or are to end."""
    jax = require("jax")
    steps = _STEPS
    with jax.enable_x64(True):
        mean, factor = jax.device_put((white.mean, white.factor))
        while unfinished := [chain for chain in chains if not chain.ended]:
            chain = min(unfinished, key=lambda one: one.drawn)
            if chain.evaluator.interrupted.is_set() or chain.evaluator.late:
                return
            began, before = time.perf_counter(), chain.evaluator.spent
            chain.advance(mean, factor, step_size, steps)
            used = chain.evaluator.spent - before
            if used >= steps and time.perf_counter() - began < _TURN:
                steps *= 2
