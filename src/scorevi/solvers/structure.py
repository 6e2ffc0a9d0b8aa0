r"""A diagonal plus a few directions, from what a linear map does to a few vectors.

Given rows x and y with :math:`y \approx A x` for a symmetric A (D × D, never formed), find

.. math:: A \approx \Lambda + V G V^\top,

a diagonal and rank k. What the diagonal leaves, :math:`R = Y - X \Lambda`, has rank k where A is of
that form, and its right singular vectors span V; they are found through the n × n Gram matrix of R.
Given V, coordinate i of y depends on coordinate i of x and on the k numbers :math:`V^\top x` alone,
so that each :math:`\lambda_i` is a regression of its own: what is left of :math:`y_i` on what is
left of :math:`x_i`, once both are regressed on these k numbers. The two are repeated in turn. Each
pass is O(n·D·(n + k)); A of the form is found exactly by little more than k rows, because each row
tells something about all D coordinates at once.

With noise, a direction is kept if it stands out: rows know nothing of one that R made up.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array

_PASSES, _WORK = 24, 1e9
"""The most passes, and multiplications of all of them, but for three."""
_FEWEST, _BLOCK = 3, 4096
_STANDS_OUT = 3.0
"""Standard errors by which a direction differs from none."""
_LEAST = 1e-6
"""The least by which it must, and that the diagonal may be of what it was."""
_NOTHING = 1e-12
"""A singular value next to the size of the rows, which is rounding."""
_MOST_SHARE = 0.9
"""Of a coordinate in all directions together."""
_APART = 1e-5
"""The sine of an angle between columns, below which the square of it would be rounding."""
_LEAST_OWN = 1e-8
"""The share of a coordinate's own in x, below which directions tell all there is of it."""


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
        white = self._along(rows * np.sqrt(self.diagonal), self.values**0.5)
        return np.asarray(np.linalg.norm(white, axis=1))

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


def decompose(
    x: Array,
    y: Array,
    most: int,
    diagonal: Array,
    past: Past,
    *,
    is_near: bool = False,
    settled: float = 1e-12,
) -> Structure:
    """Find a diagonal and at most ``most`` directions that explain rows y by rows x.

    Parameters
    ----------
    x, y
        Rows, (n, D).
    most
        Directions.
    diagonal
        A guess, (D,), beside which the diagonal is not taken for zero.
    past
        What is known of the diagonal beside the rows, in the same units.
    is_near
        Whether the guess is worth beginning with.
    settled
        A relative change of the diagonal after which no other pass is made.
    """
    count, dim = x.shape
    rows = _Rows.of(x, y)
    found = diagonal
    if most == 0 or most >= dim or not is_near:
        found = np.maximum(_diagonal(rows.plain, past, diagonal, rows), _LEAST * diagonal)
    if most >= dim:
        return _assembled(rows, found, np.zeros(dim), np.eye(dim), rows.plain)
    vectors, own = np.empty((dim, 0)), rows.plain
    passes = max(_FEWEST, min(_PASSES, int(_WORK / (count * dim * (count + 4.0 * most + 1.0)))))
    for _ in range(passes if most else 0):
        vectors = _directions(rows, found, most)
        own = _own(rows, vectors) if vectors.shape[1] else rows.plain
        before, found = found, np.maximum(_diagonal(own, past, found, rows), _LEAST * diagonal)
        if (np.abs(found - before) <= settled * np.abs(found)).all():
            break
    left = _left(rows, found, vectors)
    error = _error(left, rows, vectors.shape[1], own, past)
    # What is narrow by mistake is found out by the next draws, what is wide may not be.
    safe = np.maximum(found, 0.5 * error)
    if (safe == found).all():
        return _assembled(rows, found, error, vectors, own, left)
    if vectors.shape[1]:
        vectors = _directions(rows, safe, most)
    return _assembled(rows, safe, error, vectors, own)


class _Rows(NamedTuple):
    """Rows x and y, with sums over them."""

    x: Array
    y: Array
    plain: Past
    """Sums for each coordinate, directions apart."""
    power: Array
    """Sums of squares of y, (D,)."""

    @classmethod
    def of(cls, x: Array, y: Array) -> _Rows:
        products, squares, power = (
            np.einsum("ij,ij->j", one, two) for one, two in ((x, y), (x, x), (y, y))
        )
        return cls(x, y, Past(products, squares), power)


def _directions(rows: _Rows, diagonal: Array, most: int) -> Array:
    """Return the leading right singular vectors of what the diagonal leaves, (D, k)."""
    count, dim = rows.x.shape
    # By blocks of columns, which stay in the cache: as a whole it would be written and read again.
    blocks = [slice(first, first + _BLOCK) for first in range(0, dim, _BLOCK)]

    def left(block: slice) -> Array:
        return np.asarray(rows.y[:, block] - rows.x[:, block] * diagonal[block])

    gram = np.zeros((count, count))
    for block in blocks:
        part = left(block)
        gram += part @ part.T
    if not np.isfinite(gram).all():
        raise np.linalg.LinAlgError("scores too large to be compared")
    sizes, parts = scipy.linalg.eigh(gram, check_finite=False)
    # What rounding goes by.
    size = float(rows.power.sum() + rows.plain.squares @ diagonal**2)
    edge = _edge(count, dim) ** 2 * float(np.median(sizes[-dim:]))
    told = sizes > max(_NOTHING**2 * size, 1e-15 * float(sizes[-1]), edge)
    told[: max(0, count - most)] = False
    turn = parts[:, told] / np.sqrt(sizes[told])
    vectors = np.empty((dim, turn.shape[1]))
    for block in blocks:
        vectors[block] = left(block).T @ turn
    return vectors


def _edge(count: int, dim: int) -> float:
    """Return the largest singular value of noise over the median one, n × D.

    By the polynomial of Gavish and Donoho (2014), *IEEE Transactions on Information Theory* 60.
    """
    ratio = min(count, dim) / max(count, dim)
    return ((0.56 * ratio - 0.95) * ratio + 1.82) * ratio + 1.43


def _own(rows: _Rows, vectors: Array) -> Past:
    """Return the sums over what the directions leave of x and y.

    Where they are hardly more than one coordinate, what they have of it is left to the diagonal:
    they would explain it as well, and what they hide from the diagonal it would never learn.
    """
    x, y, plain, _ = rows
    along = x @ vectors
    basis = scipy.linalg.qr(along, mode="economic", check_finite=False)[0]
    bx, by = basis.T @ x, basis.T @ y
    products = plain.products - np.einsum("ij,ij->j", bx, by)
    squares = np.maximum(plain.squares - np.einsum("ij,ij->j", bx, bx), 0.0)
    share = np.vecdot(vectors, vectors)
    for i in np.flatnonzero(share > _MOST_SHARE):
        others = along - np.outer(along @ vectors[i], vectors[i] / share[i])
        basis = scipy.linalg.qr(others, mode="economic", check_finite=False, pivoting=True)[0]
        one, two = (side[:, i] @ basis[:, : along.shape[1] - 1] for side in (x, y))
        products[i] = plain.products[i] - one @ two
        squares[i] = max(plain.squares[i] - one @ one, 0.0)
    return Past(products, squares)


def _diagonal(own: Past, past: Past, guess: Array, rows: _Rows) -> Array:
    """Return the regression of each coordinate on itself; the guess where rows cannot tell."""
    squares = own.squares + past.squares
    told = squares > _LEAST_OWN * rows.plain.squares
    found = (own.products + past.products) / np.where(told, squares, 1.0)
    return np.asarray(np.where(told, found, guess), dtype=np.float64)


def _left(rows: _Rows, diagonal: Array, vectors: Array) -> Array:
    """Return what a diagonal and the matrix along the directions leave of y."""
    left = rows.y - rows.x * diagonal
    if not vectors.shape[1]:
        return left
    along = rows.x @ vectors
    slope = scipy.linalg.lstsq(along, left @ vectors, check_finite=False)[0]
    left -= (along @ (0.5 * (slope + slope.T))) @ vectors.T
    return left


def _error(left: Array, rows: _Rows, directions: int, own: Past, past: Past) -> Array:
    """Return the standard error of the diagonal, by what is left of y."""
    spare = max(1.0, len(left) - directions - 1.0)
    squares = own.squares + past.squares
    told = squares > _LEAST_OWN * rows.plain.squares
    variance = np.einsum("ij,ij->j", left, left) / spare
    return np.where(told, np.sqrt(variance / np.where(told, squares, 1.0)), 0.0)


def _assembled(
    rows: _Rows,
    diagonal: Array,
    error: Array,
    vectors: Array,
    own: Past,
    left: Array | None = None,
) -> Structure:
    """Find the matrix along the directions; ``left`` if it is known."""
    x, y, _, power = rows
    spare = max(1.0, len(x) - vectors.shape[1] - 1.0)
    roots = np.sqrt(diagonal)
    left = _left(rows, diagonal, vectors) if left is None else left
    rest = np.einsum("ij,ij->j", left, left)
    unexplained = np.sqrt(rest / np.maximum(power, np.finfo(np.float64).tiny))
    if not vectors.shape[1]:
        return Structure(diagonal, error, vectors, np.empty(0), own, unexplained)
    basis, _ = orthonormal(vectors / roots[:, None])
    one, two = x @ (basis * roots[:, None]), y @ (basis / roots[:, None])
    matrix = scipy.linalg.lstsq(one, two, check_finite=False)[0]
    values, turn = np.linalg.eigh(0.5 * (matrix + matrix.T))
    one, two = one @ turn, two @ turn
    noise = np.linalg.norm(two - one * values, axis=0) / np.sqrt(spare)
    width = np.linalg.norm(one, axis=0)
    kept = np.abs(values - 1.0) * width > _STANDS_OUT * noise + _LEAST * width
    directions = np.asarray(basis @ turn[:, kept])
    return Structure(diagonal, error, directions, values[kept], own, unexplained)
