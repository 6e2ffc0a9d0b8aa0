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

from scorevi.base.arrays import Array
from scorevi.base.estimates import weighted_quantile
from scorevi.families import Gaussian, Mixture

_ROUNDS, _STILL = 30, 1e-3
"""Of expectation maximisation: at most, and the change of a weight at which it ends."""
_MOST, _MOST_WIDE = (10, 6), (3, 2)
"""Components: at most, in one dimension, and for each further one; the same of the wider part."""
_NOTHING = -600.0
"""The log density of a point that no component is near to, which all of them then share."""
_EACH = 12
"""Effective draws for each component and dimension."""
_PRIOR = 6.0
"""Draws that a component's covariance is worth before it has seen any."""
_AROUND, _AT_ENDS, _BEYOND, _NARROW = (1.6, 0.12), 0.2, 1e-3, 0.5
"""Draws from around the whole mixture: by how much wider, and in what share; those at its ends: in
what share, what part of the weight lies beyond, and how narrow they are, in standard deviations."""
TEMPERED, _TAILS = 0.7, 0.05
"""The power of a density that is wider, and its weight in the mixture: it keeps the importance
weights of what is outside from being large, on each side by as much as its tail is long. A scale's
logarithm may have a long one below, and none above."""
_FAR = 10
_SPREAD = 0.25
_FEWEST = 6.0
"""Effective draws of a component that stays."""


def importance(log_ratio: Array) -> Array:
    """Return normalised weights, the largest shortened to √n times their mean.

    Where there are none, one draw is worth one.

    References
    ----------
    Ionides (2008), Truncated importance sampling, *JCGS* 17.
    """
    log_ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    if not np.isfinite(log_ratio).any():
        return np.asarray(np.eye(1, len(log_ratio))[0])
    log_mean = float(np.logaddexp.reduce(log_ratio)) - math.log(len(log_ratio))
    log_ratio = np.minimum(log_ratio, log_mean + 0.5 * math.log(len(log_ratio)))
    return np.asarray(np.exp(log_ratio - np.logaddexp.reduce(log_ratio)))


def mixture_of(t: Array, weight: Array, wide: Array | None = None) -> Mixture:
    """Fit a mixture to weighted points; a part of it to other weights of the same, wider ones."""
    found = _fitted(t, weight, _MOST)
    if wide is None or len(found.weights) == 1:
        return found
    tails = _fitted(t, wide, _MOST_WIDE)
    weights = np.append((1.0 - _TAILS) * found.weights, _TAILS * tails.weights)
    return Mixture(weights, [*found.components, *tails.components])


def _fitted(t: Array, weight: Array, at_most: tuple[int, int]) -> Mixture:
    """Fit a mixture by expectation maximisation."""
    dim = t.shape[1]
    effective = 1.0 / float(weight @ weight)
    most = min(at_most[0] + at_most[1] * (dim - 1), int(effective / (_EACH * dim)))
    mean = weight @ t
    off = t - mean
    covariance = (off.T * weight) @ off
    covariance[np.diag_indices(dim)] += 1e-9 * np.trace(covariance) / dim + 1e-300
    if most < 2:
        return Mixture(log_weights=np.zeros(1), components=[_gaussian(mean, covariance)])
    root = np.linalg.cholesky(covariance)
    white = np.linalg.solve(root, off.T).T
    means = white[_spread(white, weight, most)]
    narrow = len(means) ** (-2.0 / dim)
    covariances = np.tile(narrow * np.eye(dim), (len(means), 1, 1))
    weights = np.full(len(means), 1.0 / len(means))
    # All that a Gaussian asks of a point: one product of matrices serves all components.
    square = (white[:, :, None] * white[:, None, :]).reshape(len(white), -1)
    asked = np.concatenate([np.ones((len(white), 1)), white, square], axis=1)
    for _ in range(_ROUNDS):
        share = _log_normal(asked, np.log(weights), means, covariances)
        np.exp(np.maximum(share, _NOTHING, out=share), out=share)
        share *= (weight / (share @ np.ones(len(means))))[:, None]
        sums = share.T @ asked
        seen = sums[:, 0] ** 2 / np.maximum(np.vecdot(share.T, share.T), 1e-300)
        kept = seen > min(_FEWEST, float(seen.max()) - 1e-9)
        sums, seen = sums[kept], seen[kept]
        total = sums[:, 0]
        averages = sums / total[:, None]
        means = averages[:, 1 : 1 + dim]
        spread = averages[:, 1 + dim :].reshape(-1, dim, dim)
        spread = spread - means[:, :, None] * means[:, None, :]
        prior = narrow * np.eye(dim) * (_PRIOR / (seen + _PRIOR))[:, None, None]
        covariances = spread * (seen / (seen + _PRIOR))[:, None, None] + prior
        before, weights = weights[kept], total / total.sum()
        if np.abs(weights - before).max() < _STILL:
            break
    parts = [
        _gaussian(mean + root @ one, root @ each @ root.T)
        for one, each in zip(means, covariances, strict=True)
    ]
    return Mixture(weights, parts)


def wider(over: Mixture, t: Array, weight: Array) -> Mixture:
    """Return what to draw from: the mixture, a little from around it, and from beyond its ends.

    Those are where one draw in a thousand lies beyond, along each axis, to each side.
    """
    around = over.coordinates
    ends = [
        _end(around, t[:, axis], weight, axis, level)
        for axis in range(around.dim)
        for level in (_BEYOND, 1.0 - _BEYOND)
    ]
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


def _end(around: Gaussian, along: Array, weight: Array, axis: int, level: float) -> Gaussian:
    """Return a narrower Gaussian where q(t) ends along an axis, elsewhere as wide as it is."""
    place = weighted_quantile(along, weight, level)
    unit = np.eye(around.dim)[axis]
    way = around.factor.T @ unit / around.sd[axis]
    away = (place - float(around.mean[axis])) / around.sd[axis]
    root = np.eye(around.dim) + (_NARROW - 1.0) * np.outer(way, way)
    return around.moved(away * way, root, math.log(_NARROW))


def _spread(white: Array, weight: Array, count: int) -> Array:
    """Return points far from each other, among those that matter at all."""
    tempered = weight**_SPREAD
    matters = np.flatnonzero(tempered >= 1e-3 * tempered.max())
    points, tempered = white[matters], tempered[matters]
    chosen = [int(np.argmax(tempered))]
    nearest = np.full(len(points), np.inf)
    while len(chosen) < min(count, len(points)):
        away = points - points[chosen[-1]]
        nearest = np.minimum(nearest, np.vecdot(away, away))
        chosen.append(int(np.argmax(nearest * tempered)))
    return np.asarray(matters[chosen])


def _log_normal(asked: Array, log_weights: Array, means: Array, covariances: Array) -> Array:
    """Return log densities but for a constant, (n, K), by one, the coordinates and their products.

    Points are in units of their own spread, and no covariance is far below a few hundredths of it,
    so that what is subtracted here loses no digits that count.
    """
    precisions = np.linalg.inv(covariances)
    linear = (precisions @ means[:, :, None])[:, :, 0]
    constant = log_weights - 0.5 * (np.vecdot(means, linear) + np.linalg.slogdet(covariances)[1])
    flat = precisions.reshape(len(means), -1)
    each = np.concatenate([constant[:, None], linear, -0.5 * flat], axis=1)
    return np.asarray(asked @ each.T)


def _gaussian(mean: Array, covariance: Array) -> Gaussian:
    root = np.asarray(np.linalg.cholesky(covariance), dtype=np.float64)
    return Gaussian(mean, root, float(np.log(np.diag(root)).sum()))
