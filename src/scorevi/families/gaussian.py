r"""The variational family: a Gaussian seen only through its mean and a square root.

Write :math:`q = N(\mu, L L^\top)` with :math:`L` *any* square root of the covariance; it
need not be triangular. A draw is :math:`\theta = \mu + L z` with :math:`z \sim N(0, I)`, and
in the coordinates :math:`z` the distribution is the standard normal. Solvers move q by an
affine change of those coordinates,

.. math:: \mu \leftarrow \mu + L w, \qquad L \leftarrow L R, \qquad
          \log|\det L| \leftarrow \log|\det L| + \log|\det R|,

so the covariance stays positive definite and is never formed or factorised on the way.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cached_property
from typing import overload

import numpy as np
from numpy.typing import ArrayLike
from scipy.linalg import lapack

from scorevi.base.arrays import AnyArray, Array, Seed, as_count, as_rng, namespace
from scorevi.base.linalg import add_low_rank, backward, rows_times, times_rows
from scorevi.families.base import Points
from scorevi.families.moments import checked, factor_of

HALF_LOG_2PI = 0.5 * math.log(2.0 * math.pi)


@dataclass(frozen=True, eq=False, init=False)
class Gaussian:
    """A multivariate normal distribution in factor form.

    Parameters
    ----------
    mean
        Shape (D,).
    factor
        Shape (D, D): any square root of the covariance, ``factor @ factor.T``.
    log_det
        log|det factor|. Leave it out: mean and factor are then checked and it is computed.
        Code that already knows it passes it, and nothing is checked.

    Examples
    --------
    >>> q = Gaussian.from_moments([0.0, 1.0], [[4.0, 0.0], [0.0, 9.0]])
    >>> q.sd
    array([2., 3.])
    >>> q.kl(q)
    0.0
    >>> q.sample(3, seed=0).shape
    (3, 2)
    """

    mean: Array
    factor: Array
    log_det: float

    def __init__(self, mean: Array, factor: Array, log_det: float | None = None) -> None:
        if log_det is None:
            mean, factor, log_det = checked(mean, factor)
        object.__setattr__(self, "mean", mean)
        object.__setattr__(self, "factor", factor)
        object.__setattr__(self, "log_det", log_det)

    @classmethod
    def standard(cls, dim: int) -> Gaussian:
        """Return N(0, I) in ``dim`` dimensions."""
        dim = as_count("dim", dim)
        return cls(np.zeros(dim), np.eye(dim), 0.0)

    @classmethod
    def from_moments(cls, mean: ArrayLike, covariance: ArrayLike) -> Gaussian:
        """Build from a mean, shape (D,), and a covariance, shape (D, D)."""
        mean, factor = factor_of(mean, covariance)
        return cls(mean, factor, float(np.log(np.diag(factor)).sum()))

    @property
    def dim(self) -> int:
        """The number of dimensions, D."""
        return int(self.mean.shape[0])

    @property
    def noise_width(self) -> int:
        """How many standard normal numbers a draw takes: D."""
        return self.dim

    @property
    def log_volume(self) -> float:
        """log|det factor|."""
        return self.log_det

    @property
    def coordinates(self) -> Gaussian:
        """The Gaussian itself, as it whitens by its own factor."""
        return self

    @cached_property
    def covariance(self) -> Array:
        """The covariance, shape (D, D)."""
        return self.factor @ self.factor.T

    @cached_property
    def sd(self) -> Array:
        """The standard deviation of each coordinate, shape (D,)."""
        return np.asarray(np.sqrt(np.vecdot(self.factor, self.factor)), dtype=np.float64)

    @cached_property
    def cholesky(self) -> Array:
        """The lower triangular square root, by QR of the factor: the covariance is not formed."""
        upper = np.asarray(np.linalg.qr(self.factor.T, mode="r"))
        return np.asarray((upper * np.sign(upper.diagonal())[:, None]).T, dtype=np.float64)

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
        return np.asarray(self.whiten_score(score - self.score(theta)), dtype=np.float64)

    def is_full_rank(self) -> bool:
        """Return whether each coordinate has a variance of its own, given those before it.

        Measured as a share of its standard deviation, so that units do not matter, and against
        rounding: the diagonal of the Cholesky factor of the correlations. Takes O(D³).
        """
        return bool((np.diag(self.cholesky) > np.finfo(np.float64).eps * self.sd).all())

    def unwhiten(self, z: AnyArray) -> AnyArray:
        """Map rows z of the whitened space to points mean + factor @ z."""
        return self.mean + self.image(z)

    def image(self, z: AnyArray) -> AnyArray:
        """Map rows z of the whitened space to offsets factor @ z from the mean."""
        return times_rows(self.factor, z)

    def whiten(self, theta: ArrayLike) -> Array:
        """Map a point (D,) or rows (n, D) of them to z with mean + factor @ z = theta.

        O(D²) a point, after one factorisation that is kept.
        """
        points, single = self._points(theta)
        lu, pivots = self._lu
        z = lapack.dgetrs(lu, pivots, (points - self.mean).T)[0].T
        return np.asarray(z[0] if single else z, dtype=np.float64)

    def distance(self, theta: ArrayLike) -> Array | float:
        """Return |z|, the distance from the mean in sds, of a point (D,) or rows (n, D) of them."""
        points, single = self._points(theta)
        lengths = np.linalg.norm(self._solve(points), axis=1)
        return float(lengths[0]) if single else lengths

    def whiten_score(self, score: AnyArray) -> AnyArray:
        """Map rows g, scores at points of the space, to scores factor.T @ g in whitened space."""
        return rows_times(score, self.factor)

    @overload
    def log_density(self, theta: Array) -> Array: ...
    @overload
    def log_density(self, theta: ArrayLike) -> Array | float: ...
    def log_density(self, theta: ArrayLike) -> Array | float:
        """Return the log density, normalised, at a point (D,) or at each row of (n, D)."""
        points, single = self._points(theta)
        white = self._solve(points)
        values: Array = -0.5 * np.vecdot(white, white) - self.log_det - self.dim * HALF_LOG_2PI
        return float(values[0]) if single else values

    def score(self, theta: ArrayLike) -> Array:
        """Return the gradient of the log density at a point (D,) or at each row of (n, D)."""
        points, single = self._points(theta)
        white = self._solve(points)
        values = -backward(self.cholesky, white.T, transposed=True).T
        return np.asarray(values[0] if single else values, dtype=np.float64)

    def entropy(self) -> float:
        """Return the differential entropy, -E_q[log q]."""
        return self.log_det + self.dim * (0.5 + HALF_LOG_2PI)

    def kl(self, other: Gaussian) -> float:
        """Return KL(self || other), the divergence from ``other`` to this distribution."""
        if other.dim != self.dim:
            raise ValueError(f"`other` must have dimension {self.dim}; got {other.dim}.")
        ratio = backward(other.cholesky, self.factor)
        shift = other._solve(self.mean[None])[0]
        twice = float((ratio * ratio).sum()) - self.dim + float(shift @ shift)
        return max(0.0, 0.5 * twice + other.log_det - self.log_det)

    def scaled(self, scale: float) -> Gaussian:
        """Return the same Gaussian with every standard deviation multiplied by ``scale``."""
        log_det = self.log_det + self.dim * math.log(scale)
        return Gaussian(self.mean, self.factor * scale, log_det)

    def moved(self, shift: AnyArray, root: AnyArray, log_det: AnyArray) -> Gaussian:
        """Apply a dense affine change of the whitened space.

        mean ← mean + L·shift, L ← L·root, with log_det = log|det root|.
        """
        mean = self.mean + self.factor @ shift
        return Gaussian(mean, self.factor @ root, self.log_det + log_det)

    def moved_along(
        self,
        shift: AnyArray,
        directions: AnyArray,
        images: AnyArray,
        core: AnyArray,
        log_det: AnyArray,
    ) -> Gaussian:
        """Apply a change confined to the span of the k rows of ``directions``, X of shape (k, D).

        L ← L·(I + Xᵀ·core·X) in O(k·D²), given the rows' ``images`` X·Lᵀ, a symmetric ``core``,
        and the log determinant of the root. The mean moves by ``shift``, itself an image.
        """
        factor = add_low_rank(self.factor, core @ images, directions)
        return Gaussian(self.mean + shift, factor, self.log_det + log_det)

    @cached_property
    def _lu(self) -> tuple[Array, Array]:
        lu, pivots, failed = lapack.dgetrf(self.factor)
        if failed:
            raise np.linalg.LinAlgError("the factor is singular")
        return lu, pivots

    def _points(self, theta: ArrayLike) -> tuple[Array, bool]:
        points = np.asarray(theta, dtype=np.float64)
        if points.shape[-1:] != (self.dim,) or points.ndim > 2:
            raise ValueError(
                f"`theta` must have shape ({self.dim},) or (n, {self.dim}); got {points.shape}."
            )
        return np.atleast_2d(points), points.ndim == 1

    def _solve(self, points: Array) -> Array:
        return backward(self.cholesky, (points - self.mean).T).T
