"""Gaussians along the path of a climb, judged by a few draws."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.evaluate import Evaluator
from scorevi.families import Approximation, Gaussian, LowRank
from scorevi.starts.climb import Ascent, curvature_gaussian, curvature_low_rank

_DRAWS = 6


class Judged(NamedTuple):
    """A candidate and what a few draws from it say."""

    q: Gaussian | LowRank
    elbo: float


def judge_path(
    ascent: Ascent, evaluator: Evaluator, rng: np.random.Generator, like: Approximation
) -> Judged | None:
    """Return the best of the Gaussians half way along a path and at its end, if there is any.

    In the way in which ``like`` has its covariance.
    """
    path = ascent.path
    curvature = curvature_low_rank if isinstance(like, LowRank) else curvature_gaussian
    found = [curvature(path[:end]) for end in {(len(path) + 1) // 2, len(path)}]
    judged = [_judge(q, evaluator, rng) for q in found if q is not None]
    return max(judged, key=lambda candidate: candidate.elbo, default=None)


def _judge(q: Gaussian | LowRank, evaluator: Evaluator, rng: np.random.Generator) -> Judged:
    """Draw from a candidate. Where fewer than half of the scores exist it is out of the running."""
    theta, _, _, log_q = q.points(rng.standard_normal((_DRAWS, q.dim)))
    evaluation, good = evaluator.noted(theta)
    if good.sum() < _DRAWS / 2 or evaluation.log_density is None:
        return Judged(q, -math.inf)
    # The median of log p − log q: one draw in a far tail must not decide over a candidate.
    elbo = float(np.median(evaluation.log_density[good] - log_q[good]))
    # A q that leaves the support with share s of its draws has at best the ELBO of its part inside.
    return Judged(q, elbo + math.log(float(good.mean())))
