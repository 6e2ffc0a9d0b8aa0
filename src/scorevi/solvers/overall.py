r"""A mixture in few dimensions, by importance weights.

Where y given t is known, one evaluation at (t, y) tells the density of t itself: whatever Gaussian
:math:`q(y \mid t)` the y was drawn from, :math:`E[p(t, y)/q(y \mid t)] = p(t)`. So all draws of all
stages weigh what they weigh against the mixture of what all their t were drawn from (AMIS), and a
mixture of Gaussians is fitted to them by expectation maximisation, which has the mean and the
covariance that the weighted draws have.

References
----------
Cornuet, Marin, Mira and Robert (2012), Adaptive multiple importance sampling, *Scandinavian Journal
of Statistics* 39. Cappé, Douc, Guillin, Marin and Robert (2008), Adaptive importance sampling in
general mixture classes, *Statistics and Computing* 18.
"""

from __future__ import annotations

import math

import numpy as np
import scipy.special

from scorevi.base.arrays import Array
from scorevi.families import Gaussian, Mixture
from scorevi.families.gaussian import HALF_LOG_2PI

_ROUNDS, _STILL = 30, 1e-3
"""Of expectation maximisation: at most, and the change of a weight at which it ends."""
_MOST = 10, 6
"""Components: at most, in one dimension, and for each further one."""
_EACH = 12
"""Effective draws for each component and dimension."""
_PRIOR = 2.0
"""Draws that a component's covariance is worth before it has seen any."""
_AROUND, _AT_ENDS, _BEYOND, _NARROW = (1.6, 0.12), 0.2, 1e-3, 0.5
"""Draws from around the whole mixture: by how much wider, and in what share; those at its ends: in
what share, what part of the weight lies beyond, and how narrow they are, in standard deviations."""
_TAILS, _TAIL, _FATTER = 0.01, 0.02, 2.0
"""Components at the ends: their weight, what part lies beyond where they are, and how wide they
are, in mean distances of that. They keep the importance weights of what is outside from being
large, on each side by as much as its tail is long: a scale's logarithm may have a long one below,
and none above."""
_FAR = 10
_TEMPERED = 0.25
_FEWEST = 6.0
"""Effective draws of a component that stays."""


def importance(log_ratio: Array) -> Array:
    """Return normalised weights, the largest shortened to √n times their mean.

    References
    ----------
    Ionides (2008), Truncated importance sampling, *JCGS* 17.
    """
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    log_mean = float(scipy.special.logsumexp(log_ratio)) - math.log(len(log_ratio))
    log_ratio = np.minimum(log_ratio, log_mean + 0.5 * math.log(len(log_ratio)))
    return np.asarray(np.exp(log_ratio - scipy.special.logsumexp(log_ratio)))


def mixture_of(t: Array, weight: Array) -> Mixture:
    """Fit a mixture to weighted points."""
    dim = t.shape[1]
    effective = 1.0 / float(weight @ weight)
    most = min(_MOST[0] + _MOST[1] * (dim - 1), int(effective / (_EACH * dim)))
    mean = weight @ t
    off = t - mean
    covariance = (off.T * weight) @ off
    covariance[np.diag_indices(dim)] += 1e-9 * np.trace(covariance) / dim + 1e-300
    whole = _gaussian(mean, covariance)
    if most < 2:
        return Mixture(log_weights=np.zeros(1), components=[whole])
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, off.T).T
    means = white[_spread(white, weight, most)]
    narrow = len(means) ** (-2.0 / dim)
    covariances = np.tile(narrow * np.eye(dim), (len(means), 1, 1))
    log_weights = np.full(len(means), math.log1p(-_TAILS) - math.log(len(means)))
    tails = _ends(whole, t, weight, _TAIL, None)
    log_each = math.log(_TAILS / len(tails))
    log_tails = np.array([tail.log_density(t) for tail in tails]).T + log_each
    # As the densities of the others are: of whitened points, and without their constant.
    log_tails += whole.log_det + dim * HALF_LOG_2PI
    for _ in range(_ROUNDS):
        log_parts = log_weights + _log_normal(white, means, covariances)
        both = np.concatenate([log_parts, log_tails], axis=1)
        share = np.exp(log_parts - scipy.special.logsumexp(both, axis=1, keepdims=True))
        share *= weight[:, None]
        total = share.sum(axis=0)
        seen = total**2 / np.maximum((share**2).sum(axis=0), 1e-300)
        kept = seen > _FEWEST
        share, total, seen = share[:, kept], total[kept], seen[kept]
        means = (share.T @ white) / total[:, None]
        away = white[:, None, :] - means
        spread = np.einsum("nk,nka,nkb->kab", share / total, away, away)
        prior = narrow * np.eye(dim) * (_PRIOR / (seen + _PRIOR))[:, None, None]
        covariances = spread * (seen / (seen + _PRIOR))[:, None, None] + prior
        before, log_weights = log_weights[kept], np.log((1.0 - _TAILS) * total / total.sum())
        if np.abs(np.exp(log_weights) - np.exp(before)).max() < _STILL:
            break
    parts = [
        _gaussian(mean + root @ one, root @ each @ root.T)
        for one, each in zip(means, covariances, strict=True)
    ]
    log_weights = np.append(log_weights, np.full(len(tails), log_each))
    return Mixture(log_weights=log_weights, components=[*parts, *tails])


def wider(over: Mixture, t: Array, weight: Array) -> Mixture:
    """Return what to draw from: the mixture, a little from around it, and from beyond its ends.

    Those are where one draw in a thousand lies beyond, along each axis, to each side.
    """
    around = over.coordinates
    ends = _ends(around, t, weight, _BEYOND, _NARROW)
    shares = [_AROUND[1], *(_AT_ENDS / len(ends) for _ in ends)]
    weights = np.append((1.0 - sum(shares)) * over.weights, shares)
    return Mixture(weights, [*over.components, around.scaled(_AROUND[0]), *ends])


def farthest(t: Array, weight: Array) -> float:
    """Return what the ten farthest points weigh, along the axis and to the side where it is most.

    Where that is not little, there is more to find beyond them.
    """
    order = np.argsort(t, axis=0)
    return float(
        max(weight[order[:_FAR]].sum(axis=0).max(), weight[order[-_FAR:]].sum(axis=0).max())
    )


def _ends(
    around: Gaussian, t: Array, weight: Array, beyond: float, width: float | None
) -> list[Gaussian]:
    """Return Gaussians where a part of the weight lies beyond, along each axis, to each side.

    Elsewhere they are as wide as all; along their axis ``width`` times that, or by how far it is
    to what lies beyond.
    """
    return [
        _end(around, t[:, axis], weight, axis, level, width)
        for axis in range(around.dim)
        for level in (beyond, 1.0 - beyond)
    ]


def _end(
    around: Gaussian, along: Array, weight: Array, axis: int, level: float, width: float | None
) -> Gaussian:
    order = np.argsort(along)
    last = int(np.searchsorted(np.cumsum(weight[order]), level))
    place = float(along[order[min(last, len(order) - 1)]])
    if width is None:
        side = along > place if level > 0.5 else along < place
        far = float(weight[side] @ np.abs(along[side] - place))
        width = _FATTER * far / max(float(weight[side].sum()), 1e-300) / around.sd[axis]
        width = min(max(width, _NARROW**4), 1.0 / _NARROW)
    unit = np.eye(around.dim)[axis]
    way = around.factor.T @ unit / around.sd[axis]
    away = (place - float(around.mean[axis])) / around.sd[axis]
    root = np.eye(around.dim) + (width - 1.0) * np.outer(way, way)
    return around.moved(away * way, root, math.log(width))


def _spread(white: Array, weight: Array, count: int) -> Array:
    """Return points far from each other, among those that matter at all."""
    tempered = weight**_TEMPERED
    matters = np.flatnonzero(tempered >= 1e-3 * tempered.max())
    points, tempered = white[matters], tempered[matters]
    chosen = [int(np.argmax(tempered))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        away = points - points[chosen[-1]]
        nearest = np.minimum(nearest, np.vecdot(away, away))
        chosen.append(int(np.argmax(nearest * tempered)))
    return np.asarray(matters[chosen])


def _log_normal(points: Array, means: Array, covariances: Array) -> Array:
    roots = np.linalg.cholesky(covariances)
    away = (points[:, None, :] - means).transpose(1, 2, 0)
    white = np.linalg.solve(roots, away)
    log_det = np.log(np.diagonal(roots, axis1=1, axis2=2)).sum(axis=1)
    return np.asarray((-0.5 * (white**2).sum(axis=1) - log_det[:, None]).T)


def _gaussian(mean: Array, covariance: Array) -> Gaussian:
    root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return Gaussian(mean, root, float(np.log(np.diag(root)).sum()))
