"""Compiled functions on any number of rows: in pieces of the few sizes that are compiled for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require

_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Rows that are compiled for: to compile takes longer than many a fit, so no other sizes are."""
_FILLED_UP = 16
"""Up to here more rows cost little more, so one call of the next size is best."""


def piece_sizes(count: int) -> list[int]:
    """Cut rows into pieces of the sizes that are compiled for; the last may be filled up.

    Examples
    --------
    >>> [piece_sizes(count) for count in (5, 24, 40, 60, 300)]
    [[8], [24], [32, 8], [64], [128, 128, 48]]
    """
    full, count = divmod(count, _SIZES[-1])
    return [_SIZES[-1]] * full + (_last_pieces(count) if count else [])


def _last_pieces(count: int) -> list[int]:
    """Fill up to one piece, unless to cut saves more than an eighth of its rows."""
    whole = [min(size for size in _SIZES if size >= count)]
    if count <= _FILLED_UP:
        return whole
    first = max(size for size in _SIZES if size <= count)
    cut = [first, *piece_sizes(count - first)]
    return cut if 8 * sum(cut) < 7 * sum(whole) else whole


def in_pieces(function: Callable[[Any], Any], theta: Array, sizes: Sequence[int]) -> Any:
    """Apply a compiled function to the rows of theta (n, D), in pieces of the given sizes.

    The last piece is filled up with copies of the last row. What comes back is what the function
    returns, any pytree of arrays with the rows along their first axis.
    """
    jax = require("jax")
    count = len(theta)
    if count == 0:  # what comes back has no rows either, but the right shapes
        theta, sizes = np.zeros((1, *theta.shape[1:])), [1]
    missing = sum(sizes) - len(theta)
    if missing:
        theta = np.concatenate([theta, np.repeat(theta[-1:], missing, axis=0)])
    with jax.enable_x64(True):
        if len(sizes) == 1:
            return jax.tree.map(lambda array: np.asarray(array)[:count], function(theta))
        ends = itertools.accumulate(sizes)
        parts = [function(theta[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[:count], *parts)
