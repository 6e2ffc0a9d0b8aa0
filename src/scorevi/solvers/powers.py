r"""The powers of scales in the precision of everything else.

Powers ½, 1 and 2 of scales and their inverses, products of two, and the powers half way between two
that were chosen, one by one, the one first that leaves least, as long as pairs that had no part in
it are explained better. Where a scale is known well, its powers look alike: so all are then moved
together to where a regression leaves least, by Gauss and Newton's steps with the matrices
eliminated, and rounded to halves.

References
----------
Golub and Pereyra (1973), The differentiation of pseudo-inverses and nonlinear least squares
problems whose variables separate, *SIAM Journal on Numerical Analysis* 10.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.solvers.terms import (
    EXACT,
    FOLD,
    RIDGE,
    LeastSquares,
    cross_validated,
    design_of,
    middle_of,
    regressed,
    residual_of,
)

POWERS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
_IN_PRODUCTS = (-2.0, -1.0, 1.0, 2.0)
RANGE = 0.01, 5.0
"""Rates, in the standard deviations of q, that can be seen and that are no wall."""
_MOST_TERMS = 8
BETTER = 0.85
"""What a further term must leave at most, of what was left before."""
_NO_WORSE = 1.02
"""The same of a term that is left out."""
SPARE = 1.3
"""Pairs for each coefficient of a score."""
_TRIED, _KEPT = 4, 24
"""Terms of which each is tried; and of which one may be the next but one."""
_STEPS, _SHORT = 5, 0.05
"""Steps by which powers are moved, and how short the last is."""
_LARGEST = 4.0
"""Power of a scale."""
_ROWS = 2
"""Pairs, over the coefficients of a score, by which they are."""
_LONGEST = 40.0
_ENOUGH, _PER_COLUMN = 400, 4
"""Pairs by which terms are put into an order: at least, and for each dimension."""
_FEWEST, _FOR_EACH, _FURTHER = 800, 3, 3
"""Pairs by which they are chosen: at least, and for each coefficient of the terms that there are
and of so many more."""
_COLUMNS = 16
"""Combinations of scores by which terms are compared before all scores are asked."""


class Chosen(NamedTuple):
    """Terms."""

    rates: Array
    """(J, d); the first row is zero."""
    left: float
    """Mean square of what they leave of the scores of pairs that had no part in it."""
    before: float
    """The same of a line."""


def chosen(
    t: Array, y: Array, h: Array, weight: Array, units: Array, known: Array | None = None
) -> Chosen:
    """Choose the rates of the terms.

    Parameters
    ----------
    t, y, h
        Pairs: scales, all else, and the scores of all else.
    weight
        How much each counts.
    units
        Rows that turn t into what the parameters are in their own units, (d, d).
    known
        Rates to begin with, the first of them zero: those that explain the scores by fewer scales,
        or did by fewer pairs.
    """
    number = t.shape[1]
    columns = y.shape[1] + 1 + number
    rates = np.zeros((1, number))
    begun = rates if known is None else known
    asked = max(_FEWEST, _FOR_EACH * columns * min(_MOST_TERMS, len(begun) + _FURTHER))
    every = max(1, len(t) // asked)
    t, y, h, weight = (part[::every] for part in (t, y, h, weight))
    most = min(_MOST_TERMS, int(len(t) * (1.0 - 1.0 / FOLD) / (SPARE * columns)))
    left = before = cross_validated(rates, t, y, h, weight)
    least = EXACT * before
    at_first = cross_validated(begun, t, y, h, weight) if len(begun) > 1 else math.inf
    if at_first < BETTER * before and len(begun) < most:
        rates, left = begun, at_first
    candidates = _candidates(units)
    while len(rates) < most and left > least:
        residual = residual_of(regressed(rates, t, y, h, weight), t, y, h)
        likely = [*candidates, *_between(rates)]
        if not likely:
            break
        new = np.exp(t @ np.array(likely).T)
        order = np.argsort(gains(np.exp(t @ rates.T), new, t, y, residual, weight))
        likely = [likely[k] for k in order[-_KEPT:]]
        candidates = [one for one in candidates if any(one is other for other in likely)]
        tried = [np.vstack([rates, one]) for one in likely[-_TRIED:]]
        lefts = [cross_validated(more, t, y, h, weight) for more in tried]
        best = int(np.argmin(lefts))
        if not lefts[best] < BETTER * left:
            break
        more, then = tried[best], lefts[best]
        if then > least:
            other = moved(more, t, y, h, weight, units)
            is_sane = _is_sane(other, units)
            after = cross_validated(other, t, y, h, weight) if is_sane else math.inf
            more, then = (other, after) if after < BETTER * then else (more, then)
        rates, left = _without_needless(more, then, least, t, y, h, weight)
    return Chosen(rates, left, before) if left < at_first else Chosen(begun, at_first, before)


def _candidates(units: Array) -> list[Array]:
    """Return the rates of powers of each scale, and of products of two, that can be seen."""
    single = [power * row for row in units for power in POWERS]
    double = [
        a * one + b * other
        for one, other in itertools.combinations(units, 2)
        for a in _IN_PRODUCTS
        for b in _IN_PRODUCTS
    ]
    reach = np.array([*single, *double]).reshape(-1, len(units))
    size = np.sqrt(np.vecdot(reach, reach))
    return list(reach[(size >= RANGE[0]) & (size <= RANGE[1])])


def _without_needless(
    rates: Array, left: float, least: float, t: Array, y: Array, h: Array, weight: Array
) -> tuple[Array, float]:
    """Leave out terms without which no more is left: the last one may be what they stood for."""
    for k in range(len(rates) - 2, 0, -1):
        fewer = np.delete(rates, k, axis=0)
        without = cross_validated(fewer, t, y, h, weight)
        if without < _NO_WORSE * left or without < least:
            rates, left = fewer, min(left, without)
    return rates, left


def _between(rates: Array) -> list[Array]:
    """Return rates half way between two: where squares have those, their products have these."""
    ways = [0.5 * (one + other) for one, other in itertools.combinations(rates, 2)]
    return [way for way in ways if np.abs(rates - way).max(axis=1).min() > 0.5 * RANGE[0]]


def _is_sane(rates: Array, units: Array) -> bool:
    """Return whether these are rates of different terms, and none of a power that no model has."""
    powers = np.linalg.solve(units.T, rates.T)
    differ = np.abs(rates[:, None] - rates).max(axis=2) + np.eye(len(rates))
    return bool(np.abs(powers).max() <= _LARGEST and differ.min() > 0.5 * RANGE[0])


def moved(rates: Array, t: Array, y: Array, h: Array, weight: Array, units: Array) -> Array:
    """Move all powers to where a regression leaves least, and round them to halves."""
    width = len(rates) * (1 + t.shape[1] + y.shape[1])
    every = max(1, len(t) // (_ROWS * width))
    t, y, h, weight = (part[::every] for part in (t, y, h, weight))
    h = _sketched(h)
    own = t @ units.T
    powers = np.asarray(np.linalg.solve(units.T, rates.T).T, dtype=np.float64)
    for _ in range(_STEPS):
        change = _step(powers, own, t, y, h, weight)
        powers[1:] += np.clip(change, -1.0, 1.0)
        if np.abs(change).max() < _SHORT:
            break
    return np.asarray((np.round(2.0 * powers) / 2.0) @ units)


def _step(powers: Array, own: Array, t: Array, y: Array, h: Array, weight: Array) -> Array:
    """Return by how much powers should change, with all matrices as they then should be."""
    count, further = len(t), len(powers) - 1
    number = own.shape[1]
    each = np.exp(np.clip(own @ powers.T, -_LONGEST, _LONGEST))
    design = design_of(each - middle_of(each, weight), t, y)
    squares = LeastSquares(design, weight)
    coefficients = squares.solve(h)
    off = h - design @ coefficients
    intercepts, slopes = np.split(coefficients, [(1 + further) * (1 + number)])
    ones = np.concatenate([np.ones((count, 1)), t], axis=1)
    means = ones @ intercepts.reshape(1 + further, 1 + number, -1)[1:]
    means += y @ slopes.reshape(1 + further, y.shape[1], -1)[1:]
    each = each[:, 1:, None] * own[:, None, :]
    ways = (each[..., None] * means.transpose(1, 0, 2)[:, :, None, :]).reshape(count, -1)
    ways -= design @ squares.solve(ways)
    ways *= np.sqrt(weight)[:, None]
    flat = ways.reshape(count, further * number, -1).swapaxes(0, 1).reshape(further * number, -1)
    gram, right = flat @ flat.T, flat @ (off * np.sqrt(weight)[:, None]).ravel()
    sizes = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    found = np.linalg.lstsq(gram / sizes / sizes[:, None], right / sizes, rcond=1e-12)[0]
    return np.asarray((found / sizes).reshape(further, number))


def gains(known: Array, new: Array, t: Array, y: Array, residual: Array, weight: Array) -> Array:
    """Return how much of the residuals each of several further terms explains, about.

    Parameters
    ----------
    known, new
        The values of terms at the pairs, (n, J) and (n, C).
    t, y, residual
        Scales, all else, and what the known terms leave of its scores.
    weight
        How much each pair counts.
    """
    every = max(1, len(t) // max(_ENOUGH, _PER_COLUMN * y.shape[1]))
    known, new, t, y, residual, weight = (
        part[::every] for part in (known, new, t, y, residual, weight)
    )
    root = np.sqrt(weight)[:, None]
    basis = np.linalg.qr(known * root)[0]
    new = new * root
    new = new - basis @ (basis.T @ new)
    columns = np.concatenate([np.ones((len(t), 1)), t, y], axis=1)
    design = new.T[:, :, None] * columns
    across = design.transpose(0, 2, 1)
    gram, right = across @ design, across @ (_sketched(residual) * root)
    sizes = np.sqrt(np.maximum(np.diagonal(gram, axis1=1, axis2=2), 1e-300))
    gram = gram / sizes[:, :, None] / sizes[:, None, :] + RIDGE * np.eye(columns.shape[1])
    right = right / sizes[:, :, None]
    return np.asarray(every * (right * np.linalg.solve(gram, right)).sum(axis=(1, 2)))


def _sketched(values: Array) -> Array:
    """Return a few combinations of columns that have, together, as much of anything as they do."""
    width = values.shape[1]
    if width <= _COLUMNS:
        return values
    ways = np.random.default_rng(0).standard_normal((width, _COLUMNS))
    return np.asarray(values @ (ways / math.sqrt(_COLUMNS)))
