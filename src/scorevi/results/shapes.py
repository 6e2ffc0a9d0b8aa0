"""The figures behind the pictures, for matplotlib and for reports alike."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from scorevi.base.arrays import Array
from scorevi.families import Approximation, Mixture, Nested
from scorevi.results.structure import between
from scorevi.results.table import LEVELS

REACH = 3.5
"""Standard deviations beyond the outermost component that matters."""
_MATTERS = 1e-3
_POINTS = 240
SCORES: Array = scipy.special.ndtri(LEVELS)
"""The normal scores of the levels."""
_SMOOTHED = 3
"""Times that slopes are averaged with their neighbours'."""
_WINDOWS = 40
"""Of the course, with a median each."""
_BEST_ORDER = 300
"""The most leaves of a tree that are put into their best order, which takes their square."""
_BLOCK = 512
_MOST_NUMBERS, _FEWEST_LOOKED_AT = 25_000_000, 250
"""Entries of a matrix, and coordinates, by which correlations are looked at."""


class Curve(NamedTuple):
    """A density, and those of the components that it is the sum of."""

    x: Array
    density: Array
    parts: Array
    """Shape (K, points); K = 0 where there are none, or one."""


def components_of(q: Approximation) -> tuple[Array, tuple[Approximation, ...]]:
    """Return the weights and the components; a Gaussian is one of its own."""
    if isinstance(q, Nested):
        q = q.as_mixture
    return (q.weights, q.components) if isinstance(q, Mixture) else (np.ones(1), (q,))


def reach_of(weights: Array, means: Array, sds: Array) -> Array:
    """Return points along a marginal, from end to end."""
    matters = weights >= _MATTERS
    low, high = (means - REACH * sds)[matters].min(), (means + REACH * sds)[matters].max()
    return np.linspace(low, high, _POINTS)


def exact_curve(q: Approximation, number: int) -> Curve:
    """Return the density of one coordinate of q."""
    weights, parts = components_of(q)
    means = np.array([part.mean[number] for part in parts])
    sds = np.array([part.sd[number] for part in parts])
    x = reach_of(weights, means, sds)
    z = (x - means[:, None]) / sds[:, None]
    each = weights[:, None] * np.exp(-0.5 * z**2) / (sds[:, None] * np.sqrt(2.0 * np.pi))
    shows_parts = len(parts) > 1 and isinstance(q, Mixture)
    return Curve(x, each.sum(axis=0), each if shows_parts else each[:0])


def sampled_curve(quantiles: Array) -> Curve:
    """Return a density from quantiles at :data:`LEVELS` that come from draws.

    As a function of the normal score u of its level, a quantile of a Gaussian is a line, and of
    most others smooth. So its slope s is smoothed there, and the density is that of the normal
    distribution over s.
    """
    steps = np.diff(quantiles) / np.diff(SCORES)
    if not (np.isfinite(steps).all() and (steps > 0.0).all()):  # not continuous
        return Curve(np.empty(0), np.empty(0), np.empty((0, 0)))
    for _ in range(_SMOOTHED):
        padded = np.concatenate([steps[:1], steps, steps[-1:]])
        steps = 0.25 * padded[:-2] + 0.5 * steps + 0.25 * padded[2:]
    u = np.linspace(SCORES[0], SCORES[-1], _POINTS)
    slope = np.interp(u, 0.5 * (SCORES[1:] + SCORES[:-1]), steps)
    x = np.concatenate([[0.0], np.cumsum(0.5 * (slope[1:] + slope[:-1]) * np.diff(u))])
    x += quantiles[len(quantiles) // 2] - np.interp(0.0, u, x)
    density = np.exp(-0.5 * u**2) / (np.sqrt(2.0 * np.pi) * slope)
    return Curve(x, density, np.empty((0, _POINTS)))


def running_median(gradients: NDArray[np.int64], values: Array) -> tuple[Array, Array]:
    """Return places along the course and the median of the values around each."""
    known = np.isfinite(values)
    places, values = np.asarray(gradients[known], dtype=np.float64), values[known]
    if not len(values):
        return places, values
    count = len(values) // max(1, len(values) // _WINDOWS)
    windows = np.array_split(np.arange(len(values)), count)
    middles = (np.array([np.median(column[w]) for w in windows]) for column in (places, values))
    return next(middles), next(middles)


class Survey(NamedTuple):
    """The strongest correlations among all coordinates of q."""

    largest: Array
    """That of each coordinate with any other, as a size, (D,)."""
    pairs: list[tuple[int, int, float]]
    """The strongest pairs, the first of them first."""


def survey(q: Approximation, most: int) -> Survey:
    """Look at all correlations, block by block, and keep the strongest ``most``.

    Where there are too many coordinates, only at those of them that the others tell most about.
    """
    numbers = _candidates(q)
    # Single precision is enough to choose by, and half the work.
    rows = _loadings(q, numbers).astype(np.float32)
    largest = np.zeros(q.dim)
    found: list[tuple[int, int, float]] = []
    for start in range(0, len(numbers), _BLOCK):
        block = rows[start : start + _BLOCK] @ rows.T
        size = np.abs(block)
        own = np.arange(start, start + len(size))
        size[np.arange(len(size)), own] = 0.0
        largest[numbers[own]] = size.max(axis=1, initial=0.0)
        size[np.arange(len(numbers)) <= own[:, None]] = 0.0
        count = min(most, size.size)
        at = np.argpartition(-size, count - 1, axis=None)[:count]
        for i, j in zip(*np.unravel_index(at, size.shape), strict=True):
            if size[i, j] > 0.0:
                found.append((int(numbers[own[i]]), int(numbers[j]), float(block[i, j])))
    return Survey(largest, sorted(found, key=lambda pair: -abs(pair[2]))[:most])


def _candidates(q: Approximation) -> NDArray[np.intp]:
    """Return the coordinates whose correlations are looked at."""
    count = max(_FEWEST_LOOKED_AT, _MOST_NUMBERS // q.dim)
    given_others: Array | None = getattr(q, "conditional_sd", None)
    if q.dim <= count or given_others is None:
        return np.arange(min(q.dim, count))
    return np.sort(np.argsort(given_others / q.sd, kind="stable")[:count])


def strongest(q: Approximation, most: int, largest: Array | None = None) -> NDArray[np.intp]:
    """Return the coordinates that are correlated most with any other, at most so many, in order."""
    if q.dim <= most:
        return np.arange(q.dim)
    largest = survey(q, 1).largest if largest is None else largest
    return np.sort(np.argsort(-largest, kind="stable")[:most])


def correlations(q: Approximation, numbers: NDArray[np.intp]) -> tuple[NDArray[np.intp], Array]:
    """Return coordinates with what goes together side by side, and their correlations."""
    from scipy.cluster import hierarchy  # here, because few ask for it, and it takes long to import

    rows = _loadings(q, numbers)
    matrix = np.clip(rows @ rows.T, -1.0, 1.0)
    if len(numbers) > 2:
        apart = np.maximum(0.0, 1.0 - np.abs(matrix[np.triu_indices(len(numbers), 1)]))
        tree = hierarchy.linkage(apart, "average", optimal_ordering=len(numbers) <= _BEST_ORDER)
        order = hierarchy.leaves_list(tree)
        numbers, matrix = numbers[order], matrix[np.ix_(order, order)]
    return numbers, matrix


def telling(q: Approximation, most: int) -> NDArray[np.intp]:
    """Return the coordinates to look at first: what tells components apart, or is correlated."""
    if isinstance(q, Nested):
        rest = [j for j in strongest(q, most) if j not in q.scales]
        return np.array([*q.scales, *rest], dtype=np.intp)[:most]
    if isinstance(q, Mixture) and len(q.components) > 1:
        return np.argsort(-between(q), kind="stable")[:most]
    return strongest(q, most)


def weight_tail(log_ratio: Array) -> tuple[Array, Array]:
    """Return importance weights over their mean, largest first, and the share at or above each."""
    known = log_ratio[np.isfinite(log_ratio)]
    weights = np.sort(np.exp(known - known.max(initial=-np.inf)))[::-1]
    share = np.arange(1, len(weights) + 1) / max(1, len(log_ratio))
    return weights * len(log_ratio) / max(weights.sum(), 1e-300), share


def covariance_of(q: Approximation, numbers: NDArray[np.intp]) -> Array:
    """Return the covariance of some coordinates; that of all need not fit into memory."""
    rows = _factor_rows(q, numbers)
    return np.asarray(rows @ rows.T)


def _factor_rows(q: Approximation, numbers: NDArray[np.intp]) -> Array:
    """Return rows of a square root of the covariance, whatever form q has it in, (n, D)."""
    white = q.coordinates
    factor: Array | None = getattr(white, "factor", None)
    if factor is not None:
        return np.asarray(factor[numbers])
    units = np.zeros((len(numbers), q.dim))
    units[np.arange(len(numbers)), numbers] = 1.0
    return np.asarray(white.whiten_score(units))


def _loadings(q: Approximation, numbers: NDArray[np.intp]) -> Array:
    """Return rows whose products are the correlations, (n, D)."""
    return _factor_rows(q, numbers) / q.sd[numbers, None]
