"""Compiled functions on any number of rows: in pieces of the two sizes that are compiled for."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require

_ONE, _MANY = 1, 16
"""Rows that are compiled for: to compile takes longer than many a fit, so no other sizes are."""
_ONE_BY_ONE = 4
"""Up to here calls for single rows cost less than to fill up."""


def piece_sizes(count: int) -> list[int]:
    """Cut rows into pieces of the two sizes that are compiled for; the last may be filled up.

    Examples
    --------
    >>> [piece_sizes(count) for count in (1, 3, 5, 16, 34, 40)]
    [[1], [1, 1, 1], [16], [16], [16, 16, 1, 1], [16, 16, 16]]
    """
    full, left = divmod(count, _MANY)
    return [_MANY] * full + ([_ONE] * left if left <= _ONE_BY_ONE else [_MANY])


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
