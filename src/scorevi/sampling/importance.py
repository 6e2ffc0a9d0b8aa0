"""Draws by importance weights: more and more of q's, until every parameter has enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import RESAMPLE, stream
from scorevi.families import Approximation
from scorevi.sampling.asked import MIXED, Asked
from scorevi.sampling.diagnostics import r_hat
from scorevi.sampling.looking import MOST_PER_EFFECTIVE
from scorevi.sampling.pool import Pool
from scorevi.sampling.weighted import (
    added_by_choice,
    choose,
    effective_weighted,
    in_units,
    tails,
)
from scorevi.trust.weights import RELIABLE, smooth

_SPARE = 1.1
"""Times what seems to be needed, so that it is seldom a few short."""


class Weighed(NamedTuple):
    """What was chosen of weighted draws."""

    theta: Array
    """(chain, draw, D)."""
    log_density: Array
    """The target's log density at them (chain, draw)."""
    ess: Array
    """Of each parameter (D,), as the chosen draws have it."""
    r_hat: Array
    """Of each parameter (D,)."""
    khat: float

    @property
    def is_sound(self) -> bool:
        """Whether the weights can be relied on, for every parameter and its square."""
        return self.khat <= RELIABLE


def weigh(q: Approximation, pool: Pool, asked: Asked) -> Weighed:
    """Choose among draws by their weights; each chain among draws of its own."""
    log_ratio = pool.log_ratio
    weights = smooth(log_ratio)
    w, size = weights.weights, len(pool.theta)
    per_chain = -(-asked.draws // asked.chains)
    places, chains = [], range(asked.chains)
    for chain in chains:
        own = np.arange(chain, size, asked.chains)
        rng = stream(asked.seed, RESAMPLE, chain)
        places.append(own[choose(w[own], per_chain, rng)])
    chosen = np.array(places)
    t = in_units(q, pool.theta, w)
    added = float(np.mean([added_by_choice(w[k :: asked.chains], per_chain) for k in chains]))
    return Weighed(
        pool.theta[chosen],
        pool.log_p[chosen],
        1.0 / (1.0 / effective_weighted(t, w) + added / asked.chains),
        r_hat(pool.theta[chosen]),
        # What is left of a tail where weights are even is the parameter's own.
        weights.tail if weights.is_even else max(weights.khat, float(tails(t, w, log_ratio).max())),
    )


def more_needed(pool: Pool, chosen: Weighed, asked: Asked) -> int:
    """Return how many more draws of q there should be; none where there are enough."""
    size, least = len(pool.theta), float(chosen.ess.min())
    more = max(asked.draws - size, 0)
    if least < asked.ess:
        more = max(more, int(size * (_SPARE * asked.ess / least - 1.0)))
    if not chosen.is_sound:
        more = max(more, size // 2)
    elif np.max(chosen.r_hat) > MIXED:
        more = max(more, size // 4)
    return more


def is_worth_it(size: int, asked: Asked) -> bool:
    """Whether so many draws of q are not more than NUTS would take."""
    return size <= max(MOST_PER_EFFECTIVE * asked.ess, 2.0 * asked.draws)
