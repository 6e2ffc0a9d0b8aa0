"""Small linear algebra with one behaviour in NumPy and in JAX, and little overhead in NumPy."""

from __future__ import annotations

import math
from functools import lru_cache
from typing import Any

import numpy as np
from scipy.linalg import blas, lapack

from scorevi.base.arrays import AnyArray, Array

_FEW = 4
"""So many rows are multiplied faster one by one than by the general matrix product, measured."""
_NOTHING = 1e-10
"""The part of the scores along a direction, next to that along others, that may be rounding."""
_LARGE = 384
"""From this dimension on rank-one updates in place beat the product, measured at k = 4."""


@lru_cache(maxsize=64)
def averaging(size: int) -> Array:
    """Return what averages as many rows in one product, (size,): for few the fastest way."""
    return np.full(size, 1.0 / size)


def cholesky(matrix: AnyArray) -> AnyArray:
    """Return the lower Cholesky factor, or NaN where the matrix is not positive definite.

    Only the lower triangle is read.
    """
    if not isinstance(matrix, np.ndarray):
        return matrix.__array_namespace__().linalg.cholesky(matrix, symmetrize_input=False)
    factor, failed = lapack.dpotrf(matrix, lower=1, clean=1)
    return np.full_like(matrix, np.nan) if failed else factor


def eigh(matrix: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return eigenvalues, ascending, and eigenvectors of a small symmetric matrix."""
    if not isinstance(matrix, np.ndarray):
        values, vectors = matrix.__array_namespace__().linalg.eigh(matrix, symmetrize_input=False)
        return values, vectors
    values, vectors, failed = lapack.dsyevd(matrix, lower=1)
    if failed:
        raise np.linalg.LinAlgError("the eigenvalues did not converge")
    return values, vectors


def solved(lower: Array, right: Array, *, overwrite: bool = False) -> Array:
    """Solve with a matrix given by its lower Cholesky factor, the upper half of which is not read.

    SciPy's own function spends ten times as long on looking at a small matrix as on solving.
    """
    found: Array = lapack.dpotrs(lower, right, lower=1, overwrite_b=overwrite)[0]
    return found


def backward(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    """Solve with a lower triangular matrix, or its transpose."""
    found, failed = lapack.dtrtrs(lower, right, lower=1, trans=int(transposed))
    if failed:
        raise np.linalg.LinAlgError("a triangular matrix is singular")
    return np.asarray(found)


def times_rows(matrix: AnyArray, rows: AnyArray) -> AnyArray:
    """Return rows @ matrix.T: the matrix applied to each row, shape (n, D)."""
    if isinstance(matrix, np.ndarray) and len(rows) <= _FEW:
        return np.matvec(matrix, np.ascontiguousarray(rows))
    return rows @ matrix.T


def rows_times(rows: AnyArray, matrix: AnyArray) -> AnyArray:
    """Return rows @ matrix: the transposed matrix applied to each row, shape (n, D)."""
    if isinstance(matrix, np.ndarray) and len(rows) <= _FEW:
        return np.vecmat(np.ascontiguousarray(rows), matrix)
    return rows @ matrix


def add_low_rank(base: AnyArray, left: AnyArray, right: AnyArray) -> AnyArray:
    """Return base + left.T @ right, with ``left`` and ``right`` of shape (k, D), k small."""
    if isinstance(base, np.ndarray) and len(base) >= _LARGE:
        total = base.T.copy(order="F")
        for x, y in zip(right, left, strict=True):
            total = blas.dger(1.0, x, y, a=total, overwrite_a=1)
        return total.T
    change = left.T @ right
    change += base
    return change


def identity(xp: Any, dim: int) -> AnyArray:
    """Return the identity matrix, read-only."""
    return _identity(dim) if xp is np else xp.eye(dim)


@lru_cache(maxsize=8)
def _identity(dim: int) -> Array:
    matrix = np.eye(dim)
    matrix.flags.writeable = False
    return matrix


def flat_direction(scores: Array) -> Array | None:
    """Return a direction along which no whitened score, (n, D), has a part; None if all have.

    Where a log density does not change along a direction, no score has a part along it, so that
    scores have fewer directions than there are dimensions, to rounding.
    """
    if len(scores) < scores.shape[1] + 2:
        return None
    # Each of unit length: a few steep ones would hide what the others say.
    lengths = np.maximum(np.linalg.norm(scores, axis=1, keepdims=True), 1e-300)
    _, sizes, directions = np.linalg.svd(scores / lengths, full_matrices=False)
    return directions[-1] if sizes[-1] < _NOTHING * sizes[0] else None


def quadratics(z: Array) -> Array:
    """Return the second Hermite polynomials, each of variance 1 under N(0, I), (n, D(D + 1)/2)."""
    rows, columns = np.triu_indices(z.shape[1])
    products = z[:, rows] * z[:, columns]
    squares = rows == columns
    products[:, squares] = (products[:, squares] - 1.0) / math.sqrt(2.0)
    return np.asarray(products)
