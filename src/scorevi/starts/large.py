"""Starts without a D × D array, for a q of a diagonal and directions.

Racers, as in :mod:`scorevi.starts.chosen`: one from N(point, 0.01·I), which sees the scores
straight and widens as long as they are; one from N(point, I); and one from the end of an L-BFGS
climb with the curvature that it has seen. The one with the best ELBO after a few steps goes on; the
first that comes to explain the scores of its draws, at once.
"""

from __future__ import annotations

import contextlib
import math

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted, TooManyBadScores
from scorevi.families import LowRank
from scorevi.solvers.low_rank import LowRankReplay, LowRankState
from scorevi.starts.climb import Ascent, curvature_low_rank
from scorevi.starts.race import Racer

_DRAWS, _RACE = 8, 64
"""Gradients of the first look, and of each racer."""
_CLIMB = 256
_NARROW = 0.1
_GOOD_ENOUGH, _CERTAIN = 0.5, 0.1
"""Fisher residuals: of a start that needs no search, and of a racer that has arrived."""
_FAR = 1e6
"""The median residual of draws so far away that no fit from there arrives."""


def choose_large(
    evaluator: Evaluator, rng: np.random.Generator, point: Array, solver: LowRankReplay
) -> tuple[LowRankState, str]:
    """Return the better of what was tried, to go on from, and what was done in words."""
    around = at_point(point).scaled(_NARROW)
    if evaluator.remaining < _DRAWS:
        return solver.init(around), "the budget is too small to choose a start"
    before = evaluator.spent
    racers = [Racer(evaluator, around, solver=solver)]
    with contextlib.suppress(Exhausted, TooManyBadScores, np.linalg.LinAlgError):
        _race(racers, evaluator, rng, point, solver)
    best = max(racers, key=lambda racer: racer.elbo)
    note = f"the start was chosen among {len(racers)} for {evaluator.spent - before} gradients"
    return solver.init(around) if best.is_lost else best.state, note


def at_point(point: Array) -> LowRank:
    """Return N(point, I)."""
    return LowRank(point, np.ones(len(point)), log_det=0.0)


def _race(
    racers: list[Racer],
    evaluator: Evaluator,
    rng: np.random.Generator,
    point: Array,
    solver: LowRankReplay,
) -> None:
    first = racers[0]
    batch = first.look(rng, _DRAWS)
    residuals = first.residuals
    if float(residuals.mean()) <= _GOOD_ENOUGH or not evaluator.target.has_log_density:
        return
    first.move(batch)
    if first.run(rng, _RACE, _CERTAIN):
        return
    racers.append(Racer(evaluator, at_point(point), solver=solver))
    second = racers[-1]
    batch = second.look(rng, _DRAWS)
    if float(np.median(second.residuals)) <= _FAR:
        second.move(batch)
        if second.run(rng, _RACE, _CERTAIN):
            return
    ascent = Ascent(evaluator)
    ascent.climb(point, at_most=min(_CLIMB, evaluator.remaining - _RACE))
    q = curvature_low_rank(ascent.path) if ascent.path else None
    if q is not None and math.isfinite(q.log_det):
        racers.append(Racer(evaluator, q, solver=solver))
        racers[-1].run(rng, _RACE, _CERTAIN)
