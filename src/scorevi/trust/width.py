"""Whether q is far too wide: few of its draws come from where p is, and weights say little.

The scores still do. With t the coordinate of a parameter in standard deviations of q and s that of
the whitened score along it, a Gaussian posterior that is narrower by c has s = −c² t on average
over the other coordinates. The median of −s/t is not disturbed by a few steep draws.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.families import Gaussian, LowRank
from scorevi.trust.fresh_draws import Fresh

_FACTOR = 1.5
_HIGHER = 0.5
"""Nats by which log p − log q is higher in the middle of a parameter's draws than outside."""


class TooWide(NamedTuple):
    """The parameter of which q is most too wide."""

    parameter: int
    factor: float


def too_wide(q: Gaussian | LowRank, fresh: Fresh) -> TooWide | None:
    """Return the parameter whose standard deviation is most too large, if it clearly is."""
    assert fresh.log_ratio is not None
    good = fresh.good
    if good.sum() < 25:
        return None
    t = (fresh.theta[good] - q.mean) / q.sd
    log_ratio = fresh.log_ratio[good]
    with np.errstate(all="ignore"):
        along = q.image(q.whiten_score(fresh.score[good])) / q.sd
        steepness = np.median(-along / t, axis=0)
    worst = int(np.argmax(steepness))
    if not steepness[worst] > _FACTOR**2:
        return None
    inside = np.abs(t[:, worst]) < np.median(np.abs(t[:, worst]))
    # Steep scores alone may be those of several narrow peaks that q spans.
    if not np.median(log_ratio[inside]) > np.median(log_ratio[~inside]) + _HIGHER:
        return None
    return TooWide(worst, math.sqrt(float(steepness[worst])))
