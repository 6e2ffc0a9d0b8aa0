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

_PASSES, _WORK = 24, 2e9
"""The most passes, and multiplications of all of them, but for three."""
_FEWEST = 3
_STANDS_OUT = 3.0
"""Standard errors by which a direction differs from none."""
_LEAST = 1e-6
"""The least by which it must, and that the diagonal may be of what it was."""
_NOTHING = 1e-12
"""A singular value next to the size of the rows, which is rounding."""
_MOST_SHARE = 0.9
"""Of a coordinate in all directions together."""
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


def rescaled(found: Structure, diagonal: Array) -> Structure:
    """Return the same directions, orthonormal again, beside another diagonal."""
    stretched = found.directions * np.sqrt(found.diagonal / diagonal)[:, None]
    basis, upper = scipy.linalg.qr(stretched, mode="economic", check_finite=False)
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
    squares, products = (np.einsum("ij,ij->j", x, one) for one in (x, y))
    plain = Past(products, squares)
    found = diagonal
    if most == 0 or most >= dim or not is_near:
        found = np.maximum(_diagonal(plain, past, diagonal, squares), _LEAST * diagonal)
    if most >= dim:
        return _assembled(x, y, found, np.zeros(dim), np.eye(dim), plain)
    vectors, own = np.empty((dim, 0)), plain
    passes = max(_FEWEST, min(_PASSES, int(_WORK / (count * dim * (count + 4.0 * most + 1.0)))))
    for _ in range(passes if most else 0):
        vectors = _directions(x, y, found, most)
        own = _own(x, y, vectors, plain) if vectors.shape[1] else plain
        before, found = found, np.maximum(_diagonal(own, past, found, squares), _LEAST * diagonal)
        if (np.abs(found - before) <= settled * np.abs(found)).all():
            break
    error = _error(x, y, found, vectors, own, past)
    # What is narrow by mistake is found out by the next draws, what is wide may not be.
    safe = np.maximum(found, 0.5 * error)
    if vectors.shape[1] and (safe > found).any():
        vectors = _directions(x, y, safe, most)
    return _assembled(x, y, safe, error, vectors, own)


def _directions(x: Array, y: Array, diagonal: Array, most: int) -> Array:
    """Return the leading right singular vectors of what the diagonal leaves, (D, k)."""
    scaled = x * diagonal
    left = y - scaled
    gram = left @ left.T
    if not np.isfinite(gram).all():
        raise np.linalg.LinAlgError("scores too large to be compared")
    sizes, parts = scipy.linalg.eigh(gram, check_finite=False)
    size = sum(float(np.einsum("ij,ij->", rows, rows)) for rows in (scaled, y))
    edge = _edge(len(gram), len(diagonal)) ** 2 * float(np.median(sizes[-len(diagonal) :]))
    told = sizes > max(_NOTHING**2 * size, 1e-15 * float(sizes[-1]), edge)
    told[: max(0, len(gram) - most)] = False
    return np.asarray(left.T @ (parts[:, told] / np.sqrt(sizes[told])))


def _edge(count: int, dim: int) -> float:
    """Return the largest singular value of noise over the median one, n × D.

    By the polynomial of Gavish and Donoho (2014), *IEEE Transactions on Information Theory* 60.
    """
    ratio = min(count, dim) / max(count, dim)
    return ((0.56 * ratio - 0.95) * ratio + 1.82) * ratio + 1.43


def _own(x: Array, y: Array, vectors: Array, plain: Past) -> Past:
    """Return the sums over what the directions leave of x and y.

    Where they are hardly more than one coordinate, what they have of it is left to the diagonal:
    they would explain it as well, and what they hide from the diagonal it would never learn.
    """
    along = x @ vectors
    basis = scipy.linalg.qr(along, mode="economic", check_finite=False)[0]
    bx, by = basis.T @ x, basis.T @ y
    products = plain.products - np.einsum("ij,ij->j", bx, by)
    squares = np.maximum(plain.squares - np.einsum("ij,ij->j", bx, bx), 0.0)
    share = np.vecdot(vectors, vectors)
    for i in np.flatnonzero(share > _MOST_SHARE):
        others = along - np.outer(along @ vectors[i], vectors[i] / share[i])
        basis = scipy.linalg.qr(others, mode="economic", check_finite=False, pivoting=True)[0]
        one, two = (rows[:, i] @ basis[:, : along.shape[1] - 1] for rows in (x, y))
        products[i] = plain.products[i] - one @ two
        squares[i] = max(plain.squares[i] - one @ one, 0.0)
    return Past(products, squares)


def _diagonal(own: Past, past: Past, guess: Array, whole: Array) -> Array:
    """Return the regression of each coordinate on itself; the guess where rows cannot tell.

    ``whole`` are the squares before directions had their share.
    """
    squares = own.squares + past.squares
    told = squares > _LEAST_OWN * whole
    found = (own.products + past.products) / np.where(told, squares, 1.0)
    return np.asarray(np.where(told, found, guess), dtype=np.float64)


def _left(x: Array, y: Array, diagonal: Array, vectors: Array) -> Array:
    """Return what a diagonal and the matrix along the directions leave of y."""
    left = y - x * diagonal
    if not vectors.shape[1]:
        return left
    along = x @ vectors
    slope = scipy.linalg.lstsq(along, left @ vectors, check_finite=False)[0]
    return np.asarray(left - (along @ (0.5 * (slope + slope.T))) @ vectors.T)


def _error(x: Array, y: Array, diagonal: Array, vectors: Array, own: Past, past: Past) -> Array:
    """Return the standard error of the diagonal."""
    spare = max(1.0, len(x) - vectors.shape[1] - 1.0)
    left = _left(x, y, diagonal, vectors)
    squares = own.squares + past.squares
    told = squares > _LEAST_OWN * np.einsum("ij,ij->j", x, x)
    variance = np.einsum("ij,ij->j", left, left) / spare
    return np.where(told, np.sqrt(variance / np.where(told, squares, 1.0)), 0.0)


def _assembled(
    x: Array, y: Array, diagonal: Array, error: Array, vectors: Array, own: Past
) -> Structure:
    """Find the matrix along the directions."""
    spare = max(1.0, len(x) - vectors.shape[1] - 1.0)
    roots = np.sqrt(diagonal)
    left = _left(x, y, diagonal, vectors)
    power, rest = (np.einsum("ij,ij->j", rows, rows) for rows in (y, left))
    unexplained = np.sqrt(rest / np.maximum(power, np.finfo(np.float64).tiny))
    if not vectors.shape[1]:
        return Structure(diagonal, error, vectors, np.empty(0), own, unexplained)
    basis = scipy.linalg.qr(vectors / roots[:, None], mode="economic", check_finite=False)[0]
    one, two = (x * roots) @ basis, (y / roots) @ basis
    matrix = scipy.linalg.lstsq(one, two, check_finite=False)[0]
    values, turn = np.linalg.eigh(0.5 * (matrix + matrix.T))
    one, two = one @ turn, two @ turn
    noise = np.linalg.norm(two - one * values, axis=0) / np.sqrt(spare)
    width = np.linalg.norm(one, axis=0)
    kept = np.abs(values - 1.0) * width > _STANDS_OUT * noise + _LEAST * width
    directions = np.asarray(basis @ turn[:, kept])
    return Structure(diagonal, error, directions, values[kept], own, unexplained)
