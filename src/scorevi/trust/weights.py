"""Importance weights, smoothed by ArviZ.

References
----------
Vehtari, Simpson, Gelman, Yao and Gabry (2024), Pareto smoothed importance sampling, *JMLR* 25(72).
Yao, Vehtari, Simpson and Gelman (2018), Yes, but did it work? Evaluating variational inference.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.statistics import array_stats

RELIABLE = 0.7
"""The k-hat above which smoothed weights cannot be relied on."""
FEWEST = 25
"""Fewer weights do not show what tail they have."""
_EQUAL = 1e-6
"""Log weights that differ by less are equal, and have no tail but that of rounding."""
_SAME = 1e-3
"""Log weights that differ by less are those of a posterior that is q."""
_LARGE = 5.0
"""The largest weight, over their mean, up to which no tail of any shape has much in it. Where q is
the posterior it is 1.5, with a third of the draws from wider than q; of a q that is a fifth too
narrow 1.2 to 5.5, in 1 to 30 dimensions."""
_EVEN = 0.9
"""A share of effective draws at which the tail, whatever its shape, has nothing in it."""


class Weights(NamedTuple):
    """Smoothed, normalised importance weights."""

    weights: Array
    """They sum to one."""
    khat: float
    """The shape of the tail of the raw weights: −∞ for equal ones, ∞ for too few to tell."""

    @property
    def is_even(self) -> bool:
        """Whether nearly all draws count the same."""
        share = self.ess / max(int((self.weights > 0).sum()), 1)
        return share >= _EVEN and self.khat < math.inf

    @property
    def tail(self) -> float:
        """k-hat as far as there is a tail: 0 at most where nearly all draws count the same."""
        return min(self.khat, 0.0) if self.is_even else self.khat

    @property
    def reliable(self) -> bool:
        """Whether moments by these weights can be relied on."""
        return self.tail <= RELIABLE

    @property
    def ess(self) -> float:
        """The effective sample size, 1/Σw²; 0 where no draw has a weight."""
        squares = float(self.weights @ self.weights)
        return 1.0 / squares if squares > 0.0 else 0.0


def smooth(log_ratio: Array) -> Weights:
    """Smooth log p − log q of independent draws from q; −∞ and NaN count as weight zero.

    Where nearly all draws count, a few stand out from many that are the same: a tail fitted to
    those may be of any shape, and there is nothing to smooth.
    """
    ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    finite = np.isfinite(ratio)
    weights = np.zeros(len(ratio))
    if finite.sum() < FEWEST or np.ptp(ratio[finite]) < _EQUAL:
        weights[finite] = np.exp(ratio[finite] - np.logaddexp.reduce(ratio[finite]))
        return Weights(weights, -math.inf if finite.sum() >= FEWEST else math.inf)
    raw = ratio[finite] - ratio[finite].max()
    smoothed, khat = _psislw(raw)
    weights[finite] = np.exp(raw - np.logaddexp.reduce(raw))
    smoothed = np.asarray(smoothed, dtype=np.float64)
    # A tail that is all the same, or whose numbers overflow, has no shape: too few to tell.
    is_shaped = bool(np.isfinite(khat)) and not bool(np.isnan(smoothed).any())
    even = Weights(weights, float(khat) if is_shaped else math.inf)
    if not is_shaped or even.ess >= _EVEN * finite.sum():
        return even
    weights[finite] = np.exp(smoothed - np.logaddexp.reduce(smoothed))
    return Weights(weights, float(khat))


def normalised(log_ratio: Array) -> Array:
    """Return the weights as they are; −∞ and NaN count as zero, and so do all if none is finite."""
    ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    if not np.isfinite(ratio).any():
        return np.zeros(len(ratio))
    return np.asarray(np.exp(ratio - np.logaddexp.reduce(ratio)))


def are_bounded(weights: Array) -> bool:
    """Return whether no weight is large, of draws from q and from wider than q together.

    Where wider draws have looked for what q lacks, and none weighs much, there is no tail whose
    shape would matter: a k-hat of the draws of q alone may then be that of a single stray one.
    """
    return bool(0.0 < weights.max() * len(weights) <= _LARGE)


def is_constant(log_ratio: Array) -> bool:
    """Return whether p/q is the same at all draws that are of use, so that the posterior is q."""
    finite = log_ratio[np.isfinite(log_ratio)]
    return len(finite) > 0 and bool(np.ptp(finite) < _SAME)


def _psislw(log_ratio: Array) -> tuple[Array, float]:
    """Call ArviZ's, which takes minus the log ratios."""
    with np.errstate(all="ignore"):
        smoothed, khat = array_stats().psislw(-log_ratio)
    return smoothed, khat
