"""Draws by importance weights: more and more of q's, until every parameter has enough."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import RESAMPLE, stream
from scorevi.families import Approximation
from scorevi.sampling.asked import MIXED, Asked
from scorevi.sampling.diagnostics import r_hat
from scorevi.sampling.looking import MOST_PER_EFFECTIVE
from scorevi.sampling.weighted import choose, effective_weighted, in_units, worst_tail
from scorevi.trust.fresh_draws import draw
from scorevi.trust.weights import RELIABLE, smooth

_MORE = 1.5
_SPARE = 1.1
"""More than seem to be needed, so that it is seldom a few short."""


class Weighed(NamedTuple):
    """Draws of q with their weights, and what was chosen of them."""

    theta: Array
    """Chosen draws (chain, draw, D)."""
    log_density: Array
    """The target's log density at them (chain, draw)."""
    ess: Array
    """Of each parameter (D,)."""
    r_hat: Array
    """Of each parameter (D,)."""
    khat: float
    proposals: int


def next_size(q: Approximation, theta: Array, log_ratio: Array, asked: Asked) -> int:
    """Return how many draws of q there should be; as many as there are where that is enough."""
    count = len(theta)
    if count < asked.draws:
        return asked.draws
    weights = smooth(log_ratio).weights
    chosen = weigh(q, theta, log_ratio, asked)
    # Systematic choice adds at most this to the variance of each mean.
    least = float(np.min(effective_weighted(in_units(q, theta, weights), weights)))
    needed = asked.ess / (1.0 - asked.ess * count / (4.0 * asked.draws**2))
    if needed <= 0.0:  # more draws are to be effective than are to be chosen
        needed = asked.ess
    if least < needed:
        return int(count * max(_SPARE * needed / least, _SPARE))
    return count if np.max(chosen.r_hat) <= MIXED else int(_MORE * count)


def weigh(q: Approximation, theta: Array, log_ratio: Array, asked: Asked) -> Weighed:
    """Choose among draws of q; each chain from draws of its own."""
    weights = smooth(log_ratio)
    per_chain = -(-asked.draws // asked.chains)
    places = []
    for chain in range(asked.chains):
        own = np.arange(chain, len(theta), asked.chains)
        rng = stream(asked.seed, RESAMPLE, chain)
        places.append(own[choose(weights.weights[own], per_chain, rng)])
    chosen = np.array(places)
    log_density = log_ratio + q.log_density(theta)
    t = in_units(q, theta, weights.weights)
    return Weighed(
        theta[chosen],
        log_density[chosen],
        effective_weighted(t, weights.weights),
        r_hat(theta[chosen]),
        max(weights.khat, worst_tail(t, weights.weights, log_ratio)),
        len(theta),
    )


def is_sound(weighed: Weighed) -> bool:
    """Whether moments by the weights can be relied on, of every parameter and its square."""
    return weighed.khat <= RELIABLE


def is_worth_it(size: int, asked: Asked) -> bool:
    """Whether NUTS would not be cheaper."""
    return size <= MOST_PER_EFFECTIVE * max(asked.ess, asked.draws)


def more(
    q: Approximation, theta: Array, log_ratio: Array, size: int, seed: int, evaluator: Evaluator
) -> tuple[Array, Array]:
    """Draw from q until there are ``size``, and evaluate."""
    fresh = draw(q, size - len(theta), seed, evaluator, after=len(theta))
    assert fresh.log_ratio is not None
    return np.concatenate([theta, fresh.theta]), np.concatenate([log_ratio, fresh.log_ratio])
