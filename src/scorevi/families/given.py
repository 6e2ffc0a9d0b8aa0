r"""A Gaussian whose mean and precision depend on a few parameters t.

.. math:: y \mid t \sim N(P(t)^{-1} v(t), P(t)^{-1}), \qquad
          P(t) = \sum_j e^{\rho_j \cdot t} B_j, \quad
          v(t) = \sum_j e^{\rho_j \cdot t} (a_{j0} + \sum_k t_k a_{jk}).

Where t are logarithms of scales this is what a hierarchy is given them: its precision is a sum of
terms, each proportional to a power of the scales.

A row costs O(D³/3): its own precision is factorised.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, replace
from typing import NamedTuple

import numpy as np
from scipy.linalg import lapack

from scorevi.base.arrays import Array
from scorevi.base.threads import one_thread
from scorevi.families.gaussian import HALF_LOG_2PI

_LONGEST = 40.0
"""The largest exponent: further out nothing is known, and nothing overflows."""
_LEAST = 0.02
"""The smallest eigenvalue of a precision where a sum of terms is not positive, over its mean."""
_WIDEST = 20.0
"""Standard deviations of y at most, in those of one Gaussian, where terms are not exact."""
_TURNS = 4
"""Of power iteration."""

_BLOCK = 1 << 16
"""Numbers of the matrices that are worked on at a time."""


class Look(NamedTuple):
    """What a conditional Gaussian says of points, n rows."""

    log_q: Array
    """log q(y | t), (n,)."""
    score: Array
    """Its derivative by y, (n, m)."""
    along: Array
    """Its derivative by t, (n, d)."""


class Tried(NamedTuple):
    """What scores say of points, n rows."""

    misplaced: Array
    """By how many nats the mean is off, (n,)."""
    widths: Array
    """The largest standard deviation of y given t, about, (n,)."""


class _Block(NamedTuple):
    """Some rows."""

    rows: slice
    factor: Array
    """The Cholesky factors of the precisions, lower, (n, m, m)."""
    inverse: Array
    """Their inverses."""
    mean: Array
    """(n, m)."""
    log_det: Array
    """Of the factors, (n,)."""


@dataclass(frozen=True, eq=False)
class Given:
    """A Gaussian given t."""

    rates: Array
    """ρ, (J, d); the first row is zero."""
    precisions: Array
    """B, symmetric, (J, m, m)."""
    linear: Array
    """a, (J, 1 + d, m)."""
    ends: Array | None = None
    """The least and the largest t that were seen, (2, d): beyond, nothing changes any more.

    None where the terms are known exactly, and may be followed as far as one likes.
    """
    widest: float = _WIDEST
    """Standard deviations of y at most, where terms are not exact. Between where their sum is
    positive and where it is not lie scales at which it is nearly singular."""

    @property
    def width(self) -> int:
        """The number of its dimensions, m."""
        return int(self.precisions.shape[1])

    def within(self, t: Array) -> Array:
        """Return the nearest t that were seen, at rows of t."""
        return t if self.ends is None else np.clip(t, *self.ends)

    def terms(self, t: Array) -> Array:
        """Return exp(ρ·t) of each term at rows of t, (n, J)."""
        return np.asarray(np.exp(np.clip(self.within(t) @ self.rates.T, -_LONGEST, _LONGEST)))

    def scaled(self, scale: float) -> Given:
        """Return a Gaussian with the same means whose standard deviations are ``scale`` times."""
        return replace(
            self,
            precisions=self.precisions / scale**2,
            linear=self.linear / scale**2,
            widest=self.widest * scale,
        )

    def draw(self, t: Array, noise: Array) -> tuple[Array, Array]:
        """Turn noise (n, m) into y at rows of t; returns log q(y | t) as well."""
        y, log_q = np.empty_like(noise), np.empty(len(noise))
        for some in self._blocks(t):
            y[some.rows] = some.mean + np.vecmat(noise[some.rows], some.inverse)
            log_q[some.rows] = some.log_det
        return y, log_q - 0.5 * np.vecdot(noise, noise) - self.width * HALF_LOG_2PI

    def log_density(self, t: Array, y: Array) -> Array:
        """Return log q(y | t) at rows, (n,)."""
        log_q = np.empty(len(y))
        for some in self._blocks(t):
            white = np.vecmat(y[some.rows] - some.mean, some.factor)
            log_q[some.rows] = some.log_det - 0.5 * np.vecdot(white, white)
        return log_q - self.width * HALF_LOG_2PI

    def look(self, t: Array, y: Array) -> Look:
        """Return log q(y | t) at rows, and its derivatives."""
        return self._look(t, y, None)

    def draw_and_look(self, t: Array, noise: Array) -> tuple[Array, Look]:
        """Turn noise (n, m) into y at rows of t, and look there: each row is factorised once."""
        y = np.empty_like(noise)
        return y, self._look(t, y, noise)

    def _look(self, t: Array, y: Array, noise: Array | None) -> Look:
        """Look at y, which are made of noise first, where there is any."""
        terms, width, seen = self.terms(t), self.width, self.within(t)
        ones = np.concatenate([np.ones((len(t), 1)), seen], axis=1)
        flat = self.precisions.reshape(len(self.precisions), -1).T
        log_q, score, traces = np.empty(len(y)), np.empty_like(y), np.empty_like(terms)
        means = np.empty_like(y)
        for rows, factor, inverse, mean, log_det in self._blocks(t):
            if noise is not None:
                y[rows] = mean + np.vecmat(noise[rows], inverse)
            white = np.vecmat(y[rows] - mean, factor)
            log_q[rows] = log_det - 0.5 * np.vecdot(white, white)
            score[rows], means[rows] = -np.matvec(factor, white), mean
            covariance = inverse.transpose(0, 2, 1) @ inverse
            traces[rows] = covariance.reshape(len(mean), -1) @ flat
        off = y - means
        images = (self.precisions @ (0.5 * off + means).T).transpose(2, 0, 1)
        inner = (off @ self.linear.reshape(-1, width).T).reshape(*terms.shape, -1)
        each = 0.5 * traces - np.matvec(images, off)
        each += np.matvec(inner, ones)
        along = (terms * each) @ self.rates + np.vecmat(terms, inner[:, :, 1:])
        return Look(log_q - width * HALF_LOG_2PI, score, np.where(seen == t, along, 0.0))

    def tried(self, t: Array, y: Array, h: Array) -> Tried:
        """Return how wide it is at rows of t, and how far off, if h are the scores of p by y.

        If p is Gaussian given t with this precision, the way from y to its top is P⁻¹h, and by as
        much as that is longer than the way to this mean, y was drawn at the wrong place.
        """
        found = Tried(np.empty(len(t)), np.empty(len(t)))
        for rows, factor, inverse, mean, _ in self._blocks(t):
            away, white = np.vecmat(y[rows] - mean, factor), np.matvec(inverse, h[rows])
            found.misplaced[rows] = 0.5 * (np.vecdot(white, white) - np.vecdot(away, away))
            found.widths[rows] = _widths(inverse)
        return found

    def moments(self, t: Array) -> tuple[Array, Array]:
        """Return the means at rows of t, (n, m), and the mean of their covariances, (m, m)."""
        means, total = np.empty((len(t), self.width)), np.zeros((self.width, self.width))
        for some in self._blocks(t):
            means[some.rows] = some.mean
            all_rows = some.inverse.reshape(-1, self.width)
            total += all_rows.T @ all_rows
        return means, total / len(t)

    def _blocks(self, t: Array) -> Iterator[_Block]:
        """Factorise the precision at rows of t, as many at a time as stay in the cache."""
        terms, width = self.terms(t), self.width
        ones = np.concatenate([np.ones((len(t), 1)), self.within(t)], axis=1)
        weighted = (terms[:, :, None] * ones[:, None, :]).reshape(len(t), -1)
        linear = weighted @ self.linear.reshape(-1, width)
        flat = self.precisions.reshape(len(self.precisions), -1)
        size = max(1, _BLOCK // width**2)
        # What is done with a block is done in here too.
        with one_thread(width):
            for first in range(0, len(t), size):
                rows = slice(first, first + size)
                precision = (terms[rows] @ flat).reshape(-1, width, width)
                factor, inverse = self._factorised(precision)
                mean = np.vecmat(np.matvec(inverse, linear[rows]), inverse)
                log_det = np.log(np.diagonal(factor, axis1=1, axis2=2)).sum(axis=1)
                yield _Block(rows, factor, inverse, mean, log_det)

    def _factorised(self, precisions: Array) -> tuple[Array, Array]:
        """Return Cholesky factors, and their inverses, of what is positive and not too wide."""
        factors, inverses = np.empty_like(precisions), np.empty_like(precisions)
        may_be_wide = self.ends is not None
        for i, precision in enumerate(precisions):
            factor, failed = lapack.dpotrf(precision, lower=1, clean=1)
            if failed:
                factor = _positive(precision)
            inverse = lapack.dtrtri(factor, lower=1)[0]
            if may_be_wide and not failed and _is_wide(inverse, self.widest):
                factor = _bounded(precision, factor, self.widest)
                inverse = lapack.dtrtri(factor, lower=1)[0]
            factors[i], inverses[i] = factor, inverse
        return factors, inverses


def _positive(precision: Array) -> Array:
    """Return the factor of the nearest precision that is one."""
    if not np.isfinite(precision).all():
        return np.eye(len(precision)) * math.nan
    values, vectors = np.linalg.eigh(precision)
    least = _LEAST * max(float(np.abs(values).mean()), 1e-300)
    return _rooted(np.maximum(values, least), vectors)


def _widths(inverses: Array) -> Array:
    """Return the roots of the largest eigenvalues of covariances, by their roots, (n, m, m).

    By a few turns of power iteration, which find one that stands out.
    """
    way = inverses[:, -1]
    for _ in range(_TURNS):
        way = np.vecmat(np.matvec(inverses, way), inverses)
        way /= np.maximum(np.sqrt(np.vecdot(way, way)), 1e-300)[:, None]
    image = np.matvec(inverses, way)
    return np.asarray(np.sqrt(np.vecdot(image, image)))


def _is_wide(inverse: Array, widest: float) -> bool:
    """Return whether a covariance, by its root, may have too large an eigenvalue.

    None is larger than the trace, nor than the norm, which takes longer.
    """
    if float(np.vdot(inverse, inverse)) <= widest**2:
        return False
    return float(np.linalg.norm(inverse.T @ inverse)) > widest**2


def _bounded(precision: Array, factor: Array, widest: float) -> Array:
    """Return the factor of a precision that is nowhere wider than it may be."""
    least = widest**-2.0
    values, vectors = np.linalg.eigh(precision)
    return factor if values[0] >= least else _rooted(np.maximum(values, least), vectors)


def _rooted(values: Array, vectors: Array) -> Array:
    return np.asarray(np.linalg.cholesky((vectors * values) @ vectors.T))
