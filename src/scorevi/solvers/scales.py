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

from scorevi.base.arrays import Array, Mask
from scorevi.base.valley import third_derivatives
from scorevi.families import Gaussian
from scorevi.families.given import Given
from scorevi.solvers.components import in_parameters, stronger
from scorevi.solvers.memory import of_symmetric, trusted

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
_EXACT = 1e-8
"""What is left, over what a line leaves, where the terms are exact to rounding."""
_SHORT_LIST, _TRIED, _KEPT = 5, 4, 24
"""Parameters, and terms, of which each is tried; and terms of which one may be the next but one."""
_FOLD = 5
_RIDGE = 1e-10
_LONGEST, _OUTLYING = 6.0, 3.0
_FAR = 100.0, 4.0
"""Of a pair, mean square of its scores that are not explained: in medians, and in precisions."""


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
    if dim < 2 or _SPARE * 2 * (dim + 2) > count * (1.0 - 1.0 / _FOLD):
        return None
    line = regressed(np.zeros((1, 0)), z[:, :0], z, h, weight)
    residual = _residual(line, z[:, :0], z, h)
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
        if new.left < max(_NOTHING, _EXACT * new.before):
            break
        number = len(scales)
        across = new.turn[:, number:]
        residual = _residual(new.given, z @ axes, z @ across, h @ across) @ across.T
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
    least = _EXACT * left
    while len(rates) < _MOST_TERMS and candidates and left > least:
        if _SPARE * columns * (len(rates) + 1) > count * (1.0 - 1.0 / _FOLD):
            break
        residual = _residual(regressed(rates, t, y, h, weight), t, y, h)
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


def regressed(
    rates: Array, t: Array, y: Array, h: Array, weight: Array, own: Array | None = None
) -> Given:
    """Find the matrices of the terms by least squares, as far as they stand out from their noise.

    Rows that stand out are shortened. Matrices are shrunk in the coordinates of the parameters,
    where most of their entries are zero in a hierarchy: ``own`` has the rows that turn a change of
    precision into those, and None leaves them as they are.
    """
    number, width = t.shape[1], y.shape[1]
    powers = np.exp(t @ rates.T)
    middle = weight @ powers / weight.sum()
    middle[0] = 0.0
    design = _design(powers - middle, t, y)
    coefficients = _least_squares(design, h, weight)
    off = h - design @ coefficients
    square = np.vecdot(off, off) * weight
    most = _OUTLYING**2 * max(float(np.median(square)), 1e-300)
    if float(square.max()) > most:
        weight = weight * (most / np.maximum(square, most))
        coefficients = _least_squares(design, h, weight)
        off = h - design @ coefficients
    split = len(rates) * (1 + number)
    slopes = -symmetric_parts(coefficients[split:].reshape(len(rates), width, width))
    linear = coefficients[:split]
    if own is not None:
        spare = len(t) / max(1.0, len(t) - design.shape[1])
        hat = _hat(design, weight)
        noise = hat**2 @ (off**2 * spare)
        linear = trusted(linear, noise[:split], linear.size)[0]
        noises = noise[split:].reshape(len(rates), width, width)
        for j in range(len(rates)):
            slopes[j] = _shrunk(slopes[j], of_symmetric(noises[j]), own, like=float(j == 0))
    linear = linear.reshape(len(rates), 1 + number, width)
    slopes[0] -= np.tensordot(middle, slopes, 1)
    linear[0] -= np.tensordot(middle, linear, 1)
    return Given(rates, slopes, linear)


def _shrunk(matrix: Array, noise: Array, own: Array, like: float) -> Array:
    """Shrink a matrix towards a multiple of the identity, by what its noise may be."""
    base = like * np.eye(len(matrix))
    off = matrix - base
    there = in_parameters(off, noise, own)
    return base + stronger(trusted(off, noise, off.size // 2 + 1)[0], there)


def symmetric_parts(matrices: Array) -> Array:
    """Return the symmetric part of each."""
    return np.asarray(0.5 * (matrices + matrices.transpose(0, 2, 1)))


def cross_validated(rates: Array, t: Array, y: Array, h: Array, weight: Array) -> float:
    """Return what is left of the scores of a fifth of the pairs by a regression of the others."""
    held = np.arange(len(t)) % _FOLD == 0
    rest = ~held
    given = regressed(rates, t[rest], y[rest], h[rest], weight[rest])
    off = _residual(given, t[held], y[held], h[held])
    square = np.minimum(np.vecdot(off, off), _LONGEST**2 * h.shape[1])
    return float(weight[held] @ square / weight[held].sum())


def parameters(base: Gaussian, turn: Array, scales: tuple[int, ...]) -> Array:
    """Return the rows that turn a change of the precision of y into that of the parameters'.

    Of those that are not scales, and with the scales held; there the identity has a unit diagonal.
    """
    others = np.setdiff1d(np.arange(base.dim), scales)
    ways = turn[:, len(scales) :].T @ np.linalg.inv(base.factor)[:, others]
    return np.asarray(ways.T / np.sqrt(np.vecdot(ways.T, ways.T))[:, None])


def is_exact(rates: Array, t: Array, y: Array, h: Array, weight: Array) -> bool:
    """Return whether terms leave nothing but rounding of what a line leaves."""
    before = cross_validated(np.zeros((1, t.shape[1])), t, y, h, weight)
    return cross_validated(rates, t, y, h, weight) <= _EXACT * before


def believed(given: Given, t: Array, y: Array, h: Array) -> Mask:
    """Return which pairs are of the posterior at all, as far as is known: a mask.

    Far outside scores may be anything, and would decide over all coefficients.
    """
    off = _residual(given, t, y, h)
    square = np.vecdot(off, off) / _precision(given, t)
    return np.asarray(square <= _FAR[0] * np.median(square) + _FAR[1] * given.width)


def _precision(given: Given, t: Array) -> Array:
    """Return the mean of the diagonal of the precision at rows of t."""
    traces = np.trace(given.precisions, axis1=1, axis2=2) / given.width
    return np.asarray(np.maximum(given.terms(t) @ traces, 1e-3))


def evened(given: Given, t: Array) -> Array:
    """Return weights by which the scores at all t are about of one size, and none decides alone."""
    return np.asarray(_precision(given, t) ** -1.5)


def _next(
    z: Array, residual: Array, weight: Array, directions: Array, axes: Array, base: Gaussian
) -> tuple[int | None, Array]:
    """Return the parameter by which most of what is left is explained, and its direction.

    Of the few along which the precision changes most, that with the best term of its own.
    """
    third = third_derivatives(z, residual, weight)
    ways = directions - axes @ (axes.T @ directions)
    lengths = np.sqrt(np.vecdot(ways.T, ways.T))
    strength = np.vecdot(ways.T, (third @ ways).T) / np.maximum(lengths, 1e-300) ** 2
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


def _design(powers: Array, t: Array, y: Array) -> Array:
    count = len(t)
    ones = np.concatenate([np.ones((count, 1)), t], axis=1)
    intercepts = (powers[:, :, None] * ones[:, None, :]).reshape(count, -1)
    slopes = (powers[:, :, None] * y[:, None, :]).reshape(count, -1)
    return np.concatenate([intercepts, slopes], axis=1)


def _least_squares(design: Array, values: Array, weight: Array) -> Array:
    """Return the coefficients of weighted least squares."""
    weighted = design.T * weight
    return _solved(weighted @ design, weighted @ values)


def _hat(design: Array, weight: Array) -> Array:
    """Return what turns values into these coefficients."""
    weighted = design.T * weight
    return _solved(weighted @ design, weighted)


def _solved(gram: Array, right: Array) -> Array:
    sizes = np.sqrt(np.maximum(np.diag(gram), 1e-300))
    gram = gram / sizes / sizes[:, None]
    gram[np.diag_indices(len(gram))] += _RIDGE
    return np.asarray(
        scipy.linalg.solve(gram, right / sizes[:, None], assume_a="pos") / sizes[:, None]
    )


def _residual(given: Given, t: Array, y: Array, h: Array) -> Array:
    powers = np.exp(t @ given.rates.T)
    ones = np.concatenate([np.ones((len(t), 1)), t], axis=1)
    known = np.einsum("nj,nd,jdm->nm", powers, ones, given.linear)
    images = np.einsum("nj,njm->nm", powers, np.einsum("jab,nb->nja", given.precisions, y))
    return np.asarray(h - known + images)


def _gain(rates: Array, rate: Array, t: Array, y: Array, residual: Array, weight: Array) -> float:
    """Return how much of the residuals a further term explains, about."""
    known, new = np.exp(t @ rates.T), np.exp(t @ rate)
    new = new - known @ np.linalg.lstsq(known * np.sqrt(weight)[:, None], new * np.sqrt(weight))[0]
    design = new[:, None] * np.concatenate([np.ones((len(t), 1)), t, y], axis=1)
    right = (design.T * weight) @ residual
    return float((right * _least_squares(design, residual, weight)).sum())
