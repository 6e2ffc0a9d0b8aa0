"""What a fit has gained of late, and whether it still moves, told from noise."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array, Mask

FEWEST = 20
"""Signs that are too few to tell a coin from a direction."""
_CONFIDENCE = 2.0
"""Standard errors: the upper end of an interval of 95 %."""
_WORSE = 3.0
_OUTLYING = 4.0


class Gain(NamedTuple):
    """What was gained from one window to the next, on average over draws."""

    mean: float
    error: float
    """Its standard error."""
    spread: float
    """The standard deviation of a single draw."""

    @property
    def upper(self) -> float:
        """The upper end of the confidence interval."""
        return self.mean + _CONFIDENCE * self.error

    @property
    def is_loss(self) -> bool:
        """Whether it has become worse, whatever the noise."""
        return self.mean < -_WORSE * self.error

    def is_below(self, spreads: float, least: float, most: float) -> bool:
        """Whether even the upper end of the interval is not worth waiting for."""
        return self.upper <= min(most, max(least, spreads * self.spread))

    def __str__(self) -> str:
        return f"{self.mean:+.2g} ± {_CONFIDENCE * self.error:.2g}"


def gain_between(values: Array, sizes: Array, older: Mask, newer: Mask) -> Gain:
    """Compare two windows of means over ``sizes`` draws each."""
    both = older | newer
    middle = float(np.median(values[both]))
    # Of a heavy tail the means would tell more about a few draws than about q.
    deviations = np.abs(values[both] - middle) * np.sqrt(sizes[both])
    reach = _OUTLYING * 1.4826 * float(np.median(deviations)) / np.sqrt(sizes)
    values = np.clip(values, middle - reach, middle + reach)
    means, errors, spreads = [], [], []
    for window in (older, newer):
        weight = sizes[window] / sizes[window].sum()
        mean = float(weight @ values[window])
        count = int(window.sum())
        spread = float(np.sum(sizes[window] * (values[window] - mean) ** 2)) / (count - 1)
        means.append(mean)
        errors.append(spread / float(sizes[window].sum()))
        spreads.append(spread)
    return Gain(means[1] - means[0], math.sqrt(sum(errors)), math.sqrt(sum(spreads) / 2))


def still_moving(drifts: Array) -> float | None:
    """Return the share of recent updates whose draws agree on the way to go, if it is telling.

    In a fit that has settled the sign of :func:`scorevi.base.estimates.drift` is a toss of a coin,
    however heavy the tails of its size are. The last quarter of the updates is counted, or the last
    20 if those are among the last half; the share is returned if it is at least 2/3 and 4 standard
    errors above 1/2, which settled fits reach with probability 3e-5.
    """
    count = len(drifts)
    recent = drifts[-max(math.ceil(count / 4), min(FEWEST, count // 2), 1) :]
    recent = recent[np.isfinite(recent) & (recent != 0.0)]
    if len(recent) < FEWEST:
        return None
    share = float((recent > 0).mean())
    return share if share >= max(2 / 3, 0.5 + 2 / math.sqrt(len(recent))) else None
