r"""Least squares of mismatched scores on [1, z], plain and with the quadratic part taken out.

What of the score is not linear is noise to such a regression, but not white noise: to the next
order it is quadratic in z. Generalised least squares with the kernel of the second Hermite
polynomials,

.. math:: k(z, z') = \tfrac12\big[(z \cdot z')^2 - |z|^2 - |z'|^2 + D\big],

takes that part out. The polynomials are orthogonal to 1 and z under q, so nothing is biased by it.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg
from scipy.linalg import lapack

from scorevi.base.arrays import Array
from scorevi.base.linalg import quadratics, solved

_SPANNED = 1e-7
"""Points on an optimiser's path may be many and yet lie in few directions."""
_SAFE = 0.03
"""The ratio of pivots from which on a Gram matrix loses no more than four digits."""
_QUADRATIC = 0.03
"""Variance of the quadratic part over D, next to that of the rest."""
_DISAGREES = 3.0
"""Standard errors between two estimates of the same coefficient."""


class Factored(NamedTuple):
    """Weighted least squares at the rows of a design, by the factor of their Gram matrix.

    In many dimensions: what makes the coefficients, (p, n), takes as long to form as they do to
    find, and to ask it for the noise of each takes as long again. So that of a column is taken to
    be of one size everywhere.
    """

    design: Array
    weight: Array
    """(n, 1)."""
    lower: Array

    def __matmul__(self, values: Array) -> Array:
        """Return the coefficients of columns of values."""
        return solved(self.lower, self.design.T @ (values * self.weight))

    def noise(self, variance: Array) -> Array:
        """Return the variances of coefficients, by those of all values."""
        inverse, _ = lapack.dpotri(self.lower, lower=1)
        size = np.vecdot(self.weight.T**2, variance.T) / float(self.weight.sum())
        return np.outer(inverse.diagonal(), size)


class Hat(NamedTuple):
    """The same by the matrix that makes the coefficients, so that all noise counts where it is."""

    matrix: Array
    """(p, n)."""

    def __matmul__(self, values: Array) -> Array:
        """Return the coefficients of columns of values."""
        return np.asarray(self.matrix @ values)

    def noise(self, variance: Array) -> Array:
        """Return the variances of coefficients, by those of all values."""
        return np.asarray(self.matrix**2 @ variance)

    def turned(self, basis: Array) -> Hat:
        """Return what makes the coefficients in an orthonormal basis, the columns."""
        return Hat(np.concatenate([self.matrix[:1], basis.T @ self.matrix[1:]]))


def least_squares(design: Array, weight: Array, *, formed: bool = True) -> Hat | Factored | None:
    """Return what makes coefficients of values; None where the rows do not span the space.

    By the Gram matrix, which is several times as fast, where that is safe; and then without the
    matrix that makes them, unless it is to be formed.
    """
    root = np.sqrt(weight)[:, None]
    rows = design * root
    lower = _gram_root(rows)
    if lower is not None:
        if not formed:
            return Factored(design, weight[:, None], lower)
        return Hat(solved(lower, rows.T) * root.T)
    ortho, upper = np.linalg.qr(rows)
    pivots = np.abs(np.diag(upper))
    if pivots.min() < _SPANNED * pivots.max():
        return None
    return Hat(scipy.linalg.solve_triangular(upper, ortho.T) * root.T)


def explained(design: Array, values: Array) -> Array | None:
    """Return what least squares make of values, (n, D); None where they do not span the space."""
    hat = least_squares(design, np.ones(len(design)), formed=False)
    return None if hat is None else np.asarray(design @ (hat @ values))


def _gram_root(design: Array) -> Array | None:
    """Return the Cholesky factor of the Gram matrix, where that is safe."""
    lower, failed = lapack.dpotrf(design.T @ design, lower=1, clean=0)
    pivots = lower.diagonal()
    return lower if not failed and pivots.min() > _SAFE * pivots.max() else None


class Coefficients(NamedTuple):
    """Those of a regression on [1, z], in a basis of their own, with their variances."""

    values: Array
    """(D + 1, D)."""
    noise: Array
    """(D + 1, D)."""

    def improved_by(self, other: Coefficients) -> Coefficients:
        """Return what another regression with less noise says, score by score, where it agrees.

        Plain least squares are right whatever the scores are like, and their noise is known. They
        agree where the intercept, and the slope of the score along its own direction, do.
        """
        off = (other.values - self.values) ** 2 <= _DISAGREES**2 * self.noise
        agrees = off[0] & np.diag(off[1:])
        return Coefficients(
            np.where(agrees, other.values, self.values), np.where(agrees, other.noise, self.noise)
        )


class Line(NamedTuple):
    """A regression of mismatches on [1, z]."""

    hat: Hat | Factored
    """What makes the coefficients of the mismatches."""
    values: Array
    """The coefficients, (D + 1, D)."""
    residual: Array
    """What is left of the mismatches, (n, D)."""

    @classmethod
    def of(cls, hat: Hat | Factored, design: Array, mismatch: Array) -> Line:
        """Return that of least squares."""
        values = hat @ mismatch
        return cls(hat, values, mismatch - design @ values)

    def along(self, basis: Array | None) -> Coefficients:
        """Return the coefficients, turned into an orthonormal basis, the columns."""
        hat, values, residual = self
        if basis is not None and isinstance(hat, Hat):
            hat = hat.turned(basis)
            values = np.concatenate([values[:1], basis.T @ values[1:]]) @ basis
            residual = residual @ basis
        count, dim = residual.shape
        return Coefficients(values, hat.noise(residual**2 * (count / max(1, count - dim - 1))))


def without_quadratic(z: Array, mismatch: Array, design: Array, weight: Array) -> Line:
    """Return generalised least squares with the kernel of quadratic functions as noise.

    Where the polynomials are fewer than the pairs it is the same as least squares on them too, with
    a ridge; otherwise the kernel's matrix is the smaller one.
    """
    count, dim = z.shape
    if dim * (dim + 1) < count:
        whole = np.concatenate([design, quadratics(z)], axis=1)
        root = np.sqrt(weight)[:, None]
        white = whole * root
        gram = white.T @ white
        ridge = np.where(np.arange(len(gram)) > dim, dim / _QUADRATIC, 0.0)
        gram[np.diag_indices(len(gram))] += ridge
        known = np.concatenate([np.eye(len(gram), dim + 1), white.T @ (mismatch * root)], axis=1)
        linear, coefficients = np.hsplit(_solve(gram, known), [dim + 1])
        hat = (white @ linear).T * root.T
        return Line(Hat(hat), coefficients[: dim + 1], mismatch - whole @ coefficients)
    half = 0.5 * _QUADRATIC / dim
    scaled = half**0.25 * z
    squares = half * (np.vecdot(z, z) - 0.5 * dim)
    noise = scaled @ scaled.T
    np.square(noise, out=noise)
    noise -= squares
    noise -= squares[:, None]
    noise[np.diag_indices(count)] += 1.0 / weight
    known = np.concatenate([design, mismatch], axis=1)
    solved = _solve(noise, known)
    white, left = np.hsplit(solved, [dim + 1])
    hat = _solve(design.T @ white, white.T)
    values = hat @ mismatch
    return Line(Hat(hat), values, (left - white @ values) / weight[:, None])


def _solve(positive: Array, right: Array) -> Array:
    """Solve by Cholesky, in the place of the matrix, which is LAPACK's own when transposed."""
    lower, failed = lapack.dpotrf(positive.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("a matrix that should be positive definite is not")
    return solved(lower, right)
