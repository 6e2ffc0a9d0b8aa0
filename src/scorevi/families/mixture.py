r"""A mixture of Gaussians, for posteriors that are not one.

.. math:: q(\theta) = \sum_k w_k \, N(\theta; \mu_k, L_k L_k^\top).

It has the members of a :class:`~scorevi.families.gaussian.Gaussian`: it draws, weighs and whitens,
the last by the Gaussian with its own mean and covariance.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple, Self, overload

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from scorevi.base.arrays import AnyArray, Array, Seed, as_count, as_rng
from scorevi.base.threads import one_thread
from scorevi.families.base import Points
from scorevi.families.gaussian import Gaussian
from scorevi.families.stacked import Looked, Stacked, log_sum

_ENTROPY_DRAWS = 4000
_BISECTIONS = 60
_ROUNDING = 1e-13


class Estimate(NamedTuple):
    """A number that comes from draws."""

    value: float
    error: float
    """Its standard error."""


@dataclass(frozen=True, eq=False, init=False)
class Mixture:
    """A mixture of multivariate normal distributions.

    Parameters
    ----------
    weights
        Shape (K,), positive; they are made to sum to one.
    components
        K Gaussians of the same dimension.
    log_weights
        In the place of ``weights``, by code that has them.

    Examples
    --------
    >>> low = Gaussian.from_moments([-2.0], [[1.0]])
    >>> high = Gaussian.from_moments([2.0], [[1.0]])
    >>> q = Mixture([0.5, 0.5], [low, high])
    >>> q.mean, q.sd.round(3)
    (array([0.]), array([2.236]))
    >>> q.sample(3, seed=0).shape
    (3, 1)
    """

    log_weights: Array
    components: tuple[Gaussian, ...]

    def __init__(
        self,
        weights: ArrayLike | None = None,
        components: Sequence[Gaussian] = (),
        *,
        log_weights: Array | None = None,
    ) -> None:
        components = tuple(components)
        if log_weights is None:
            log_weights = np.log(_checked(weights, components))
        log_weights = np.asarray(log_weights, dtype=np.float64)
        total = float(np.logaddexp.reduce(log_weights))
        if abs(total) > _ROUNDING:  # what was read from a file keeps its bits
            log_weights = log_weights - total
        object.__setattr__(self, "log_weights", log_weights)
        object.__setattr__(self, "components", components)

    @classmethod
    def standard(cls, dim: int) -> Self:
        """Return N(0, I) in ``dim`` dimensions, a mixture of one."""
        return cls(components=(Gaussian.standard(dim),), log_weights=np.zeros(1))

    @property
    def dim(self) -> int:
        """The number of dimensions, D."""
        return self.components[0].dim

    @property
    def noise_width(self) -> int:
        """How many standard normal numbers a draw takes: D, and one that picks its component."""
        return self.dim + 1

    @cached_property
    def weights(self) -> Array:
        """The weights of the components, shape (K,)."""
        return np.asarray(np.exp(self.log_weights))

    @cached_property
    def mean(self) -> Array:
        """The mean, shape (D,)."""
        return np.asarray(self.weights @ np.array([part.mean for part in self.components]))

    @cached_property
    def coordinates(self) -> Gaussian:
        """The Gaussian with the same mean and covariance, to whiten by.

        Its factor is made of those of the components by QR: no covariance is formed.
        """
        roots = np.sqrt(self.weights)
        rows = [root * part.factor.T for root, part in zip(roots, self.components, strict=True)]
        rows += [
            root * (part.mean - self.mean)[None]
            for root, part in zip(roots, self.components, strict=True)
        ]
        upper: Array = np.linalg.qr(np.concatenate(rows), mode="r")  # type: ignore[assignment]
        factor = (upper * np.where(np.diag(upper) < 0, -1.0, 1.0)[:, None]).T
        return Gaussian(self.mean, factor, float(np.log(np.diag(factor)).sum()))

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
    def main_axis(self) -> Array:
        """The direction in which the components differ most, a unit vector of whitened space."""
        means = self.coordinates.whiten(np.array([part.mean for part in self.components]))
        return np.asarray(np.linalg.eigh((means.T * self.weights) @ means)[1][:, -1])

    def sample(self, size: int, seed: Seed = None) -> Array:
        """Draw ``size`` independent points, shape (size, D)."""
        rng = as_rng(seed)
        size = as_count("size", size)
        noise = rng.standard_normal((size, self.dim))
        return self._at(noise, rng.choice(len(self.weights), size, p=self.weights))

    def points(self, noise: AnyArray) -> Points:
        """Turn rows of noise, (n, D + 1), into draws.

        The last column picks the components, as many draws from each as its weight says, to within
        one: that takes out what the numbers of draws would add to the variance of any mean.
        """
        noise = np.asarray(noise)
        uniform = scipy.special.ndtr(noise[:, -1])
        ranks = np.argsort(np.argsort(uniform))
        offset = math.fmod(float(uniform.sum()), 1.0)
        places = np.searchsorted(np.cumsum(self.weights), (ranks + offset) / len(noise))
        theta = self._at(noise[:, :-1], np.minimum(places, len(self.weights) - 1))
        log_q, score = self.with_score(theta)
        return Points(theta, -np.asarray(self.coordinates.whiten_score(score)), None, log_q)

    def pull(self, points: Points, score: AnyArray) -> AnyArray:
        """Return scores in the coordinates of the Gaussian with the same moments."""
        del points
        return self.coordinates.whiten_score(score)

    def mismatch(self, theta: Array, score: Array) -> Array:
        """Return the whitened difference between scores of a target and of q at points (n, D)."""
        return np.asarray(self.coordinates.whiten_score(score - self.score(theta)))

    @overload
    def log_density(self, theta: Array) -> Array: ...
    @overload
    def log_density(self, theta: ArrayLike) -> Array | float: ...
    def log_density(self, theta: ArrayLike) -> Array | float:
        """Return the log density, normalised, at a point (D,) or at each row of (n, D)."""
        total = log_sum(self.log_parts(theta))
        return float(total) if np.ndim(total) == 0 else np.asarray(total)

    def log_parts(self, theta: ArrayLike) -> Array:
        """Return log(w_k q_k) of each component at a point, (K,), or at each row, (n, K)."""
        points = np.asarray(theta, dtype=np.float64)
        with one_thread(self.dim):
            parts = self._stacked.log_parts(np.atleast_2d(points))
        return parts[0] if points.ndim == 1 else parts

    @cached_property
    def _stacked(self) -> Stacked:
        """All components, to be looked at together."""
        return Stacked.of(
            self.log_weights,
            np.array([part.mean for part in self.components]),
            np.array([part.factor for part in self.components]),
            np.array([part.log_det for part in self.components]),
            self.coordinates,
        )

    def score(self, theta: ArrayLike) -> Array:
        """Return the gradient of the log density at a point (D,) or at each row of (n, D)."""
        points = np.atleast_2d(np.asarray(theta, dtype=np.float64))
        score = self.with_score(points)[1]
        return score[0] if np.ndim(theta) == 1 else score

    def distance(self, theta: ArrayLike) -> Array | float:
        """Return how many sds a point (D,), or each row of (n, D), is from the nearest mean."""
        each = [np.asarray(part.distance(theta)) for part in self.components]
        nearest = np.min(each, axis=0)
        return float(nearest) if nearest.ndim == 0 else nearest

    def look(self, theta: Array) -> Looked:
        """Return log densities, of each component too, and scores at rows."""
        with one_thread(self.dim):
            return self._stacked.look(np.asarray(theta, dtype=np.float64))

    def with_score(self, theta: Array) -> tuple[Array, Array]:
        """Return log densities and scores at rows."""
        _, log_q, score = self.look(theta)
        return log_q, score

    def entropy(self, draws: int = _ENTROPY_DRAWS, seed: Seed = 0) -> Estimate:
        """Return the differential entropy, -E_q[log q], by draws, with its standard error."""
        values = -np.asarray(self.log_density(self.sample(draws, seed)))
        return Estimate(float(values.mean()), float(values.std()) / math.sqrt(len(values)))

    def quantile(self, levels: ArrayLike) -> Array:
        """Return quantiles of each marginal, shape (number of levels, D), by bisection."""
        means = np.array([part.mean for part in self.components])
        sds = np.array([part.sd for part in self.components])
        wanted = np.atleast_1d(np.asarray(levels, dtype=np.float64))[:, None]
        away = scipy.special.ndtri(np.clip(wanted, 1e-300, 1.0 - 1e-16))[:, None]
        low, high = (np.asarray(f(means + away * sds, axis=1)) for f in (np.min, np.max))
        for _ in range(_BISECTIONS):
            middle = 0.5 * (low + high)
            share = np.tensordot(
                self.weights, scipy.special.ndtr((middle[None] - means[:, None]) / sds[:, None]), 1
            )
            low, high = (
                np.where(share < wanted, middle, low),
                np.where(share < wanted, high, middle),
            )
        return np.asarray(0.5 * (low + high))

    def is_full_rank(self) -> bool:
        """Return whether each component is."""
        return all(part.is_full_rank() for part in self.components)

    def _at(self, noise: Array, places: AnyArray) -> Array:
        theta = np.empty_like(noise)
        for k, part in enumerate(self.components):
            theta[places == k] = part.unwhiten(noise[places == k])
        return theta


def _checked(weights: ArrayLike | None, components: tuple[Gaussian, ...]) -> Array:
    values = np.asarray(weights, dtype=np.float64)
    if values.shape != (len(components),) or not components:
        raise ValueError(
            f"`weights` must have one entry for each of the {len(components)} components; got "
            f"shape {values.shape}."
        )
    if not (np.isfinite(values).all() and (values > 0.0).all()):
        raise ValueError(f"`weights` must be positive and finite; got {values}.")
    if len({part.dim for part in components}) > 1:
        dims = [part.dim for part in components]
        raise ValueError(f"`components` must have one dimension; got {dims}.")
    return values
