"""Modes outside of a q: climbs from many places, and short fits where they lead."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Sequence
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted, TooManyBadScores
from scorevi.base.pairs import Pair
from scorevi.families import Approximation, Gaussian, LowRank, Mixture
from scorevi.starts.climb import Ascent, is_within
from scorevi.starts.paths import Judged, judge_path
from scorevi.starts.race import Racer

CLIMB = 20
_NEAR, _FAR, _WIDE = 4, 6, 9.0
"""How many climbs begin within (−2, 2)^D and outside q, how far outside, and their length."""
_GRADIENTS, _RINGS = 400, 3
_PER_DIMENSION = 20
"""Gradients for all climbs, and over D + 2 for the fit at each mode."""
_BEHIND = 8.0
"""Nats by which a mode may hold less than q, to be worth a component."""
_SETTLED = 0.01
_MOST, _ROUNDS = 8, 3
_AFAR, _DIRECTIONS, _LANDINGS, BACK = 10.0, 6, 4, 3.0
"""How far away it is asked whether scores lead back, over √D; along how many directions, to both
sides; in how many of Newton's steps; and to how near the mean."""


class Mode(NamedTuple):
    """A Gaussian outside of q."""

    q: Gaussian
    elbo: float
    pairs: tuple[Pair, ...]
    """What it was found by."""


def outside(
    q: Approximation,
    evaluator: Evaluator,
    rng: np.random.Generator,
    gradients: int,
    *,
    rings: int = 1,
) -> list[Judged]:
    """Climb from many places, for so many gradients at most; return what is found outside of q.

    Climbs from outside of it begin on rings around it, each twice as wide as the one before.
    """
    found: list[Judged] = []
    before = evaluator.max_gradients
    most = evaluator.spent + gradients
    evaluator.max_gradients = most if before is None else min(before, most)
    try:
        for judged in _climbs(q, evaluator, rng, rings):
            found.append(judged)  # noqa: PERF402  (what came before the end of the budget is kept)
    except (Exhausted, TooManyBadScores):
        pass
    finally:
        evaluator.max_gradients = before
    return found


def _climbs(
    q: Approximation, evaluator: Evaluator, rng: np.random.Generator, rings: int
) -> Iterator[Judged]:
    for point in [*rng.uniform(-2.0, 2.0, (_NEAR, q.dim)), *_around(q.coordinates, rng, rings)]:
        ascent = Ascent(evaluator)
        ascent.climb(point, at_most=CLIMB)
        if ascent.path and not ascent.converged and not is_within(q, ascent.path[-1].theta):
            ascent.climb(ascent.path[-1].theta, at_most=CLIMB)
        if not ascent.path or is_within(q, ascent.path[-1].theta):
            continue
        judged = judge_path(ascent, evaluator, rng, q)
        if judged is not None and not is_within(q, judged.q.mean):
            yield judged


def landings(q: Gaussian, evaluator: Evaluator, rng: np.random.Generator) -> list[Array]:
    """Return where scores from far away lead, if that is not q.

    Where the posterior is q, one of Newton's steps leads back from anywhere, so that this costs a
    gradient for each of at most twelve points. Another mode as wide, 10 sd away, is nearer than q
    to at least one of them in 997 of 1,000 cases, in any number of dimensions.
    """
    dim = q.dim
    axes = np.linalg.qr(rng.standard_normal((dim, min(dim, _DIRECTIONS))))[0].T
    places = _AFAR * math.sqrt(dim) * np.concatenate([axes, -axes])
    for _ in range(_LANDINGS):
        evaluation, good = evaluator.noted(np.asarray(q.unwhiten(places)))
        places = places[good] + np.asarray(q.whiten_score(evaluation.score[good]))
        places = places[np.linalg.norm(places, axis=1) > BACK]
        if not len(places):
            break
    return list(np.asarray(q.unwhiten(places)))


def modes_outside(
    q: Gaussian,
    level: float,
    evaluator: Evaluator,
    rng: np.random.Generator,
    points: Sequence[Array] = (),
) -> list[Mode]:
    """Return the modes that hold a part of the posterior, given the ELBO of q.

    Those at points that are known to be elsewhere come first. More are looked for from around all
    that are known, as long as that finds any. A round costs at most 400 gradients, and 20(D + 2)
    for each mode; all of them no more than half of what is left.
    """
    found: list[Mode] = []
    before = evaluator.max_gradients
    most = math.inf if before is None else (before + evaluator.spent) // 2
    try:
        evaluator.max_gradients = None if before is None else int(most)
        for point in points:
            found += _at(point, [q, *(mode.q for mode in found)], level, evaluator, rng)
        for _ in range(_ROUNDS):
            known = Mixture(np.ones(1 + len(found)), [q, *(mode.q for mode in found)])
            judged = outside(known, evaluator, rng, _GRADIENTS, rings=_RINGS)
            more = _fitted(judged, known, level, evaluator, rng)
            found += more
            if not more or len(found) >= _MOST:
                break
    except (Exhausted, TooManyBadScores):
        pass
    finally:
        evaluator.max_gradients = before
    return found


def _at(
    point: Array,
    known: Sequence[Gaussian],
    level: float,
    evaluator: Evaluator,
    rng: np.random.Generator,
) -> list[Mode]:
    """Fit a Gaussian from a point, unless something is known there, and keep it if it holds enough.

    It begins as wide as the first that is known.
    """

    def is_known(place: Array) -> bool:
        return any(float(one.distance(place)) < BACK for one in known)

    if is_known(point):
        return []
    racer = Racer(evaluator, dataclasses.replace(known[0], mean=point))
    racer.run(rng, _PER_DIMENSION * (len(point) + 2), _SETTLED)
    if racer.is_lost or is_known(racer.q.mean) or not racer.elbo > level - _BEHIND:
        return []
    return [Mode(racer.q, racer.elbo, tuple(racer.pairs))]


def _fitted(
    judged: list[Judged],
    known: Mixture,
    level: float,
    evaluator: Evaluator,
    rng: np.random.Generator,
) -> list[Mode]:
    """Fit a Gaussian to each of what climbs have found, and keep what holds enough."""
    found: list[Mode] = []
    for candidate in sorted(judged, key=lambda one: -one.elbo)[:_MOST]:
        is_known = any(is_within(mode.q, candidate.q.mean) for mode in found)
        if is_known or not candidate.elbo > level - 2 * _BEHIND:
            continue
        racer = Racer(evaluator, candidate.q)
        racer.run(rng, _PER_DIMENSION * (known.dim + 2), _SETTLED)
        if racer.is_lost or is_within(known, racer.q.mean):
            continue
        if racer.elbo > level - _BEHIND:
            found.append(Mode(racer.q, racer.elbo, tuple(racer.pairs)))
    return found


def _around(q: Gaussian | LowRank, rng: np.random.Generator, rings: int = 1) -> Array:
    """Return points far outside q on all sides: both ends of random orthogonal directions."""
    dim = q.dim
    radius = math.sqrt(dim) + _WIDE
    ends: list[Array] = []
    while len(ends) < rings * _FAR:
        axes = np.linalg.qr(rng.standard_normal((dim, min(dim, _FAR // 2))))[0].T
        ends += [sign * radius * axis for axis in axes for sign in (1.0, -1.0)]
        radius *= 2.0
    return np.asarray(q.unwhiten(np.array(ends[: rings * _FAR])))
