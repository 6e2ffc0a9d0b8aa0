r"""Many Gaussians looked at together: one matrix product in the place of a solve for each.

With :math:`A_k = L_k^{-1}` stacked, whitening by all of them is one product with the points, and
their scores, weighed by any shares, are another. Inverses are safe only where nothing is scaled
badly, so points and Gaussians are first seen from one Gaussian that covers them all.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from scorevi.base.arrays import Array
from scorevi.families.gaussian import HALF_LOG_2PI, Gaussian

_BLOCK = 1 << 16
"""Numbers that are worked on at a time: more leave the cache."""


class Looked(NamedTuple):
    """What a mixture is like at points, (n, ...)."""

    log_parts: Array
    """log(w_k q_k), (n, K)."""
    log_q: Array
    """The logarithm of their sum, (n,)."""
    score: Array
    """Its gradient, (n, D)."""


class Stacked(NamedTuple):
    """K weighted Gaussians in D dimensions."""

    middle: Array
    """The mean of the Gaussian that they are seen from, (D,)."""
    lower: Array
    """Its factor, lower triangular, (D, D)."""
    rows: Array
    """The inverse factors seen from there, one below the other, (K D, D)."""
    places: Array
    """The whitened means, (K D,)."""
    offsets: Array
    """log(w_k q_k) at the means, (K,)."""

    @classmethod
    def of(
        cls, log_weights: Array, means: Array, factors: Array, log_dets: Array, seen_from: Gaussian
    ) -> Stacked:
        """Stack Gaussians, (K, D), (K, D, D) and (K,), seen from one with a triangular factor."""
        count, dim = means.shape
        middle, lower = seen_from.mean, np.asfortranarray(seen_from.factor)
        columns = np.moveaxis(factors, 0, 1).reshape(dim, count * dim)
        inside = _solve(lower, columns).reshape(dim, count, dim)
        inverses = np.asarray(np.linalg.inv(np.moveaxis(inside, 1, 0)), dtype=np.float64)
        centres = _solve(lower, (means - middle).T).T
        places = np.matvec(inverses, centres).reshape(-1)
        offsets = log_weights - log_dets - dim * HALF_LOG_2PI
        return cls(middle, lower, inverses.reshape(-1, dim), places, offsets)

    def log_parts(self, theta: Array) -> Array:
        """Return log(w_k q_k) at rows, (n, K)."""
        found = np.empty((len(theta), len(self.offsets)))
        for block, white in self._whitened(self._seen(theta)):
            found[block] = self._log_parts(white)
        return found

    def look(self, theta: Array) -> Looked:
        """Return densities and scores at rows."""
        x = self._seen(theta)
        log_parts, log_q = np.empty((len(x), len(self.offsets))), np.empty(len(x))
        score = np.empty_like(x)
        for block, white in self._whitened(x):
            parts = self._log_parts(white)
            log_parts[block], log_q[block] = parts, log_sum(parts)
            white *= np.exp(parts - log_q[block, None])[:, :, None]
            score[block] = white.reshape(len(white), -1) @ self.rows
        score = _solve(self.lower, -score.T, transposed=True).T
        return Looked(log_parts, log_q, np.ascontiguousarray(score))

    def _seen(self, theta: Array) -> Array:
        return np.ascontiguousarray(_solve(self.lower, (theta - self.middle).T).T)

    def _whitened(self, x: Array) -> Iterator[tuple[slice, Array]]:
        """Whiten rows by all Gaussians, some rows at a time, (n, K, D)."""
        dim = x.shape[1]
        size = max(1, _BLOCK // len(self.rows))
        for start in range(0, len(x), size):
            block = slice(start, start + size)
            white = x[block] @ self.rows.T
            white -= self.places
            yield block, white.reshape(len(white), -1, dim)

    def _log_parts(self, white: Array) -> Array:
        return np.asarray(self.offsets - 0.5 * np.vecdot(white, white))


def log_sum(parts: Array) -> Array:
    """Return the logarithm of the sum of exponentials along the last axis."""
    largest = parts.max(axis=-1, keepdims=True)
    # A point infinitely far from all has a density of zero, not of NaN.
    largest = np.where(np.isneginf(largest), 0.0, largest)
    with np.errstate(divide="ignore"):
        return np.asarray(np.log(np.exp(parts - largest).sum(axis=-1)) + largest[..., 0])


def _solve(lower: Array, columns: Array, *, transposed: bool = False) -> Array:
    solved, failed = lapack.dtrtrs(lower, columns, lower=1, trans=int(transposed))
    if failed:
        raise np.linalg.LinAlgError("the factor is singular")
    return np.asarray(solved)
