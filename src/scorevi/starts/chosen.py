"""The start that is chosen by trying: ``initial="auto"``.

A posterior may lie far from zero, be far narrower or wider than N(0, I), have several modes, or
none. So a few candidates are made, and judged by the median of log p − log q on a handful of draws:

1. N(0, I), or N(x, I) around a point x that the user gave. If its Fisher residual is already
   small, that is the start; cost: 6 gradients.
2. L-BFGS from the same point and from seven within (−2, 2)^D of it, 24 evaluations each: after
   half as many the path to a minor mode is often the higher one. The best two climb on for up to
   28 more. The end of each path and a point half way, with the curvature that the path has seen up
   to there, are candidates: on a posterior without a mode the end is worthless.
3. Where all pairs seen fit a linear score to rounding, the search ends: the posterior is Gaussian
   as far as anyone can tell, and the Gaussian that they determine is a candidate.

At most 288 gradients, never more than half of the budget. All pairs seen are handed on. The idea of
judging Gaussians along optimisation paths by the ELBO is Pathfinder's (arXiv 2108.03782).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.estimates import fisher_residual
from scorevi.base.evaluate import Evaluator, Exhausted
from scorevi.base.pairs import Pair
from scorevi.families import Gaussian
from scorevi.solvers.memory import regress
from scorevi.starts.climb import Ascent, curvature_gaussian

_DRAWS = 6
_STARTS, _MOST_TRIED = 8, 16
_FIRST, _MORE, _SURVIVORS = 24, 28, 2
_GOOD_ENOUGH = 0.5


class Judged(NamedTuple):
    """A candidate and what a few draws from it say."""

    q: Gaussian
    elbo: float
    fisher: float


def choose(
    evaluator: Evaluator, rng: np.random.Generator, point: Array
) -> tuple[Gaussian, list[Pair], str]:
    """Return the best candidate, all pairs seen, and what was done in words.

    Parameters
    ----------
    evaluator, rng
        The target with its budget, and randomness.
    point
        The user's guess, or zero: the first candidate is N(point, I), and the first climb begins
        there.
    """
    pairs: list[Pair] = []
    before = evaluator.spent
    around = Gaussian(point, np.eye(len(point)), 0.0)
    if evaluator.remaining < _DRAWS:
        return around, pairs, "the budget is too small to choose a start"
    guess = _judge(around, evaluator, rng, pairs)
    judged = [guess]
    try:
        if guess.fisher > _GOOD_ENOUGH and evaluator.target.has_log_density:
            others = point + rng.uniform(-2.0, 2.0, (_MOST_TRIED - 1, len(point)))
            ascents = _ascents(evaluator, [point, *others], pairs)
            exact = gaussian_of(pairs)
            found = [exact] if exact else [q for ascent in ascents for q in _along(ascent.path)]
            for q in found:  # one by one: those judged before the budget ends count
                judged.append(_judge(q, evaluator, rng, pairs))  # noqa: PERF401
    except Exhausted:
        pass
    best = max(judged, key=lambda candidate: candidate.elbo)
    note = f"the start was chosen among {len(judged)} for {evaluator.spent - before} gradients"
    return best.q, pairs, note


def _ascents(evaluator: Evaluator, points: Sequence[Array], pairs: list[Pair]) -> list[Ascent]:
    """Climb a little from eight points that have a score, on from the best two; returns these.

    None where the pairs seen on the way are those of a Gaussian.
    """
    ascents: list[Ascent] = []
    for point in points:
        if len(ascents) == _STARTS:
            break
        ascent = Ascent(evaluator)
        ascent.climb(point, at_most=_FIRST)
        pairs += ascent.pairs
        if ascent.pairs:
            ascents.append(ascent)
        if gaussian_of(pairs):
            return []
    ascents.sort(key=lambda ascent: -ascent.highest)
    for ascent in ascents[:_SURVIVORS]:
        if not ascent.converged:
            seen = len(ascent.pairs)
            ascent.climb(ascent.path[-1].theta, at_most=_MORE)
            pairs += ascent.pairs[seen:]
    return ascents[:_SURVIVORS]


def gaussian_of(pairs: Sequence[Pair]) -> Gaussian | None:
    """Return the Gaussian whose score is that of all pairs to rounding, if there is one."""
    if not pairs or len(pairs) < len(pairs[0].theta) + 2:
        return None
    theta = np.array([pair.theta for pair in pairs])
    evidence = regress(theta, np.array([pair.score for pair in pairs]), np.ones(len(pairs)))
    if evidence is None or not evidence.linear:
        return None
    values, vectors = np.linalg.eigh(evidence.precision)
    if not values[0] > max(evidence.rounding, 1e-10 * values[-1]):
        return None
    mean = vectors @ ((vectors.T @ evidence.intercept) / values)
    return Gaussian(mean, vectors / np.sqrt(values), -0.5 * float(np.log(values).sum()))


def judge_path(ascent: Ascent, evaluator: Evaluator, rng: np.random.Generator) -> Judged | None:
    """Return the best Gaussian along a path, if there is any."""
    judged = [_judge(q, evaluator, rng, []) for q in _along(ascent.path)]
    return max(judged, key=lambda candidate: candidate.elbo, default=None)


def _along(path: list[Pair]) -> list[Gaussian]:
    """Return Gaussians half way along a path and at its end, with the curvature seen so far."""
    found = []
    for length in sorted({(len(path) + 1) // 2, len(path)}):
        q = curvature_gaussian(path[:length])
        if q is not None:
            found.append(q)
    return found


def _judge(
    q: Gaussian, evaluator: Evaluator, rng: np.random.Generator, pairs: list[Pair]
) -> Judged:
    """Draw from a candidate. Where fewer than half of the scores exist it is out of the running."""
    theta, z, _, log_q = q.points(rng.standard_normal((_DRAWS, q.dim)))
    evaluation = evaluator(theta)
    good = evaluator.usable(evaluation)
    evaluator.note_bad(theta, evaluation, good)
    if good.sum() < _DRAWS / 2:
        return Judged(q, -math.inf, math.inf)
    z, score = z[good], evaluation.score[good]
    fisher = float(fisher_residual(z, q.whiten_score(score)))
    log_density = evaluation.log_density
    if log_density is None:
        pairs += [Pair(t, g, math.nan) for t, g in zip(theta[good], score, strict=True)]
        return Judged(q, -fisher, fisher)
    log_density = log_density[good]
    pairs += [Pair(t, g, float(v)) for t, g, v in zip(theta[good], score, log_density, strict=True)]
    # The median of log p − log q: one draw in a far tail must not decide over a candidate.
    elbo = float(np.median(log_density - log_q[good]))
    # A q that leaves the support with share s of its draws has at best the ELBO of its part inside.
    return Judged(q, elbo + math.log(float(good.mean())), fisher)
