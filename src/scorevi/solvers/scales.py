r"""Which parameters make a posterior Gaussian given them, and how: found from scores alone.

In a hierarchy the precision of everything else is a sum of terms, each proportional to a power of
some scale: :math:`P(t) = \sum_j e^{\rho_j \cdot t} B_j` with t the logarithms of the scales. The
scores across t are then *linear* in unknown matrices,

.. math:: h_y = \sum_j e^{\rho_j \cdot t} (a_{j0} + \sum_k t_k a_{jk} - B_j y),

so that a regression finds them; where the likelihood is normal, exactly, from a few times D pairs.

- *Which t.* The parameter along which the precision changes most: that for which the third
  derivatives :math:`N_{cd} = \sum_{ab} Q_{abc} Q_{abd}` of :mod:`scorevi.base.valley` are largest;
  then, with those taken out that the terms found so far explain, the next.
- *Which terms.* Powers ½, 1 and 2 of scales and their inverses, and products of two, one by one,
  the one first that leaves least, as long as pairs that had no part in it are explained better.

References
----------
Rue, Martino and Chopin (2009), Approximate Bayesian inference for latent Gaussian models by using
integrated nested Laplace approximations, *JRSS B* 71: models declared to be of this form.
"""

from __future__ import annotations

import itertools
import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array
from scorevi.base.valley import third_derivatives
from scorevi.families import Gaussian
from scorevi.families.given import Given
from scorevi.solvers.terms import (
    EXACT,
    FOLD,
    cross_validated,
    least_squares,
    parameters,
    regressed,
    residual_of,
)

MOST_SCALES = 4
_MOST_TERMS = 5
_POWERS = (-2.0, -1.0, -0.5, 0.5, 1.0, 2.0)
_IN_PRODUCTS = (-2.0, -1.0, 1.0, 2.0)
_RANGE = 0.01, 5.0
"""Rates, in the standard deviations of q, that can be seen and that are no wall."""
_BENT = 0.1, 0.0
"""The least |Q_u|² of the first scale, and of others."""
_OTHERWISE = 0.3
"""The part of a parameter that must not be known from the scales before it, as a length."""
_BETTER = 0.85
"""What a further term must leave at most, of what was left before."""
_NO_WORSE = 1.02
"""The same of a term that is left out."""
_SPARE = 1.3
"""Pairs for each coefficient of a score."""
_NOTHING = 0.05
"""Mean square of what is left of all scores, where nothing more need be found."""
_SHORT_LIST, _TRIED, _KEPT = 5, 4, 24
"""Parameters, and terms, of which each is tried; and terms of which one may be the next but one."""


class Structure(NamedTuple):
    """What makes a posterior Gaussian."""

    scales: tuple[int, ...]
    """The parameters."""
    turn: Array
    """Orthonormal columns: those of t in whitened coordinates, then all others, (D, D)."""
    given: Given
    before: float
    """Mean square of what one Gaussian leaves of the scores across t, all directions together."""
    left: float
    """The same given t, of pairs that had no part in it."""

    @property
    def explains(self) -> float:
        """The part of what is not Gaussian that it explains."""
        return 1.0 - self.left / self.before if self.before > 0.0 else 0.0


def structure(base: Gaussian, z: Array, h: Array, weight: Array) -> Structure | None:
    """Look for parameters given which the posterior is Gaussian; None where there are none.

    Parameters
    ----------
    base
        By which the pairs are whitened.
    z, h
        Points and scores, (n, D).
    weight
        How much each counts, (n,).
    """
    count, dim = z.shape
    if dim < 2 or _SPARE * 2 * (dim + 2) > count * (1.0 - 1.0 / FOLD):
        return None
    line = regressed(np.zeros((1, 0)), z[:, :0], z, h, weight)
    residual = residual_of(line, z[:, :0], z, h)
    directions = base.factor.T / base.sd
    found: Structure | None = None
    axes = np.zeros((dim, 0))
    scales: tuple[int, ...] = ()
    while len(scales) < min(MOST_SCALES, dim - 1):
        parameter, axis = _next(z, residual, weight, directions, axes, base)
        if parameter is None:
            break
        axes, scales = np.concatenate([axes, axis[:, None]], axis=1), (*scales, parameter)
        new = _with_scales(base, z, h, weight, axes, scales)
        if new.left < _BETTER * new.before * (1.0 - (0.0 if found is None else found.explains)):
            found = new
        if new.left < max(_NOTHING, EXACT * new.before):
            break
        number = len(scales)
        across = new.turn[:, number:]
        residual = residual_of(new.given, z @ axes, z @ across, h @ across) @ across.T
    return found


def _with_scales(
    base: Gaussian, z: Array, h: Array, weight: Array, axes: Array, scales: tuple[int, ...]
) -> Structure:
    """Find the terms, given which parameters are scales."""
    number = len(scales)
    turn = np.concatenate([axes, scipy.linalg.null_space(axes.T)], axis=1)
    pairs = z @ axes, z @ turn[:, number:], h @ turn[:, number:], weight
    own = parameters(base, turn, scales)
    rates, left = terms(*pairs, base.factor[list(scales)] @ axes)
    before = cross_validated(np.zeros((1, number)), *pairs)
    return Structure(scales, turn, regressed(rates, *pairs, own), before, left)


def terms(t: Array, y: Array, h: Array, weight: Array, units: Array) -> tuple[Array, float]:
    """Choose the rates of the terms; returns what they leave of the scores as well.

    Parameters
    ----------
    t, y, h
        Pairs: scales, all else, and the scores of all else.
    weight
        How much each counts.
    units
        Rows that turn t into what the parameters are in their own units, (d, d).
    """
    count, number = t.shape
    single = [power * row for row in units for power in _POWERS]
    double = [
        a * one + b * other
        for one, other in itertools.combinations(units, 2)
        for a in _IN_PRODUCTS
        for b in _IN_PRODUCTS
    ]
    reach = np.array([*single, *double]).reshape(-1, number)
    size = np.sqrt(np.vecdot(reach, reach))
    candidates = list(reach[(size >= _RANGE[0]) & (size <= _RANGE[1])])
    rates = np.zeros((1, number))
    left = cross_validated(rates, t, y, h, weight)
    columns = y.shape[1] + 1 + number
    least = EXACT * left
    while len(rates) < _MOST_TERMS and candidates and left > least:
        if _SPARE * columns * (len(rates) + 1) > count * (1.0 - 1.0 / FOLD):
            break
        residual = residual_of(regressed(rates, t, y, h, weight), t, y, h)
        gains = [_gain(rates, rate, t, y, residual, weight) for rate in candidates]
        candidates = [candidates[k] for k in np.argsort(gains)[-_KEPT:]]
        tried = [np.vstack([rates, one]) for one in candidates[-_TRIED:]]
        lefts = [cross_validated(more, t, y, h, weight) for more in tried]
        best = int(np.argmin(lefts))
        if not lefts[best] < _BETTER * left:
            break
        more, then = tried[best], lefts[best]
        rates, left = _without_needless(more, then, least, t, y, h, weight)
    return rates, left


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


def _next(
    z: Array, residual: Array, weight: Array, directions: Array, axes: Array, base: Gaussian
) -> tuple[int | None, Array]:
    """Return the parameter by which most of what is left is explained, and its direction.

    Of the few along which the precision changes most, that with the best term of its own.
    """
    third = third_derivatives(z, residual, weight)
    ways = directions - axes @ (axes.T @ directions)
    lengths = np.sqrt(np.vecdot(ways.T, ways.T))
    strength = np.vecdot(ways.T, (third @ ways).T) / np.maximum(lengths, 1e-100) ** 2
    strength[lengths < _OTHERWISE] = -math.inf
    likely = [
        int(j) for j in np.argsort(-strength)[:_SHORT_LIST] if strength[j] > _BENT[bool(axes.size)]
    ]
    if not likely:
        return None, axes
    gains = [_alone(z, residual, weight, directions[:, j] * base.sd[j]) for j in likely]
    best = likely[int(np.argmax(gains))]
    return best, ways[:, best] / lengths[best]


def _alone(z: Array, residual: Array, weight: Array, way: Array) -> float:
    """Return what the best term of one parameter alone explains."""
    t = (z @ way)[:, None]
    rates = [
        power for power in _POWERS if _RANGE[0] <= abs(power) * np.linalg.norm(way) <= _RANGE[1]
    ]
    nothing = np.zeros((1, 1))
    gains = [_gain(nothing, np.array([rate]), t, z, residual, weight) for rate in rates]
    return max(gains, default=0.0)


def _gain(rates: Array, rate: Array, t: Array, y: Array, residual: Array, weight: Array) -> float:
    """Return how much of the residuals a further term explains, about."""
    known, new = np.exp(t @ rates.T), np.exp(t @ rate)
    new = new - known @ np.linalg.lstsq(known * np.sqrt(weight)[:, None], new * np.sqrt(weight))[0]
    design = new[:, None] * np.concatenate([np.ones((len(t), 1)), t, y], axis=1)
    right = (design.T * weight) @ residual
    return float((right * least_squares(design, residual, weight)).sum())
