"""Draws of a q in opposite pairs.

What is linear in them cancels in the mean of a pair, and is all of its difference.
"""

from __future__ import annotations

from dataclasses import dataclass

from scorevi.base.arrays import AnyArray, namespace
from scorevi.families.base import Points
from scorevi.families.low_rank import LowRank


@dataclass(frozen=True, eq=False)
class Mirrored:
    """What draws like q, the second half of the rows opposite to the first.

    Each row alone is a draw of q, and the rows of a half are independent.
    """

    q: LowRank

    @property
    def dim(self) -> int:
        """The number of dimensions, D."""
        return self.q.dim

    @property
    def noise_width(self) -> int:
        """How many standard normal numbers a draw takes: D."""
        return self.q.dim

    def points(self, noise: AnyArray) -> Points:
        """Turn the first half of the rows of noise into draws and their opposites."""
        half = (len(noise) + 1) // 2
        xp = namespace(noise)
        return self.q.points(xp.concatenate([noise[:half], -noise[: len(noise) - half]]))

    def pull(self, points: Points, score: AnyArray) -> AnyArray:
        """Return whitened scores."""
        return self.q.pull(points, score)
