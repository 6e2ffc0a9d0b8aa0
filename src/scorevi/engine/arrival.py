r"""How far the best Gaussian still is, in units that a person understands, and with what error.

At the q that maximises the ELBO the scores agree with those of q on average, and so do their
products with the draws: with :math:`m = h + z` the mismatch of a draw in whitened coordinates,
:math:`E_q[m] = 0` and :math:`E_q[m z^\top] = 0`. Where they do not, Newton's step for each
marginal, by :math:`L m` and :math:`L z` of the draws, says how far it is
(:func:`scorevi.base.newton.steps`).

A regression on all that is remembered would not tell: q was chosen so that it agrees with those.
The draws of a batch have not been looked at when it is drawn. So those of the last third of the
updates are averaged, each in terms of the q that it was drawn from: that one's mean and the step
from there say where the best Gaussian is, wherever q has gone since. But where the way is long, as
along a valley, a step says too little. So q is no nearer than it was on average, as far as this is
to say that it has arrived, and no farther than it is now, where it is to say that it has not.
"""

from __future__ import annotations

import math
from collections import deque
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.newton import steps, together
from scorevi.families import Gaussian
from scorevi.solvers.base import Batch

_SHARE = 3
"""The last third of the draws is looked at."""
_MOST_NUMBERS = 2_000_000
"""The most that is kept, as a number of draws times dimensions."""
_FEWEST_BATCHES, _FEWEST_DRAWS = 4, 32
_HOPELESS = 5.0
"""A distance of which it makes no sense to say how large it is."""
_ERRORS = 2.0
_MANY_ERRORS = 3.0
"""Standard errors: of one figure, and of the largest of many."""


class Distance(NamedTuple):
    """Distances from the best Gaussian: in standard deviations, and of their logarithms."""

    mean: float
    """An upper end: the estimate and twice its error."""
    log_sd: float
    mean_least: float
    """A lower end."""
    log_sd_least: float

    def is_within(self, tolerance: float) -> bool:
        """Whether the distance is below the tolerance, noise included."""
        return max(self.mean, self.log_sd) <= tolerance

    def is_beyond(self, tolerance: float) -> bool:
        """Whether the distance is above the tolerance, whatever the noise."""
        return max(self.mean_least, self.log_sd_least) > tolerance

    @property
    def is_telling(self) -> bool:
        """Whether it makes sense to say how large it is."""
        return max(self.mean, self.log_sd) <= _HOPELESS

    def __str__(self) -> str:
        if not self.is_telling:
            return "how far the best Gaussian is cannot be told"
        return f"means within {self.mean:.2g} sd, sds within {math.expm1(self.log_sd):.0%}"


ANYWHERE = Distance(math.inf, math.inf, 0.0, 0.0)


class Fresh(NamedTuple):
    """What is kept of a batch."""

    shift: Array
    """L m of each draw, (B, D)."""
    offset: Array
    """L z, (B, D)."""
    mean: Array
    """Of the q that they were drawn from, (D,)."""
    sd: Array
    """The same, (D,)."""


class Arrival:
    """The last batches of a run, each as it was when it was drawn."""

    def __init__(self, batches: tuple[Fresh, ...] = (), total: int = 0) -> None:
        self._batches = deque(batches)
        self._count = sum(len(batch.shift) for batch in batches)
        self.total = total
        """Draws of all updates."""

    @property
    def batches(self) -> tuple[Fresh, ...]:
        """What is kept."""
        return tuple(self._batches)

    def add(self, q: Gaussian, batch: Batch) -> None:
        """Take in a batch of draws from q."""
        shift = np.asarray(q.image(batch.z + batch.whitened_score))
        fresh = Fresh(shift, np.asarray(batch.offset), q.mean, q.sd)
        self._batches.append(fresh)
        self._count += len(fresh.shift)
        self.total += len(fresh.shift)
        most = min(math.ceil(self.total / _SHARE), max(_MOST_NUMBERS // q.dim, 4 * q.dim))
        most = max(most, _FEWEST_DRAWS)
        while self._count - len(self._batches[0].shift) >= most:
            self._count -= len(self._batches.popleft().shift)

    def near(self, q: Gaussian) -> Distance:
        """Return how far q is; anything, while there are too few batches to tell."""
        if len(self._batches) < _FEWEST_BATCHES or self._count < _FEWEST_DRAWS:
            return ANYWHERE
        with np.errstate(all="ignore"):
            shift, offset = (np.concatenate([batch[k] for batch in self._batches]) for k in (0, 1))
            share = np.array([len(batch.shift) for batch in self._batches]) / self._count
            gone = share @ np.array([batch.mean for batch in self._batches]) - q.mean
            widened = share @ np.log([batch.sd for batch in self._batches]) - np.log(q.sd)
            mismatch, z = (np.asarray(q.whiten(q.mean + rows)) for rows in (shift, offset))
            one, one_error = np.max(
                [together(rows) for rows in (mismatch, mismatch + q.whiten(q.mean + gone))], axis=0
            )
            loadings = q.factor / q.sd[:, None]
            moved, error, wider, wider_error, further = steps(
                mismatch @ loadings.T, z @ loadings.T, z, mismatch, lambda rows: rows @ loadings.T
            )
        upper, least = _ends(moved, moved + gone / q.sd, error)
        upper = min(upper, math.sqrt(max(0.0, one) + _ERRORS * one_error) * further)
        log_sd, log_sd_least = _ends(wider, wider + widened, wider_error)
        found = Distance(upper, log_sd, least, log_sd_least)
        return found if np.isfinite(found).all() else ANYWHERE


def _ends(before: Array, now: Array, error: Array) -> tuple[float, float]:
    """Return how far the farthest may be, and is at least, by steps from then and from now."""
    one, other = np.abs(before), np.abs(now)
    upper = np.max(np.maximum(one, other) + _ERRORS * error)
    least = np.max(np.minimum(one, other) - _MANY_ERRORS * error)
    return float(upper), float(least)
