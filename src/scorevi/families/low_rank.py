r"""A Gaussian with a diagonal and a few directions: for dimensions in which no matrix fits.

.. math:: q = N(\mu, L L^\top), \qquad L = S\,(I + U (C - I) U^\top),

with a diagonal S, K orthonormal directions U (D × K) and a diagonal C of the widths along them. So

.. math:: \Sigma = S\,(I + U (C^2 - I) U^\top)\,S, \qquad
          \Sigma^{-1} = S^{-1}(I + U (C^{-2} - I) U^\top)\,S^{-1}:

covariance and precision are both a diagonal plus rank K, with directions that are wider than the
diagonal says (C > 1), as those of a common factor are, and narrower (C < 1), as those that data
determine. With K = 0 it is the diagonal Gaussian, mean field. Everything is O(D·K) a point, in
memory and time; no D × D array is made, but for :attr:`LowRank.covariance` where it is small.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike

from scorevi.base.arrays import (
    AnyArray,
    Array,
    Seed,
    as_count,
    as_float_array,
    as_rng,
    namespace,
)
from scorevi.families.base import Points
from scorevi.families.gaussian import HALF_LOG_2PI, Gaussian
from scorevi.families.parts import checked_parts

MOST_DENSE = 4096
"""Dimensions up to which a covariance is formed where a user asks for it: 128 MiB."""


@dataclass(frozen=True, eq=False, init=False)
class LowRank:
    """A multivariate normal distribution, its covariance a diagonal plus rank K.

    Parameters
    ----------
    mean
        Shape (D,).
    scale
        The diagonal S, shape (D,), positive.
    directions
        U, shape (D, K), orthonormal columns; none for a diagonal covariance.
    widths
        C, shape (K,), positive.
    log_det
        log|det L|. Leave it out: the rest is then checked and it is computed. Code that already
        knows it passes it, and nothing is checked.

    Examples
    --------
    >>> q = LowRank.from_factors([0.0, 1.0, 2.0], [1.0, 4.0, 9.0], [[1.0], [2.0], [0.0]])
    >>> q.covariance
    array([[2., 2., 0.],
           [2., 8., 0.],
           [0., 0., 9.]])
    >>> LowRank([0.0, 1.0], [2.0, 3.0]).sd
    array([2., 3.])
    """

    mean: Array
    scale: Array
    directions: Array
    widths: Array
    log_det: float

    def __init__(
        self,
        mean: Array,
        scale: Array,
        directions: Array | None = None,
        widths: Array | None = None,
        log_det: float | None = None,
    ) -> None:
        if directions is None or widths is None:
            directions, widths = np.empty((np.size(scale), 0)), np.empty(0)
        if log_det is None:
            mean, scale, directions, widths = checked_parts(mean, scale, directions, widths)
            log_det = float(np.log(scale).sum() + np.log(widths).sum())
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "scale", scale)
        object.__setattr__(self, "directions", directions)
        object.__setattr__(self, "widths", widths)
        object.__setattr__(self, "log_det", log_det)

    @classmethod
    def standard(cls, dim: int) -> LowRank:
        """Return N(0, I) in ``dim`` dimensions, without directions."""
        dim = as_count("dim", dim)
        return cls(np.zeros(dim), np.ones(dim), np.empty((dim, 0)), np.empty(0), 0.0)

    @classmethod
    def from_factors(cls, mean: ArrayLike, variances: ArrayLike, loadings: ArrayLike) -> LowRank:
        """Build from a mean (D,), variances (D,) and loadings W (D, K).

        The covariance is diag(variances) + W Wᵀ, as in factor analysis.
        """
        loadings = as_float_array("loadings", loadings, (None, None))
        variances = as_float_array("variances", variances, (len(loadings),))
        if not (variances > 0).all():
            raise ValueError(f"`variances` must be positive; the least is {variances.min():.3g}.")
        scale = np.sqrt(variances)
        directions, sizes, _ = np.linalg.svd(loadings / scale[:, None], full_matrices=False)
        return cls(np.asarray(mean, dtype=np.float64), scale, directions, np.hypot(1.0, sizes))

    @property
    def dim(self) -> int:
        """The number of dimensions, D."""
        return int(self.mean.shape[0])

    @property
    def rank(self) -> int:
        """The number of directions, K."""
        return int(self.widths.shape[0])

    @property
    def noise_width(self) -> int:
        """How many standard normal numbers a draw takes: D."""
        return self.dim

    @property
    def log_volume(self) -> float:
        """log|det L|."""
        return self.log_det

    @property
    def coordinates(self) -> LowRank:
        """The Gaussian itself, as it whitens by its own root."""
        return self

    @cached_property
    def sd(self) -> Array:
        """The standard deviation of each coordinate, shape (D,)."""
        return self.scale * np.sqrt(self._diagonal(self.widths**2))

    @cached_property
    def conditional_sd(self) -> Array:
        """The standard deviation of each coordinate given all others, shape (D,)."""
        return self.scale / np.sqrt(self._diagonal(self.widths**-2.0))

    @property
    def covariance(self) -> Array:
        """The covariance, shape (D, D); refused where that would be too large."""
        if self.dim > MOST_DENSE:
            raise ValueError(
                f"`covariance` is formed up to {MOST_DENSE} dimensions; this q has {self.dim}, "
                f"which would take {8 * self.dim**2 / 2**30:.3g} GiB. Its parts are q.scale, "
                "q.directions and q.widths; q.sd has the standard deviations."
            )
        root = self.image(np.eye(self.dim))
        return np.asarray(root.T @ root, dtype=np.float64)

    def dense(self) -> Gaussian:
        """Return the same distribution with a D × D factor; refused where that is too large."""
        return Gaussian.from_moments(self.mean, self.covariance)

    def sample(self, size: int, seed: Seed = None) -> Array:
        """Draw ``size`` independent points, shape (size, D)."""
        z = as_rng(seed).standard_normal((as_count("size", size), self.dim))
        draws: Array = self.unwhiten(z)
        return draws

    def points(self, noise: AnyArray) -> Points:
        """Turn rows of noise into draws; z is the noise itself."""
        offset = self.image(noise)
        squares = namespace(noise).vecdot(noise, noise)
        log_q = -0.5 * squares - (self.log_det + self.dim * HALF_LOG_2PI)
        return Points(self.mean + offset, noise, offset, log_q)

    def pull(self, points: Points, score: AnyArray) -> AnyArray:
        """Return whitened scores, which do not depend on where the points are."""
        del points
        return self.whiten_score(score)

    def mismatch(self, theta: Array, score: Array) -> Array:
        """Return the whitened difference between scores of a target and of q at points (n, D)."""
        return np.asarray(self.whiten_score(score) + self.whiten(theta), dtype=np.float64)

    def is_full_rank(self) -> bool:
        """Return whether each coordinate has a variance of its own, given the others."""
        share = self.conditional_sd / self.sd
        return bool((share > np.finfo(np.float64).eps).all())

    def image(self, z: AnyArray) -> AnyArray:
        """Map rows z of the whitened space to offsets L z from the mean."""
        return self._along(z, self.widths) * self.scale

    def unwhiten(self, z: AnyArray) -> AnyArray:
        """Map rows z of the whitened space to points mean + L z."""
        return self.mean + self.image(z)

    def whiten_score(self, score: AnyArray) -> AnyArray:
        """Map rows g, scores at points of the space, to scores Lᵀ g in whitened space."""
        return self._along(score * self.scale, self.widths)

    def whiten(self, theta: ArrayLike) -> Array:
        """Map a point (D,) or rows (n, D) of them to z with mean + L z = theta."""
        points, single = self._points(theta)
        z = self.whitened(points - self.mean)
        return z[0] if single else z

    def whitened(self, offsets: Array) -> Array:
        """Map rows of offsets from the mean, (n, D), to rows z with L z = offset."""
        return np.asarray(self._along(offsets / self.scale, 1.0 / self.widths), dtype=np.float64)

    def distance(self, theta: ArrayLike) -> Array | float:
        """Return |z|, the distance from the mean in sds, of a point (D,) or rows (n, D) of them."""
        lengths = np.linalg.norm(self.whiten(theta), axis=-1)
        return float(lengths) if np.ndim(lengths) == 0 else np.asarray(lengths)

    @overload
    def log_density(self, theta: Array) -> Array: ...
    @overload
    def log_density(self, theta: ArrayLike) -> Array | float: ...
    def log_density(self, theta: ArrayLike) -> Array | float:
        """Return the log density, normalised, at a point (D,) or at each row of (n, D)."""
        z = self.whiten(theta)
        values = -0.5 * np.vecdot(z, z) - self.log_det - self.dim * HALF_LOG_2PI
        return float(values) if np.ndim(values) == 0 else np.asarray(values)

    def score(self, theta: ArrayLike) -> Array:
        """Return the gradient of the log density at a point (D,) or at each row of (n, D)."""
        z = self.whiten(theta)
        return np.asarray(-self._along(z, 1.0 / self.widths) / self.scale, dtype=np.float64)

    def entropy(self) -> float:
        """Return the differential entropy, -E_q[log q]."""
        return self.log_det + self.dim * (0.5 + HALF_LOG_2PI)

    def kl(self, other: LowRank) -> float:
        """Return KL(self || other), the divergence from ``other`` to this distribution."""
        if other.dim != self.dim:
            raise ValueError(f"`other` must have dimension {self.dim}; got {other.dim}.")
        ratio = self.scale / other.scale
        ours, theirs = (ratio[:, None] * q.directions for q in (self, other))
        wide, steep = self.widths**2 - 1.0, other.widths**-2.0 - 1.0
        both = (other.directions.T @ ours) ** 2
        trace = float(ratio @ ratio + steep @ both @ wide)
        trace += float(wide @ (ours**2).sum(0) + steep @ (theirs**2).sum(0))
        shift = other.whiten(self.mean)
        twice = trace - self.dim + float(shift @ shift)
        return max(0.0, 0.5 * twice + other.log_det - self.log_det)

    def scaled(self, scale: float) -> LowRank:
        """Return the same Gaussian with every standard deviation multiplied by ``scale``."""
        log_det = self.log_det + self.dim * math.log(scale)
        return LowRank(self.mean, self.scale * scale, self.directions, self.widths, log_det)

    def stretched(self, mean: Array, ratio: Array) -> LowRank:
        """Return it at another mean, with each standard deviation times its ``ratio``, (D,).

        Correlations stay as they are.
        """
        log_det = self.log_det + float(np.log(ratio).sum())
        return LowRank(mean, self.scale * ratio, self.directions, self.widths, log_det)

    def _along(self, rows: AnyArray, widths: AnyArray) -> AnyArray:
        """Multiply the part of each row along the directions by ``widths``."""
        if self.directions.shape[1] == 0:
            return rows
        return rows + ((rows @ self.directions) * (widths - 1.0)) @ self.directions.T

    def _diagonal(self, squares: Array) -> Array:
        """Return the diagonal of I + U (squares − I) Uᵀ, which rounding must not make zero."""
        change = self.directions**2 @ (squares - 1.0)
        return np.asarray(np.maximum(1.0 + change, np.finfo(np.float64).tiny), dtype=np.float64)

    def _points(self, theta: ArrayLike) -> tuple[Array, bool]:
        points = np.asarray(theta, dtype=np.float64)
        if points.shape[-1:] != (self.dim,) or points.ndim > 2:
            raise ValueError(
                f"`theta` must have shape ({self.dim},) or (n, {self.dim}); got {points.shape}."
            )
        return np.atleast_2d(points), points.ndim == 1
