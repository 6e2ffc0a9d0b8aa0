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

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array
from scorevi.solvers.structure import Past, Structure, orthonormal

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
_LEAST_OWN = 1e-8
"""The share of a coordinate's own in x, below which directions tell all there is of it."""


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
    found, span, own = diagonal, _Span(np.empty((dim, 0)), np.empty((count, 0))), rows.plain
    if most == 0 or most >= dim or not is_near:
        found = np.maximum(_diagonal(own, past, diagonal, rows), _LEAST * diagonal)
    if most >= dim:
        return _assembled(rows, found, np.zeros(dim), _Span(np.eye(dim), x), own)
    passes = max(_FEWEST, min(_PASSES, int(_WORK / (count * dim * (count + 4.0 * most + 1.0)))))
    for _ in range(passes if most else 0):
        span = _directions(rows, found, most)
        own = _own(rows, span)
        before, found = found, np.maximum(_diagonal(own, past, found, rows), _LEAST * diagonal)
        if (np.abs(found - before) <= settled * np.abs(found)).all():
            break
    rest = _rest(rows, found, span)
    error = _error(rest, rows, span, own, past)
    # What is narrow by mistake is found out by the next draws, what is wide may not be.
    safe = np.maximum(found, 0.5 * error)
    if (safe == found).all():
        return _assembled(rows, found, error, span, own, rest)
    if span.vectors.shape[1]:
        span = _directions(rows, safe, most)
    return _assembled(rows, safe, error, span, own)


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

    def blocks(self) -> Iterator[slice]:
        """Return blocks of columns, which stay in the cache.

        What is made of all of them at once would be written to memory and read again.
        """
        return (slice(i, i + _BLOCK) for i in range(0, self.x.shape[1], _BLOCK))

    def left(self, diagonal: Array, block: slice) -> Array:
        """Return what a diagonal leaves of a block of y."""
        part = self.x[:, block] * diagonal[block]
        return np.subtract(self.y[:, block], part, out=part)


class _Span(NamedTuple):
    """Directions that are not scaled yet, and where the rows are along them."""

    vectors: Array
    """V, (D, k), orthonormal."""
    along: Array
    """X V, (n, k)."""


def _directions(rows: _Rows, diagonal: Array, most: int) -> _Span:
    """Return the leading right singular vectors of what the diagonal leaves."""
    count, dim = rows.x.shape
    gram = np.zeros((count, count))
    for block in rows.blocks():
        part = rows.left(diagonal, block)
        gram += part @ part.T
    if not np.isfinite(gram).all():
        raise np.linalg.LinAlgError("scores too large to be compared")
    sizes, parts = np.linalg.eigh(gram)
    # What rounding goes by.
    size = float(rows.power.sum() + rows.plain.squares @ diagonal**2)
    edge = _edge(count, dim) ** 2 * float(np.median(sizes[-dim:]))
    told = sizes > max(_NOTHING**2 * size, 1e-15 * float(sizes[-1]), edge)
    told[: max(0, count - most)] = False
    turn = parts[:, told] / np.sqrt(sizes[told])
    vectors, along = np.empty((dim, turn.shape[1])), np.zeros(turn.shape)
    for block in rows.blocks() if turn.shape[1] else ():
        vectors[block] = rows.left(diagonal, block).T @ turn
        along += rows.x[:, block] @ vectors[block]
    return _Span(vectors, along)


def _edge(count: int, dim: int) -> float:
    """Return the largest singular value of noise over the median one, n × D.

    By the polynomial of Gavish and Donoho (2014), *IEEE Transactions on Information Theory* 60.
    """
    ratio = min(count, dim) / max(count, dim)
    return ((0.56 * ratio - 0.95) * ratio + 1.82) * ratio + 1.43


def _own(rows: _Rows, span: _Span) -> Past:
    """Return the sums over what the directions leave of x and y.

    Where they are hardly more than one coordinate, what they have of it is left to the diagonal:
    they would explain it as well, and what they hide from the diagonal it would never learn.
    """
    x, y, plain, _ = rows
    vectors, along = span
    if not vectors.shape[1]:
        return plain
    basis = scipy.linalg.qr(along, mode="economic", check_finite=False)[0].T
    products, squares = plain.products.copy(), plain.squares.copy()
    for block in rows.blocks():
        bx, by = basis @ x[:, block], basis @ y[:, block]
        products[block] -= np.einsum("ij,ij->j", bx, by)
        squares[block] -= np.einsum("ij,ij->j", bx, bx)
    share = np.vecdot(vectors, vectors)
    for i in np.flatnonzero(share > _MOST_SHARE):
        others = along - np.outer(along @ vectors[i], vectors[i] / share[i])
        basis = scipy.linalg.qr(others, mode="economic", check_finite=False, pivoting=True)[0]
        one, two = (side[:, i] @ basis[:, : along.shape[1] - 1] for side in (x, y))
        products[i] = plain.products[i] - one @ two
        squares[i] = plain.squares[i] - one @ one
    return Past(products, np.maximum(squares, 0.0))


def _diagonal(own: Past, past: Past, guess: Array, rows: _Rows) -> Array:
    """Return the regression of each coordinate on itself; the guess where rows cannot tell."""
    squares = own.squares + past.squares
    told = squares > _LEAST_OWN * rows.plain.squares
    found = (own.products + past.products) / np.where(told, squares, 1.0)
    return np.asarray(np.where(told, found, guess), dtype=np.float64)


def _rest(rows: _Rows, diagonal: Array, span: _Span) -> Array:
    """Return the sums of squares of what diagonal and directions together leave of y, (D,)."""
    vectors, along = span
    rest, inner = np.empty(len(diagonal)), np.zeros(along.shape)
    if vectors.shape[1]:
        for block in rows.blocks():
            inner += rows.left(diagonal, block) @ vectors[block]
        slope = scipy.linalg.lstsq(along, inner, check_finite=False)[0]
        inner = along @ (0.5 * (slope + slope.T))
    for block in rows.blocks():
        left = rows.left(diagonal, block)
        if vectors.shape[1]:
            left -= inner @ vectors[block].T
        rest[block] = np.einsum("ij,ij->j", left, left)
    return rest


def _error(rest: Array, rows: _Rows, span: _Span, own: Past, past: Past) -> Array:
    """Return the standard error of the diagonal, by what is left of y."""
    count, directions = span.along.shape
    squares = own.squares + past.squares
    told = squares > _LEAST_OWN * rows.plain.squares
    variance = rest / max(1.0, count - directions - 1.0)
    return np.where(told, np.sqrt(variance / np.where(told, squares, 1.0)), 0.0)


def _assembled(
    rows: _Rows,
    diagonal: Array,
    error: Array,
    span: _Span,
    own: Past,
    rest: Array | None = None,
) -> Structure:
    """Find the matrix along the directions; ``rest`` if it is known."""
    x, y, _, power = rows
    vectors = span.vectors
    spare = max(1.0, len(x) - vectors.shape[1] - 1.0)
    roots = np.sqrt(diagonal)
    rest = _rest(rows, diagonal, span) if rest is None else rest
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
