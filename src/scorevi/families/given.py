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
"""Standard deviations of y at most, in those of one Gaussian, where terms are not exact. Between
where their sum is positive and where it is not lie scales at which it is nearly singular."""


class Look(NamedTuple):
    """What a conditional Gaussian says of points, n rows."""

    log_q: Array
    """log q(y | t), (n,)."""
    score: Array
    """Its derivative by y, (n, m)."""
    along: Array
    """Its derivative by t, (n, d)."""


class _Row(NamedTuple):
    factor: Array
    """The Cholesky factor of the precision, lower, in Fortran's order."""
    mean: Array


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
        return replace(self, precisions=self.precisions / scale**2, linear=self.linear / scale**2)

    def draw(self, t: Array, noise: Array) -> tuple[Array, Array]:
        """Turn noise (n, m) into y at rows of t; returns log q(y | t) as well."""
        y, log_q = np.empty_like(noise), np.empty(len(noise))
        for i, (factor, mean) in enumerate(self._rows(t)):
            y[i] = mean + lapack.dtrtrs(factor, noise[i], lower=1, trans=1)[0]
            log_q[i] = np.log(np.diagonal(factor)).sum()
        return y, log_q - 0.5 * np.vecdot(noise, noise) - self.width * HALF_LOG_2PI

    def log_density(self, t: Array, y: Array) -> Array:
        """Return log q(y | t) at rows, (n,)."""
        log_q = np.empty(len(y))
        for i, (factor, mean) in enumerate(self._rows(t)):
            white = factor.T @ (y[i] - mean)
            log_q[i] = np.log(np.diagonal(factor)).sum() - 0.5 * (white @ white)
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
        terms, width = self.terms(t), self.width
        seen = self.within(t)
        ones = np.concatenate([np.ones((len(t), 1)), seen], axis=1)
        # Of a symmetric matrix LAPACK returns one half.
        halves = 2.0 * np.tril(self.precisions)
        halves[:, np.arange(width), np.arange(width)] *= 0.5
        halves = halves.reshape(len(halves), -1)
        log_q, score, traces = np.empty(len(y)), np.empty_like(y), np.empty_like(terms)
        means = np.empty_like(y)
        for i, (factor, mean) in enumerate(self._rows(t)):
            if noise is not None:
                y[i] = mean + lapack.dtrtrs(factor, noise[i], lower=1, trans=1)[0]
            white = factor.T @ (y[i] - mean)
            log_q[i] = np.log(np.diagonal(factor)).sum() - 0.5 * (white @ white)
            score[i], means[i] = -(factor @ white), mean
            inverse = np.tril(lapack.dpotri(factor, lower=1)[0])
            traces[i] = halves @ np.ascontiguousarray(inverse).ravel()
        off = y - means
        images = np.einsum("jab,nb->nja", self.precisions, 0.5 * off + means)
        inner = np.einsum("na,jda->njd", off, self.linear)
        each = 0.5 * traces - np.einsum("na,nja->nj", off, images)
        each += np.einsum("njd,nd->nj", inner, ones)
        along = (terms * each) @ self.rates + np.einsum("nj,njd->nd", terms, inner[:, :, 1:])
        return Look(log_q - width * HALF_LOG_2PI, score, np.where(seen == t, along, 0.0))

    def misplaced(self, t: Array, y: Array, h: Array) -> Array:
        """Return by how many nats its mean is off at rows of t, if h are the scores of p by y.

        If p is Gaussian given t with this precision, the way from y to its top is P⁻¹h, and by as
        much as that is longer than the way to this mean, y was drawn at the wrong place.
        """
        found = np.empty(len(t))
        for i, (factor, mean) in enumerate(self._rows(t)):
            away = factor.T @ (y[i] - mean)
            white = lapack.dtrtrs(factor, h[i], lower=1)[0]
            found[i] = 0.5 * (white @ white - away @ away)
        return found

    def moments(self, t: Array) -> tuple[Array, Array]:
        """Return the means at rows of t, (n, m), and the mean of their covariances, (m, m)."""
        means, total = np.empty((len(t), self.width)), np.zeros((self.width, self.width))
        for i, (factor, mean) in enumerate(self._rows(t)):
            means[i] = mean
            total += lapack.dpotri(factor, lower=1)[0]
        total = np.tril(total) + np.tril(total, -1).T
        return means, total / len(t)

    def _rows(self, t: Array) -> Iterator[_Row]:
        terms, width = self.terms(t), self.width
        ones = np.concatenate([np.ones((len(t), 1)), self.within(t)], axis=1)
        linear = np.einsum("nj,nd,jdm->nm", terms, ones, self.linear)
        flat = self.precisions.reshape(len(self.precisions), -1)
        # What is done with a row is done in here too.
        with one_thread(width):
            for i, row in enumerate(terms):
                precision = (row @ flat).reshape(width, width)
                factor, failed = lapack.dpotrf(precision, lower=1, clean=1)
                if failed:
                    factor = _positive(precision)
                elif self.ends is not None:
                    factor = _bounded(precision, factor)
                yield _Row(factor, lapack.dpotrs(factor, linear[i], lower=1)[0])


def _positive(precision: Array) -> Array:
    """Return the factor of the nearest precision that is one."""
    if not np.isfinite(precision).all():
        return np.eye(len(precision)) * math.nan
    values, vectors = np.linalg.eigh(precision)
    least = _LEAST * max(float(np.abs(values).mean()), 1e-300)
    return _rooted(np.maximum(values, least), vectors)


def _bounded(precision: Array, factor: Array) -> Array:
    """Return the factor of a precision that is nowhere wider than it may be."""
    least, size = _WIDEST**-2.0, float(np.abs(precision).sum(axis=0).max())
    # The estimate takes O(m²), and is below the least eigenvalue, or near it.
    if lapack.dpocon(factor, size, uplo="L")[0] * size >= least:
        return factor
    values, vectors = np.linalg.eigh(precision)
    return factor if values[0] >= least else _rooted(np.maximum(values, least), vectors)


def _rooted(values: Array, vectors: Array) -> Array:
    return np.asarray(np.linalg.cholesky((vectors * values) @ vectors.T))
