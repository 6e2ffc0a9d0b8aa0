"""What a family of approximations must be able to do, for the engine to fit it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple, Protocol, Self, runtime_checkable

from numpy.typing import ArrayLike

from scorevi.base.arrays import AnyArray, Array, Seed

if TYPE_CHECKING:
    from scorevi.families.gaussian import Gaussian
    from scorevi.families.low_rank import LowRank

_MAX_LOG_GROWTH = 35.0
"""e^35: a q that has grown or shrunk by 1e15 in each dimension is not on its way to a posterior."""


class Points(NamedTuple):
    """Draws of a q, n rows, and what q knows of them for nothing."""

    theta: AnyArray
    """The draws, (n, D)."""
    z: AnyArray
    """Minus the score of q itself there, in its whitened coordinates, (n, D)."""
    offset: AnyArray | None
    """What z is in the space of theta, theta − mean, (n, D), where one factor maps all of them."""
    log_q: AnyArray
    """The log density of q at them, normalised, (n,)."""


@runtime_checkable
class Family(Protocol):
    """An approximation q of a posterior on an unconstrained space of ``dim``.

    A frozen dataclass of arrays and numbers, or of other such dataclasses: files and checkpoints
    hold it as they hold any such value, and JAX takes it as a tree. What draws, whitens and
    measures is written for NumPy and JAX alike where the solvers of the family are compiled.
    """

    @property
    def dim(self) -> int:
        """The number of dimensions, D."""

    @property
    def noise_width(self) -> int:
        """How many standard normal numbers a draw takes."""

    @property
    def log_volume(self) -> Any:
        """The logarithm of its size, which grows by log 2 in each dimension if q is doubled."""

    @property
    def mean(self) -> Array:
        """The mean, shape (D,)."""

    @property
    def sd(self) -> Array:
        """The standard deviation of each coordinate, shape (D,)."""

    @property
    def coordinates(self) -> Gaussian | LowRank | None:
        """A Gaussian at about the same place and of about the same widths, to whiten by.

        A Gaussian is its own. None where there is none.
        """

    @classmethod
    def standard(cls, dim: int) -> Self:
        """Return N(0, I), or what comes closest to it in the family."""

    def points(self, noise: AnyArray) -> Points:
        """Turn rows of standard normal noise, (n, noise_width), into draws."""

    def pull(self, points: Points, score: AnyArray) -> AnyArray:
        """Return h: scores of a target at draws, in the coordinates in which those of q are −z."""

    def mismatch(self, theta: Array, score: Array) -> Array:
        """Return by how much scores of a target at any points (n, D) differ from those of q.

        In whitened coordinates, where h + z is what it is at draws.
        """

    def sample(self, size: int, seed: Seed = None) -> Array:
        """Draw ``size`` independent points, shape (size, D)."""

    def log_density(self, theta: ArrayLike) -> Any:
        """Return the log density, normalised, at a point (D,) or at each row of (n, D)."""

    def score(self, theta: ArrayLike) -> Array:
        """Return the gradient of the log density at a point (D,) or at each row of (n, D)."""

    def is_full_rank(self) -> bool:
        """Return whether each coordinate has a variance of its own, given the others."""


def is_sound(q: Family, volume_at_start: AnyArray) -> AnyArray:
    """Return whether q is finite and of a size that a posterior may have, next to its start's."""
    growth = abs(q.log_volume - volume_at_start)
    # Both comparisons are false for NaN.
    return (growth <= _MAX_LOG_GROWTH * q.mean.shape[0]) & (q.mean @ q.mean < float("inf"))
