r"""A Gaussian given a few parameters, from pairs, by one regression.

.. math:: h_y = \sum_j e^{\rho_j \cdot t} (a_{j0} + \sum_k t_k a_{jk} - B_j y)

is linear in a and B: see :mod:`scorevi.solvers.scales`, which finds ρ. Coefficients are trusted as
far as they stand out from their noise.
"""

from __future__ import annotations

import math

import numpy as np
from scipy.linalg import blas, lapack

from scorevi.base.arrays import Array, Mask
from scorevi.families import Gaussian
from scorevi.families.given import Given
from scorevi.solvers.components import in_parameters, stronger
from scorevi.solvers.memory import of_symmetric, trusted

EXACT = 1e-8
"""What is left, over what a line leaves, where the terms are exact to rounding."""
FOLD = 5
"""Every so many of the pairs are held out."""
RIDGE = 1e-10
_LONGEST, _OUTLYING = 6.0, 3.0
_FAR = 100.0, 4.0
"""Of a pair, mean square of its scores that are not explained: in medians, and in precisions."""


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
    middle = middle_of(powers, weight)
    design = design_of(powers - middle, t, y)
    squares = LeastSquares(design, weight)
    coefficients = squares.solve(h)
    off = h - design @ coefficients
    square = np.vecdot(off, off) * weight
    most = _OUTLYING**2 * max(float(np.median(square)), 1e-300)
    if float(square.max()) > most:
        weight = weight * (most / np.maximum(square, most))
        squares = LeastSquares(design, weight)
        coefficients = squares.solve(h)
        off = h - design @ coefficients
    if own is not None:
        # To the last digit: deep in a neck all but one direction in 1e8 must cancel.
        coefficients += squares.solve(off)
        off = h - design @ coefficients
    split = len(rates) * (1 + number)
    raw = -coefficients[split:].reshape(len(rates), width, width)
    slopes = 0.5 * (raw + raw.transpose(0, 2, 1))
    linear = coefficients[:split]
    if own is not None:
        off *= math.sqrt(len(t) / max(1.0, len(t) - design.shape[1]))
        hats = squares.hat()[split:].reshape(len(rates), width, -1)
        for j, (one, hat) in enumerate(zip(raw, hats, strict=True)):
            if _is_alone(rates, j):
                slopes[j] = _in_neck(one, hat, off, own)
            else:
                noise = of_symmetric(hat**2 @ off**2)
                slopes[j] = _shrunk(slopes[j], noise, own, like=float(j == 0))
        # Next to matrices that are not those of the regression any more means are others, too: deep
        # in a neck, where it is narrow, a little of a matrix is many standard deviations.
        linear = _intercepts(design, slopes, h, weight, split)
    linear = linear.reshape(len(rates), 1 + number, width)
    slopes[0] -= np.tensordot(middle, slopes, 1)
    linear[0] -= np.tensordot(middle, linear, 1)
    return Given(rates, slopes, linear)


def _intercepts(design: Array, slopes: Array, h: Array, weight: Array, split: int) -> Array:
    """Return the intercepts of all terms next to their matrices."""
    rest = h + design[:, split:] @ slopes.reshape(-1, h.shape[1])
    design = design[:, :split]
    squares = LeastSquares(design, weight)
    found = squares.solve(rest)
    off = rest - design @ found
    found += squares.solve(off)
    noise = squares.hat() ** 2 @ off**2
    return trusted(found, noise, found.size)[0]


def _is_alone(rates: Array, j: int) -> bool:
    """Return whether a term grows where no other does, as in the neck of a centered hierarchy.

    Of several that grow together, errors of one are made up for by the others.
    """
    along = rates @ rates[j]
    return along[j] > 0.0 and float(np.delete(along, j).max()) <= 1e-9 * float(along[j])


def _in_neck(matrix: Array, hat: Array, off: Array, own: Array) -> Array:
    """Return the matrix of a term that decides alone, far out, where it is a precision."""
    turn = np.linalg.eigh(0.5 * (matrix + matrix.T))[1]
    merged = _merged(turn.T @ matrix @ turn, (turn.T @ hat) ** 2 @ (off @ turn) ** 2)
    values, vectors = np.linalg.eigh(_shrunk(*merged, own @ turn, like=0.0))
    vectors = turn @ vectors
    return np.asarray((vectors * np.maximum(values, 0.0)) @ vectors.T)


def _merged(matrix: Array, noise: Array) -> tuple[Array, Array]:
    """Return what the two halves of a matrix say that is symmetric, each by its noise; and that.

    Of two directions, one narrow and one wide, the score along the narrow one tells how it depends
    on the wide one, and the other way round there is little to see.
    """
    trust = 1.0 / np.maximum(noise, 1e-290)
    both = trust + trust.T
    return (matrix * trust + matrix.T * trust.T) / both, 1.0 / both


def _shrunk(matrix: Array, noise: Array, own: Array, like: float) -> Array:
    """Shrink a matrix towards a multiple of the identity, by what its noise may be."""
    base = like * np.eye(len(matrix))
    off = matrix - base
    there = in_parameters(off, noise, own)
    return base + stronger(trusted(off, noise, off.size // 2 + 1)[0], there)


def cross_validated(rates: Array, t: Array, y: Array, h: Array, weight: Array) -> float:
    """Return what is left of the scores of a fifth of the pairs by a regression of the others."""
    held = np.arange(len(t)) % FOLD == 0
    rest = ~held
    given = regressed(rates, t[rest], y[rest], h[rest], weight[rest])
    off = residual_of(given, t[held], y[held], h[held])
    square = np.minimum(np.vecdot(off, off), _LONGEST**2 * h.shape[1])
    return float(weight[held] @ square / weight[held].sum())


def parameters(base: Gaussian, turn: Array, scales: tuple[int, ...]) -> Array:
    """Return the rows that turn a change of the precision of y into that of the parameters'.

    Of those that are not scales, and with the scales held; there the identity has a unit diagonal.
    """
    others = np.setdiff1d(np.arange(base.dim), scales)
    ways = turn[:, len(scales) :].T @ np.linalg.inv(base.factor)[:, others]
    return np.asarray(ways.T / np.sqrt(np.vecdot(ways.T, ways.T))[:, None])


def believed(given: Given, t: Array, y: Array, h: Array) -> Mask:
    """Return which pairs are of the posterior at all, as far as is known: a mask.

    Far outside scores may be anything, and would decide over all coefficients; and terms overflow.
    """
    with np.errstate(over="ignore", invalid="ignore"):
        off = residual_of(given, t, y, h)
        square = np.vecdot(off, off) / _precision(given, t)
    known: Mask = np.isfinite(square)
    if not known.any():
        return known
    return np.asarray(square <= _FAR[0] * np.median(square[known]) + _FAR[1] * given.width)


def evened(given: Given, t: Array) -> Array:
    """Return weights by which large scores count a little less, and none decides alone.

    A little: in the neck of a funnel scores are large and well explained, and must be, or else the
    neck is not followed.
    """
    return np.asarray(_precision(given, t) ** -0.5)


def residual_of(given: Given, t: Array, y: Array, h: Array) -> Array:
    """Return what a Gaussian given t leaves of the scores of y."""
    design = design_of(np.exp(t @ given.rates.T), t, y)
    width = given.width
    coefficients = [given.linear.reshape(-1, width), -given.precisions.reshape(-1, width)]
    return np.asarray(h - design @ np.concatenate(coefficients))


def line_leaves(z: Array, h: Array, weight: Array) -> Array:
    """Return what a line leaves of scores."""
    nothing = z[:, :0]
    return residual_of(regressed(np.zeros((1, 0)), nothing, z, h, weight), nothing, z, h)


def _precision(given: Given, t: Array) -> Array:
    """Return the mean of the diagonal of the precision at rows of t."""
    traces = np.trace(given.precisions, axis1=1, axis2=2) / given.width
    return np.asarray(np.maximum(given.terms(t) @ traces, 1e-3))


def middle_of(powers: Array, weight: Array) -> Array:
    """Return what is taken off terms, so that they are told from the constant one, the first."""
    middle = np.asarray(weight @ powers / weight.sum())
    middle[0] = 0.0
    return middle


def design_of(powers: Array, t: Array, y: Array) -> Array:
    """Return the columns of the regression: for each term its intercepts, and then its slopes."""
    count = len(t)
    ones = np.concatenate([np.ones((count, 1)), t], axis=1)
    intercepts = (powers[:, :, None] * ones[:, None, :]).reshape(count, -1)
    slopes = (powers[:, :, None] * y[:, None, :]).reshape(count, -1)
    return np.concatenate([intercepts, slopes], axis=1)


class LeastSquares:
    """Weighted least squares by normal equations, factorised once, with a trace of a ridge."""

    def __init__(self, design: Array, weight: Array) -> None:
        self._design, self._weight = design, weight
        rows = design * np.sqrt(weight)[:, None]
        # One half of a symmetric matrix is computed, and the same one read.
        gram = blas.dsyrk(1.0, rows.T, lower=1)
        self._sizes = np.sqrt(np.maximum(np.diag(gram), 1e-300))
        gram /= self._sizes
        gram /= self._sizes[:, None]
        gram[np.diag_indices(len(gram))] += RIDGE
        self._factor, self._failed = lapack.dpotrf(gram, lower=1)
        self._gram = gram if self._failed else None

    def solve(self, values: Array) -> Array:
        """Return the coefficients for columns of values."""
        return self._solved(self._design.T @ (values * self._weight[:, None]))

    def hat(self) -> Array:
        """Return what turns values into coefficients."""
        return self._solved(self._design.T * self._weight)

    def _solved(self, right: Array) -> Array:
        right = right / self._sizes[:, None]
        if self._gram is None:
            found = lapack.dpotrs(self._factor, right, lower=1)[0]
        else:
            whole = np.tril(self._gram) + np.tril(self._gram, -1).T
            found = np.linalg.lstsq(whole, right, rcond=RIDGE)[0]
        return np.asarray(found / self._sizes[:, None])
