"""The start that is chosen by trying: ``initial="auto"``.

A posterior may lie far from zero, be far narrower or wider than N(0, I), have several modes, or
none, or a funnel whose neck draws every climb. So short fits, racers, begin in several places, and
the one with the best ELBO goes on. They are tried in turn, and the first that is beyond doubt ends
the search:

1. A racer from N(0, I), or N(x, I) around a point x that the user gave, unless its first draws say
   that the posterior is very far away. One that comes to explain the scores of its draws was wide
   before it was narrow, and is beyond doubt.
2. A racer from the end of an L-BFGS climb, with the curvature that the climb has seen. Where it
   comes to explain the scores of its draws the posterior is near Gaussian, but it may sit in the
   neck of a funnel, which looks near Gaussian to draws from there. So its q is made four times as
   wide, and climbs the ELBO (:mod:`scorevi.starts.wide`): in a neck it does not come back. A few
   climbs from elsewhere then look for a better mode, and race against it.
3. A racer from where a wide Gaussian climbs to: one of width 1 around the point, or, where the
   posterior is far away, around the end of the climb, whichever is better after a few steps.

A Gaussian posterior is known by D + 2 draws, however far away it is, and the search ends at once,
but for at most twelve gradients far away, which show whether it is one of several modes. So does a
hierarchy whose form a solver makes out for certain by the pairs of the first racer.
It never takes more than half of the budget. Everything that the winner has seen is handed on.
"""

from __future__ import annotations

import contextlib
import dataclasses
import math
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted
from scorevi.base.pairs import Pair
from scorevi.families import Gaussian
from scorevi.solvers.base import Grows, Solver
from scorevi.solvers.memory import LARGE
from scorevi.starts.climb import Ascent, curvature_gaussian, is_within
from scorevi.starts.elsewhere import BACK, landings
from scorevi.starts.race import Racer
from scorevi.starts.wide import WideClimb, comes_back

_DRAWS, _EVIDENCE = 6, 20
"""Of N(0, I) at first, and where a fit from there fails, to show why."""
_NEARLY_EXACT, _GOOD_ENOUGH, _CERTAIN, _SETTLED, _MODE = 1e-3, 0.5, 0.1, 0.2, 1.0
"""Fisher residuals: of a q that is exact but for what is far away, of a N(0, I) that needs no
search, of racers from it and from climbs that are settled, and of one that is about a mode, so that
others are looked for."""
_PIECES, _PROGRESS = 12, 0.6
"""A racer goes on for so many pieces, as long as two bring its residual down by this factor."""
_FAR = 1e6
"""The median residual of draws so far away that no fit from there arrives: scores 10³ too long."""
_HEAT = 100
"""Gradients for each wide climb before the best goes on."""
_ELSEWHERE, _BESIDE = 7, 2.0
"""Climbs from other places to look for a better mode, and from how far away."""
_FIRST, _MORE, _SURVIVORS = 24, 28, 2
"""Their length, and how much further how many of them go."""
_BEHIND = 20.0
"""Nats below at which a mode is not raced from: it would have to be that much wider."""
_SEEN, _TO_KNOW = 12, 6
"""The last draws, by which a racer is near, and pairs for each dimension that tell of scales."""
_LAST = 4
"""Draws that a q must agree with to seem exact."""
_NATURAL = 0.05
"""What is wide for a parameter far from zero, as a share of its size."""


class Choice(NamedTuple):
    """Where to start, and what was seen on the way."""

    q: Gaussian
    pairs: list[Pair]
    """Those that tell of q."""
    seen: list[Pair]
    """Those, one after another, that score and log density may be compared by."""
    note: str
    """What was done, in words."""
    elsewhere: list[Array]
    """Points that other modes are at."""
    state: Any = None
    """That of a solver that knows what the posterior is, by the pairs."""


class _Won(Exception):
    """The search can end."""


def choose(
    evaluator: Evaluator,
    rng: np.random.Generator,
    point: Array,
    solver: Solver | Grows | None = None,
) -> Choice:
    """Return the best of what was tried.

    Parameters
    ----------
    evaluator, rng
        The target with its budget, and randomness.
    point
        The user's guess, or zero: the first racer begins at N(point, I), and the climb there.
    solver
        Where it can go on with more than one Gaussian, it is asked once whether the pairs of a
        racer say beyond doubt what the posterior is.
    """
    around = Gaussian(point, np.eye(len(point)), 0.0)
    if evaluator.remaining < _DRAWS:
        return Choice(around, [], [], "the budget is too small to choose a start", [])
    before = evaluator.spent
    search = _Search(evaluator, rng, around, solver)
    with contextlib.suppress(Exhausted, np.linalg.LinAlgError, _Won):
        search.run()
    with contextlib.suppress(Exhausted):
        search.ask_from_far()
    best, count = search.best, len(search.racers)
    if best.is_lost:
        best = Racer(evaluator, around)
    note = f"the start was chosen among {count} for {evaluator.spent - before} gradients"
    pairs = [*best.given, *best.pairs]
    return Choice(best.q, pairs, search.seen, note, search.elsewhere, search.state)


class _Search:
    """The race: racers enter one after another."""

    def __init__(
        self,
        evaluator: Evaluator,
        rng: np.random.Generator,
        around: Gaussian,
        solver: Solver | Grows | None,
    ) -> None:
        self._evaluator, self._rng, self._around = evaluator, rng, around
        self._grows = solver if isinstance(solver, Grows) else None
        self.state: Any = None
        self.racers = [Racer(evaluator, around)]
        self._climbed: list[Pair] = []
        self._length = 2 * (around.dim + 2) + 40
        self.elsewhere: list[Array] = []

    @property
    def best(self) -> Racer:
        """The racer with the highest ELBO; the first where none has any."""
        return max(self.racers, key=lambda racer: racer.elbo)

    @property
    def seen(self) -> list[Pair]:
        """Pairs to compare score and log density by; those of the climb lie close together."""
        return self._climbed or self.racers[0].pairs

    def run(self) -> None:
        """Race; raises :class:`_Won` where there is no doubt."""
        first = self.racers[0]
        batch = first.look(self._rng, _DRAWS)
        residuals = first.residuals
        if float(residuals.mean()) <= _GOOD_ENOUGH or not self._evaluator.target.has_log_density:
            raise _Won
        is_far = not float(np.median(residuals)) <= _FAR
        first.move(batch)
        # So many determine a Gaussian, however far it is.
        if first.run(self._rng, self._around.dim + 4, 0.0):
            raise _Won
        if first.is_lost:
            first.look(self._rng, _EVIDENCE)
            raise _Won
        is_slow = self._around.dim > LARGE and not self._is_near(first)
        if not (is_far or is_slow):
            self._from_the_point(first)
            self._ask(first)
        end = self._from_the_climb(is_far)
        if is_slow and not is_far:
            self._from_the_point(first)
        self._from_wide(end if is_far else None)
        if is_far:
            self._from_elsewhere(self.best.q)

    def ask_from_far(self) -> None:
        """Ask whether a q that seems exact is all there is, and race from elsewhere if not.

        What looks exactly Gaussian is a Gaussian, or one of several that are far apart.
        """
        best = self.best
        last = best.residuals[-_LAST:]
        is_exact = len(last) == _LAST and float(last.mean()) < _NEARLY_EXACT
        if not (is_exact or best.is_settled(_NEARLY_EXACT)):
            return
        points = landings(best.q, self._evaluator, self._rng)
        if points:
            self.elsewhere = [best.q.mean, *points]
        for point in points:
            if not any(float(racer.q.distance(point)) < BACK for racer in self.racers):
                there = dataclasses.replace(best.q, mean=point)
                self._enter(there, []).run(self._rng, self._length, _SETTLED)

    def _ask(self, racer: Racer) -> None:
        """Ask whether a racer that has come near has seen what the posterior is; then it has won.

        The posterior of a hierarchy is known exactly from a few times D pairs, long before any
        Gaussian has arrived.
        """
        dim, solver = self._around.dim, self._grows
        if solver is None or racer.is_lost:
            return
        if not solver.may_know(dim, self._evaluator.remaining):
            return
        if not self._is_near(racer):
            return
        racer.run(self._rng, _TO_KNOW * (dim + 1) - len(racer.pairs), 0.0)
        if not racer.is_lost:
            self.state = solver.known(racer.state)
        if self.state is not None:
            raise _Won

    def _is_near(self, racer: Racer) -> bool:
        return float(np.median(racer.residuals[-_SEEN:])) <= _MODE

    def _from_the_point(self, racer: Racer) -> None:
        """Race from N(point, I), as long as the scores come to agree."""
        piece = self._around.dim // 2 + 11
        course = [math.inf, math.inf]
        while len(course) < _PIECES:
            if racer.run(self._rng, piece, _CERTAIN):
                raise _Won
            course.append(float(np.median(racer.residuals[-piece:])))
            if not course[-1] < _PROGRESS * course[-3]:
                return

    def _from_the_climb(self, is_far: bool) -> Array | None:
        """Race from the end of a climb; returns that end."""
        evaluator, dim = self._evaluator, self._around.dim
        ascent = Ascent(evaluator)
        self._climbed = ascent.pairs
        ascent.climb(self._around.mean, at_most=60 + 2 * dim if is_far else 30 + dim)
        if not ascent.path:
            return None
        q = curvature_gaussian(ascent.path)
        if q is not None and (is_far or ascent.converged):
            racer = self._enter(q, ascent.pairs)
            racer.run(self._rng, self._length, _SETTLED)
            # A climb that does not end may be on its way down a neck, however settled q is there.
            if ascent.converged and racer.is_settled(_MODE):
                self._from_elsewhere(racer.q)
                best = self.best
                if best.is_settled(_SETTLED) and comes_back(evaluator, best.q, self._rng):
                    raise _Won
        return ascent.path[-1].theta

    def _from_elsewhere(self, q: Gaussian) -> None:
        """Look for modes as high as that of q, and race from there."""
        top = self._evaluator.point(q.mean)
        if top is None:
            return
        begun: list[Ascent] = []
        for offset in self._rng.uniform(-_BESIDE, _BESIDE, (2 * _ELSEWHERE, q.dim)):
            ascent = Ascent(self._evaluator)
            ascent.climb(self._around.mean + offset, _FIRST, q)
            begun += [ascent] if ascent.path else []  # no score there: another instead
            if len(begun) == _ELSEWHERE:
                break
        others = [ascent for ascent in begun if not is_within(q, ascent.path[-1].theta)]
        others.sort(key=lambda ascent: -ascent.highest)
        for ascent in others[:_SURVIVORS]:
            ascent.climb(ascent.path[-1].theta, _MORE, q)
            other = curvature_gaussian(ascent.path)
            is_low = ascent.highest < top.log_density - _BEHIND
            if other is not None and not is_low and not is_within(q, other.mean):
                self._enter(other, ascent.pairs).run(self._rng, self._length, _SETTLED)

    def _from_wide(self, end: Array | None) -> None:
        """Race from where a wide Gaussian climbs to."""
        climbs = [self._wide_climb(self._around)]
        if end is not None:
            width = 1.0 + _NATURAL * np.abs(end)
            there = Gaussian(end, np.diag(width), float(np.log(width).sum()))
            climbs.append(self._wide_climb(there))
            for climb in climbs:
                climb.climb(1.0, _HEAT)
        climb = max(climbs, key=lambda one: one.elbo)
        climb.climb(1.0, min(400 + 4 * self._around.dim, self._evaluator.remaining - self._length))
        if climb.q is not None:
            self._enter(climb.q, []).run(self._rng, self._length, 0.0)

    def _wide_climb(self, q: Gaussian) -> WideClimb:
        return WideClimb(self._evaluator, q, self._rng)

    def _enter(self, q: Gaussian, pairs: list[Pair]) -> Racer:
        racer = Racer(self._evaluator, q, *pairs)
        self.racers.append(racer)
        return racer
