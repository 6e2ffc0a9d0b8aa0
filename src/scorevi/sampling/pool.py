r"""Draws of q and wider ones, weighed together.

With :math:`n` draws of q and :math:`m` from wider than q, each counts by

.. math:: p / \Big(\frac{n}{n + m}\, q + \frac{m}{n + m}\, q_{wide}\Big),

the balance heuristic: it does not matter which of the two a draw came from. No weight is then much
more than p over the wider of the two, so that what was drawn to see whether q lacks a tail also
keeps the weights from having one.

References
----------
Veach and Guibas (1995), Optimally combining sampling techniques for Monte Carlo rendering.
Hesterberg (1995), Weighted average importance sampling and defensive mixture distributions.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.families import Approximation
from scorevi.trust.fresh_draws import draw
from scorevi.trust.wider_draws import wider_than


class Pool(NamedTuple):
    """Draws, and what the target and both distributions say there."""

    theta: Array
    """(n + m, D)."""
    log_p: Array
    """The target's log density; −∞ where it is no use."""
    log_q: Array
    log_wide: Array = np.empty(0)
    """Of the distribution that wider draws came from; empty where there are none."""
    wider: int = 0
    """m."""

    @classmethod
    def of(cls, q: Approximation, count: int, seed: int, evaluator: Evaluator) -> Pool | None:
        """Draw from q alone, and evaluate; None where the target has no log density."""
        fresh = draw(q, count, seed, evaluator)
        if fresh.log_ratio is None:
            return None
        return cls(fresh.theta, fresh.log_ratio + fresh.log_q, fresh.log_q)

    @property
    def own(self) -> int:
        """The number of draws of q itself, n."""
        return len(self.theta) - self.wider

    @property
    def of_q(self) -> Pool:
        """The draws of q itself, alone, which come first until more of them are added."""
        return Pool(self.theta[: self.own], self.log_p[: self.own], self.log_q[: self.own])

    @property
    def log_ratio(self) -> Array:
        """The logarithms of the weights; −∞ where a draw is no use."""
        if not self.wider:
            return self.log_p - self.log_q
        size = len(self.theta)
        return self.log_p - np.logaddexp(
            self.log_q + math.log(self.own / size), self.log_wide + math.log(self.wider / size)
        )

    def with_wider(self, q: Approximation, theta: Array, log_p: Array) -> Pool:
        """Add the first draws from wider than q."""
        every = np.concatenate([self.theta, theta])
        return Pool(
            every,
            np.concatenate([self.log_p, log_p]),
            np.concatenate([self.log_q, q.log_density(theta)]),
            wider_than(q).log_density(every),
            len(theta),
        )

    def with_own(self, q: Approximation, count: int, seed: int, evaluator: Evaluator) -> Pool:
        """Draw so many more from q, and evaluate."""
        fresh = draw(q, count, seed, evaluator, after=self.own)
        assert fresh.log_ratio is not None
        wide = wider_than(q).log_density(fresh.theta) if self.wider else np.empty(0)
        return Pool(
            np.concatenate([self.theta, fresh.theta]),
            np.concatenate([self.log_p, fresh.log_ratio + fresh.log_q]),
            np.concatenate([self.log_q, fresh.log_q]),
            np.concatenate([self.log_wide, wide]),
            self.wider,
        )
