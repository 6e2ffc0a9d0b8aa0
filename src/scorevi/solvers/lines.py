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


def least_squares(design: Array) -> Array | None:
    """Return the pseudo-inverse; None where the rows do not span the space.

    By the Gram matrix, which is several times as fast, where that is safe.
    """
    lower = _gram_root(design)
    if lower is not None:
        return solved(lower, design.T)
    ortho, upper = np.linalg.qr(design)
    pivots = np.abs(np.diag(upper))
    if pivots.min() < _SPANNED * pivots.max():
        return None
    return np.asarray(scipy.linalg.solve_triangular(upper, ortho.T))


def explained(design: Array, values: Array) -> Array | None:
    """Return what least squares make of values, (n, D); None where they do not span the space."""
    lower = _gram_root(design)
    if lower is not None:
        return np.asarray(design @ solved(lower, design.T @ values))
    hat = least_squares(design)
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

    hat: Array
    """What makes the coefficients of the mismatches, (D + 1, n)."""
    values: Array
    """The coefficients, (D + 1, D)."""
    residual: Array
    """What is left of the mismatches, (n, D)."""

    @classmethod
    def of(cls, hat: Array, design: Array, mismatch: Array) -> Line:
        """Return that of least squares."""
        values = hat @ mismatch
        return cls(hat, values, mismatch - design @ values)

    def along(self, basis: Array | None) -> Coefficients:
        """Return the coefficients, turned into an orthonormal basis, the columns."""
        hat, values, residual = self
        if basis is not None:
            hat = np.concatenate([hat[:1], basis.T @ hat[1:]])
            values = np.concatenate([values[:1], basis.T @ values[1:]]) @ basis
            residual = residual @ basis
        count, dim = residual.shape
        variance = residual**2 * (count / max(1, count - dim - 1))
        return Coefficients(values, hat**2 @ variance)


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
        return Line(hat, coefficients[: dim + 1], mismatch - whole @ coefficients)
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
    return Line(hat, values, (left - white @ values) / weight[:, None])


def _solve(positive: Array, right: Array) -> Array:
    """Solve by Cholesky, in the place of the matrix, which is LAPACK's own when transposed."""
    lower, failed = lapack.dpotrf(positive.T, lower=1, clean=0, overwrite_a=1)
    if failed:
        raise np.linalg.LinAlgError("a matrix that should be positive definite is not")
    return solved(lower, right)
