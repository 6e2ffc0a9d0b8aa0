r"""How far the best q of a diagonal and directions still is, in many dimensions.

As in :mod:`scorevi.engine.arrival`, by draws that no step had looked at when they were drawn; here
they come in opposite pairs, and of each batch four sums over its pairs are kept, (D,) each. At the
q of highest ELBO the mean of the even parts of the scores vanishes; and with m the odd part less
that of q itself, and w minus that of q, :math:`E[m_i w_i]` is by how much the precision of q given
all other parameters is larger than that of the target, coordinate by coordinate.

Of many coordinates the largest distance is mostly noise. So the root mean square is looked at,
noise included, and √(2 log D) times as much is what the largest may be; or the one that stands out
from its noise by itself. The same is asked of the mean along the directions of q, which may be off
while each of very many coordinates is hardly.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.engine.arrival import ANYWHERE, Distance
from scorevi.families import LowRank
from scorevi.solvers.base import Batch
from scorevi.solvers.opposites import opposites

_SHARE = 3
"""The last third of the pairs is looked at."""
_FEWEST_BATCHES, _FEWEST_PAIRS = 4, 16
_ERRORS = 3.0
"""Standard errors, beside those of the largest of many, beyond which something is off."""


class FreshPairs(NamedTuple):
    """What is kept of a batch: sums over its pairs."""

    pairs: int
    shift: Array
    """Of Newton's step for the mean, (D,)."""
    shift_squares: Array
    wider: Array
    """Of the log of the precision that is too much, given the others, (D,)."""
    wider_squares: Array


class ArrivalOfPairs:
    """The last batches of a run, each as it was when it was drawn.

    It sees one coordinate at a time, and the mean along the directions of q; not whether
    directions are missing.
    """

    def __init__(
        self, batches: tuple[FreshPairs, ...] = (), total: int = 0, *, least: int = 0
    ) -> None:
        self.least = least
        """Pairs that there must be, for all directions to have been looked for."""
        self._batches = deque(batches)
        self._count = sum(batch.pairs for batch in batches)
        self.total = total
        """Pairs of all updates."""

    @property
    def batches(self) -> tuple[FreshPairs, ...]:
        """What is kept."""
        return tuple(self._batches)

    def add(self, q: LowRank, batch: Batch) -> None:
        """Take in a batch of draws from q."""
        offset, odd, even = opposites(batch)
        shift = np.asarray(q.image(q.whiten_score(even)))
        own = -q.score(q.mean + offset)
        wider = (odd + own) * own * q.conditional_sd**2
        fresh = FreshPairs(
            len(offset),
            shift.mean(axis=0) * len(offset),
            (shift**2).mean(axis=0) * len(offset),
            wider.sum(axis=0),
            (wider**2).sum(axis=0),
        )
        self._batches.append(fresh)
        self._count += fresh.pairs
        self.total += fresh.pairs
        most = max(math.ceil(self.total / _SHARE), _FEWEST_PAIRS)
        while self._count - self._batches[0].pairs >= most:
            self._count -= self._batches.popleft().pairs

    def near(self, q: LowRank) -> Distance:
        """Return how far q is; anything, while there are too few batches to tell."""
        few = len(self._batches) < _FEWEST_BATCHES or self._count < _FEWEST_PAIRS
        if few or self.total < self.least:
            return ANYWHERE
        with np.errstate(all="ignore"):
            shift, shift_squares, wider, wider_squares = (
                np.sum(column, axis=0) / self._count
                for column in list(zip(*self._batches, strict=True))[1:]
            )
            ends = [
                self._ends(shift / q.sd, shift_squares / q.sd**2, self._count),
                self._ends(*self._along(q), len(self._batches)),
            ]
            mean, mean_least = np.max(ends, axis=0).tolist()
            log_sd, log_sd_least = self._ends(0.5 * wider, 0.25 * wider_squares, self._count)
        found = Distance(mean, log_sd, mean_least, log_sd_least)
        return found if np.isfinite(found).all() else ANYWHERE

    def _along(self, q: LowRank) -> tuple[Array, Array]:
        """Return the mean over batches of Newton's step along the directions, and of its square.

        In standard deviations there, of which each of very many coordinates has little.
        """
        steps = q.whitened(np.stack([batch.shift / batch.pairs for batch in self._batches]))
        share = np.array([batch.pairs for batch in self._batches]) / self._count
        along = steps @ q.directions
        return share @ along, share @ along**2

    def _ends(self, steps: Array, squares: Array, count: int) -> tuple[float, float]:
        """Return what the largest step may be, and what it is at least.

        Parameters
        ----------
        steps, squares
            Means of steps and of their squares, (k,).
        count
            Over so many.
        """
        if not len(steps):
            return 0.0, 0.0
        error = np.sqrt(np.maximum(squares - steps**2, 0.0) / max(1, count - 1))
        largest = math.sqrt(2.0 * math.log(len(steps) + 1.0))  # of so many normal errors
        upper = max(1.0, largest) * math.sqrt(float(np.mean(steps**2)))
        least = float(np.max(np.abs(steps) - (_ERRORS + largest) * error))
        # One of them may stand out from noise, and yet be little of the mean of all.
        return max(upper, least), max(0.0, least)
