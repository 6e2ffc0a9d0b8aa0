"""The start that is chosen by trying: ``initial="auto"``.

A posterior may lie far from zero, be far narrower or wider than N(0, I), have several modes, or
none, or a funnel whose neck draws every climb. So short fits, racers, begin in several places, and
the one with the best ELBO goes on. They are tried in turn, and the first that is beyond doubt ends
the search:

1. A racer from N(0, I), or N(x, I) around a point x that the user gave. Where it comes to explain
   the scores of its draws the posterior is near Gaussian, and that is the start. Where the first
   draws say that the posterior is very far away, it is spared.
2. A racer from the end of an L-BFGS climb, with the curvature that the climb has seen. It may sit
   in the neck of a funnel, where the posterior is near Gaussian as well, to the eye of draws from
   there. So its q is made four times as wide, and climbs the ELBO (:mod:`scorevi.starts.wide`):
   from beside a neck it does not come back.
3. A racer from where a wide Gaussian climbs to: one of width 1 around the point, or, where the
   posterior is far away, around the end of the climb, whichever is better after a few steps.

Where all pairs seen fit a linear score to rounding, the posterior is Gaussian as far as anyone can
tell, and the search ends at once. It never takes more than half of the budget. Everything that the
winner has seen is handed on.
"""

from __future__ import annotations

import contextlib
import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted
from scorevi.base.pairs import Pair
from scorevi.families import Gaussian
from scorevi.starts.climb import Ascent, curvature_gaussian
from scorevi.starts.paths import gaussian_of
from scorevi.starts.race import Racer
from scorevi.starts.wide import Wide, WideClimb

_DRAWS = 6
_GOOD_ENOUGH = 0.5
"""The Fisher residual of a N(0, I) that needs no search."""
_FAR = 1e8
"""The median residual of draws so far away that no fit from there arrives: scores 10⁴ too long."""
_WIDER = 4.0
_TEST, _HEAT = 64, 48
"""Gradients to come back in, and for each wide climb before the best goes on."""
_NATURAL = 0.1
"""A parameter's unit, as a share of its size, where that is large."""


class Choice(NamedTuple):
    """Where to start, and what was seen on the way."""

    q: Gaussian
    pairs: list[Pair]
    """Those that tell of q."""
    seen: list[Pair]
    """All of them, but those of wide climbs."""
    note: str
    """What was done, in words."""


class _Won(Exception):
    """The search can end."""


def choose(evaluator: Evaluator, rng: np.random.Generator, point: Array) -> Choice:
    """Return the best of what was tried.

    Parameters
    ----------
    evaluator, rng
        The target with its budget, and randomness.
    point
        The user's guess, or zero: the first racer begins at N(point, I), and the climb there.
    """
    around = Gaussian(point, np.eye(len(point)), 0.0)
    if evaluator.remaining < _DRAWS:
        return Choice(around, [], [], "the budget is too small to choose a start")
    before = evaluator.spent
    search = _Search(evaluator, rng, around)
    with contextlib.suppress(Exhausted, _Won):
        search.run()
    best, count = search.best, len(search.racers)
    note = f"the start was chosen among {count} for {evaluator.spent - before} gradients"
    return Choice(best.q, [*best.given, *best.pairs], search.seen, note)


class _Search:
    """The race: racers enter one after another."""

    def __init__(self, evaluator: Evaluator, rng: np.random.Generator, around: Gaussian) -> None:
        self._evaluator, self._rng, self._around = evaluator, rng, around
        self.racers = [Racer(evaluator, around)]
        self._climbed: list[Pair] = []
        self._length = 2 * (around.dim + 2) + 40

    @property
    def best(self) -> Racer:
        """The racer with the highest ELBO; the first where none has any."""
        return max(self.racers, key=lambda racer: racer.elbo)

    @property
    def seen(self) -> list[Pair]:
        """All pairs of the climb and of the racers."""
        return [*self._climbed, *(pair for racer in self.racers for pair in racer.pairs)]

    def run(self) -> None:
        """Race; raises :class:`_Won` where there is no doubt."""
        first = self.racers[0]
        batch = first.look(self._rng, _DRAWS)
        residuals = first.residuals
        if float(residuals.mean()) <= _GOOD_ENOUGH or not self._evaluator.target.has_log_density:
            raise _Won
        is_far = not float(np.median(residuals)) <= _FAR
        if not is_far:
            first.move(batch)
            first.run(self._rng, self._length)
            if first.is_settled:
                raise _Won
        end = self._from_the_climb(is_far)
        self._from_wide(end if is_far else None)

    def _from_the_climb(self, is_far: bool) -> Array | None:
        """Race from the end of a climb; returns that end."""
        evaluator, dim = self._evaluator, self._around.dim
        ascent = Ascent(evaluator)
        self._climbed = ascent.pairs
        ascent.climb(self._around.mean, at_most=60 + 2 * dim if is_far else 30 + dim)
        if not ascent.path:
            return None
        exact = gaussian_of(ascent.pairs)
        if exact is not None:
            self._enter(exact, ascent.pairs).look(self._rng, _DRAWS)
            raise _Won
        q = curvature_gaussian(ascent.path)
        if q is not None and (is_far or ascent.converged):
            racer = self._enter(q, ascent.pairs)
            racer.run(self._rng, self._length)
            if racer.is_settled and self._comes_back(racer.q):
                raise _Won
        return ascent.path[-1].theta

    def _from_wide(self, end: Array | None) -> None:
        """Race from where a wide Gaussian climbs to."""
        climbs = [self._wide_climb(self._around)]
        if end is not None:
            unit = np.ones(len(end))
            widths = unit, unit + _NATURAL * np.abs(end)
            climbs += [
                self._wide_climb(Gaussian(end, np.diag(width), float(np.log(width).sum())))
                for width in widths
            ]
            for climb in climbs:
                climb.climb(1.0, _HEAT)
        climb = max(climbs, key=lambda one: one.elbo)
        climb.climb(1.0, 400 + 4 * self._around.dim)
        if climb.q is not None:
            self._enter(climb.q, []).run(self._rng, self._length)

    def _wide_climb(self, q: Gaussian) -> WideClimb:
        return WideClimb(self._evaluator, q, self._rng)

    def _comes_back(self, q: Gaussian) -> bool:
        """Whether a Gaussian four times as wide as q climbs back to it."""
        near = 0.5 * math.sqrt(q.dim)

        def is_home(wide: Wide) -> bool:
            width = float(np.abs(wide.log_width).mean())
            return float(np.linalg.norm(wide.shift)) < near and width < 0.35

        climb = self._wide_climb(q)
        climb.climb(_WIDER, _TEST, is_home)
        return climb.best is not None and is_home(climb.best)

    def _enter(self, q: Gaussian, pairs: list[Pair]) -> Racer:
        racer = Racer(self._evaluator, q, *pairs)
        self.racers.append(racer)
        return racer
