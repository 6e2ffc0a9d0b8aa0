"""A symmetric matrix as a diagonal and a few directions: what it does to rows, and its parts anew.

How one is found from what it does to a few vectors: :mod:`scorevi.solvers.decompose`.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array
from scorevi.families import LowRank

_APART = 1e-5
"""The sine of an angle between columns, below which the square of it would be rounding."""


class Past(NamedTuple):
    """What rows that are gone had to say of the diagonal: sums over them, (D,) each."""

    products: Array
    """Of what was left of x and of y."""
    squares: Array
    """Of what was left of x."""


class Structure(NamedTuple):
    """A symmetric matrix as a diagonal and directions."""

    diagonal: Array
    """Λ, (D,), positive."""
    error: Array
    """Its standard error, (D,)."""
    directions: Array
    """U, (D, k), orthonormal, in coordinates scaled so that the diagonal is I: √Λ·x."""
    values: Array
    """What the matrix is along them there, (k,); of any sign."""
    own: Past
    """What the rows say of the diagonal."""
    unexplained: Array
    """What is left of each coordinate of y next to all of it, (D,): 0 where nothing is."""

    def whiten(self, rows: Array) -> Array:
        """Return rows (n, D) whose squared lengths are those of r A⁻¹ rᵀ; the values positive."""
        return self._along(rows / np.sqrt(self.diagonal), self.values**-0.5)

    def solve(self, rows: Array) -> Array:
        """Return A⁻¹ applied to rows (n, D); the values are taken to be positive."""
        roots = np.sqrt(self.diagonal)
        return self._along(rows / roots, 1.0 / self.values) / roots

    def lengths(self, rows: Array) -> Array:
        """Return the lengths (r A rᵀ)^½ of rows (n, D); the values positive."""
        return np.asarray(np.linalg.norm(self.stretch(rows), axis=1))

    def stretch(self, rows: Array) -> Array:
        """Return rows (n, D) whose squared lengths are those of r A rᵀ; the values positive."""
        return self._along(rows * np.sqrt(self.diagonal), self.values**0.5)

    def along(self, rows: Array) -> Array:
        """Return the part of rows (n, D) along the directions."""
        roots = np.sqrt(self.diagonal)
        return np.asarray(((rows * roots) @ self.directions) @ self.directions.T / roots)

    def _along(self, rows: Array, factors: Array) -> Array:
        parts = (rows @ self.directions) * (factors - 1.0)
        return np.asarray(rows + parts @ self.directions.T)


def orthonormal(columns: Array) -> tuple[Array, Array]:
    """Return Q and R of columns (D, k), k small, by their Gram matrix where it tells them apart.

    Twice, so that what it loses at first is put right: products of matrices are many times faster
    than reflections where D is large.
    """
    basis: Array = columns
    upper: Array = np.eye(columns.shape[1])
    for _ in range(2):
        sizes = np.maximum(np.linalg.norm(basis, axis=0), np.finfo(np.float64).tiny)
        basis = basis / sizes
        try:
            lower = np.linalg.cholesky(basis.T @ basis)
        except np.linalg.LinAlgError:
            lower = np.zeros((1, 1))
        if not lower.diagonal().min(initial=1.0) > _APART:
            whole = scipy.linalg.qr(columns, mode="economic", check_finite=False)
            return np.asarray(whole[0], dtype=np.float64), np.asarray(whole[1], dtype=np.float64)
        basis = scipy.linalg.solve_triangular(lower, basis.T, lower=True, check_finite=False).T
        upper = (lower.T * sizes) @ upper
    return np.asarray(basis), np.asarray(upper)


def rescaled(found: Structure, diagonal: Array) -> Structure:
    """Return the same directions, orthonormal again, beside another diagonal."""
    stretched = found.directions * np.sqrt(found.diagonal / diagonal)[:, None]
    basis, upper = orthonormal(stretched)
    values, turn = np.linalg.eigh((upper * (found.values - 1.0)) @ upper.T)
    return found._replace(
        diagonal=diagonal, directions=np.asarray(basis @ turn), values=1.0 + values
    )


def of_rank(found: Structure, rank: int, mean: Array, scale: Array) -> LowRank:
    """Return the q of so many directions, with the whole diagonal of the precision found."""
    gain = found.values - 1.0 - np.log(found.values)
    order = np.argsort(-gain, kind="stable")
    kept, left = np.sort(order[:rank]), order[rank:]
    if len(left):
        added = found.directions[:, left] ** 2 @ (found.values[left] - 1.0)
        diagonal = found.diagonal * (1.0 + added)
        some = found._replace(directions=found.directions[:, kept], values=found.values[kept])
        some = rescaled(some, diagonal)
        # Along these q is to have the precision of all that was found, which is positive.
        rows = (some.directions / np.sqrt(diagonal)[:, None]).T
        found = some._replace(values=found.lengths(rows) ** 2)
    scale = scale / np.sqrt(found.diagonal)
    widths = 1.0 / np.sqrt(found.values)
    log_det = float(np.log(scale).sum() + np.log(widths).sum())
    return LowRank(mean, scale, found.directions, widths, log_det)
