r"""A mixture over a few parameters, and a Gaussian given them: what hierarchies are.

.. math:: q(\theta) = q(t) \, N(y; P(t)^{-1} v(t), P(t)^{-1})

in the whitened coordinates of a Gaussian, turned so that t are the first few of them and y the
others: see :mod:`scorevi.families.given`. Draws, density and score are exact. The moments are those
of a few thousand points of t, evenly spread, and the exact moments of y given each.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property, lru_cache
from typing import NamedTuple, Self, overload

import numpy as np
import scipy.linalg
import scipy.special
from numpy.typing import ArrayLike

from scorevi.base.arrays import AnyArray, Array, Seed, as_count, as_rng
from scorevi.families.base import Points
from scorevi.families.gaussian import Gaussian
from scorevi.families.given import Given, Look
from scorevi.families.mixture import Estimate, Mixture

_DRAWS = 20_000
"""By which quantiles are."""
_ENTROPY_DRAWS = 4000
_SHOWN, _SMOOTHED = 64, 0.3
"""Components of a picture, and their width along t, in standard deviations of q."""


class Split(NamedTuple):
    """Points in the coordinates of a nested approximation."""

    t: Array
    """(n, d)."""
    y: Array
    """(n, D − d)."""


@dataclass(frozen=True, eq=False)
class Nested:
    """A mixture over a few parameters, and a Gaussian given them.

    Made by :func:`scorevi.fit`. It has the members of a :class:`~scorevi.Gaussian`.
    """

    base: Gaussian
    """By which everything is whitened."""
    turn: Array
    """Orthonormal columns: those of t, then those of y, (D, D)."""
    over: Mixture
    """q(t)."""
    given: Given
    """q(y | t)."""
    scales: tuple[int, ...]
    """The parameters that t are made of."""
    even: int = 2048
    """Points of t by which moments are taken, a power of two."""

    @classmethod
    def standard(cls, dim: int) -> Self:
        """Return N(0, I) in ``dim`` dimensions."""
        precisions = np.eye(dim - 1)[None]
        given = Given(np.zeros((1, 1)), precisions, np.zeros((1, 2, dim - 1)))
        return cls(Gaussian.standard(dim), np.eye(dim), Mixture.standard(1), given, (0,))

    @property
    def dim(self) -> int:
        """The number of dimensions, D."""
        return self.base.dim

    @property
    def noise_width(self) -> int:
        """How many standard normal numbers a draw takes: D, and one that picks a component."""
        return self.dim + 1

    @property
    def mean(self) -> Array:
        """The mean, shape (D,)."""
        return self.coordinates.mean

    @property
    def covariance(self) -> Array:
        """The covariance, shape (D, D)."""
        return self.coordinates.covariance

    @property
    def sd(self) -> Array:
        """The standard deviation of each coordinate, shape (D,)."""
        return self.coordinates.sd

    @property
    def log_volume(self) -> float:
        """That of the Gaussian with the same moments."""
        return self.coordinates.log_det

    @cached_property
    def coordinates(self) -> Gaussian:
        """The Gaussian with the same mean and covariance, to whiten by."""
        t = np.asarray(self.over.points(_even(self.over.noise_width, self.even)).theta)
        means, within = self.given.moments(t)
        z = np.concatenate([t, means], axis=1)
        mean = z.mean(axis=0)
        covariance = np.cov(z.T, bias=True).reshape(self.dim, self.dim)
        covariance[len(t[0]) :, len(t[0]) :] += within
        try:
            root = np.linalg.cholesky(covariance)
        except np.linalg.LinAlgError:
            root = np.full_like(covariance, np.nan)
        log_det = float(np.log(np.diag(root)).sum())
        return self.base.moved(self.turn @ mean, self.turn @ root, log_det)

    def sample(self, size: int, seed: Seed = None) -> Array:
        """Draw ``size`` independent points, shape (size, D)."""
        rng = as_rng(seed)
        size = as_count("size", size)
        t = self.over.sample(size, rng)
        noise = rng.standard_normal((size, self.given.width))
        return self._joined(t, self.given.draw(t, noise)[0])

    def points(self, noise: AnyArray) -> Points:
        """Turn rows of noise, (n, D + 1), into draws."""
        noise = np.asarray(noise)
        width = self.over.noise_width
        t = np.asarray(self.over.points(noise[:, :width]).theta)
        y, look = self.given.draw_and_look(t, noise[:, width:])
        theta = self._joined(t, y)
        log_q, score = self._with_score(t, look)
        return Points(theta, -np.asarray(self.coordinates.whiten_score(score)), None, log_q)

    def pull(self, points: Points, score: AnyArray) -> AnyArray:
        """Return scores in the coordinates of the Gaussian with the same moments."""
        del points
        return self.coordinates.whiten_score(score)

    def mismatch(self, theta: Array, score: Array) -> Array:
        """Return the whitened difference between scores of a target and of q at points (n, D)."""
        return np.asarray(self.coordinates.whiten_score(score - self.score(theta)))

    def split(self, theta: Array) -> Split:
        """Return rows of theta in the coordinates t and y."""
        z = self.base.whiten(theta) @ self.turn
        count = self.over.dim
        return Split(z[:, :count], z[:, count:])

    @overload
    def log_density(self, theta: Array) -> Array: ...
    @overload
    def log_density(self, theta: ArrayLike) -> Array | float: ...
    def log_density(self, theta: ArrayLike) -> Array | float:
        """Return the log density, normalised, at a point (D,) or at each row of (n, D)."""
        t, y = self.split(np.atleast_2d(np.asarray(theta, dtype=np.float64)))
        found = self.over.log_density(t) + self.given.log_density(t, y) - self.base.log_det
        return float(found[0]) if np.ndim(theta) == 1 else np.asarray(found)

    def score(self, theta: ArrayLike) -> Array:
        """Return the gradient of the log density at a point (D,) or at each row of (n, D)."""
        score = self.with_score(np.atleast_2d(np.asarray(theta, dtype=np.float64)))[1]
        return score[0] if np.ndim(theta) == 1 else score

    def with_score(self, theta: Array) -> tuple[Array, Array]:
        """Return log densities and scores at rows."""
        t, y = self.split(theta)
        return self._with_score(t, self.given.look(t, y))

    def _with_score(self, t: Array, look: Look) -> tuple[Array, Array]:
        """Join what is known of t, and of y given t."""
        log_t, score_t = self.over.with_score(t)
        white = np.concatenate([score_t + look.along, look.score], axis=1) @ self.turn.T
        score = np.linalg.solve(self.base.factor.T, white.T).T
        return log_t + look.log_q - self.base.log_det, np.asarray(score)

    def distance(self, theta: ArrayLike) -> Array | float:
        """Return how many sds a point (D,), or each row of (n, D), is from the mean."""
        return self.coordinates.distance(theta)

    def entropy(self, draws: int = _ENTROPY_DRAWS, seed: Seed = 0) -> Estimate:
        """Return the differential entropy, -E_q[log q], by draws, with its standard error."""
        values = -self.log_density(self.sample(draws, seed))
        return Estimate(float(values.mean()), float(values.std()) / float(np.sqrt(len(values))))

    def quantile(self, levels: ArrayLike) -> Array:
        """Return quantiles of each marginal, shape (number of levels, D), by 20,000 draws."""
        return np.asarray(np.quantile(self.sample(_DRAWS, 0), np.atleast_1d(levels), axis=0))

    def precise(self) -> Nested:
        """Return the same with moments by more points, for those who read them."""
        return replace(self, even=Nested.even)

    def wider(self, scale: float, farther: float) -> Nested:
        """Return a q that is wider: y given t by ``scale``, t by ``farther`` in half of its draws.

        For those who look for what q lacks.
        """
        parts = [part.scaled(scale) for part in self.over.components]
        weights = np.append(0.5 * self.over.weights, 0.5)
        over = Mixture(weights, [*parts, self.over.coordinates.scaled(farther)])
        return replace(self, over=over, given=self.given.scaled(scale))

    @cached_property
    def as_mixture(self) -> Mixture:
        """A mixture of 64 that looks the same, for pictures: one for each of as many t."""
        t = np.asarray(self.over.points(_even(self.over.noise_width, _SHOWN)).theta)
        narrow = self.over.coordinates.scaled(_SMOOTHED)
        parts = []
        for one in t:
            mean, covariance = self.given.moments(one[None])
            root = scipy.linalg.block_diag(narrow.factor, np.linalg.cholesky(covariance))
            log_det = float(np.log(np.abs(np.diag(root))).sum())
            place = self.turn @ np.concatenate([one, mean[0]])
            parts.append(self.base.moved(place, self.turn @ root, log_det))
        return Mixture(np.ones(_SHOWN), parts)

    def is_whole(self) -> bool:
        """Return whether its arrays fit together and are finite."""
        dim, number = self.dim, self.over.dim
        count, width = len(self.given.rates), dim - number
        shapes: list[tuple[Array, tuple[int, ...]]] = [
            (self.base.factor, (dim, dim)),
            (self.turn, (dim, dim)),
            (self.given.rates, (count, number)),
            (self.given.precisions, (count, width, width)),
            (self.given.linear, (count, 1 + number, width)),
        ]
        if self.given.ends is not None:
            shapes.append((self.given.ends, (2, number)))
        return all(a.shape == shape and np.isfinite(a).all() for a, shape in shapes)

    def is_full_rank(self) -> bool:
        """Return whether each coordinate has a variance of its own, given the others."""
        return self.coordinates.is_full_rank()

    def _joined(self, t: Array, y: Array) -> Array:
        return np.asarray(self.base.unwhiten(np.concatenate([t, y], axis=1) @ self.turn.T))


@lru_cache(maxsize=16)
def _even(width: int, count: int) -> Array:
    """Return standard normal numbers that are evenly spread, (count, width)."""
    from scipy.stats import qmc  # takes as long to import as all else

    sobol = qmc.Sobol(width, rng=np.random.default_rng(0))
    found: Array = scipy.special.ndtri(sobol.random(count))
    found.flags.writeable = False
    return found
