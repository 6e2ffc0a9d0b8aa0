"""Where chains begin: at draws of q that its weights favour, far apart."""

from __future__ import annotations

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import CHAINS, stream
from scorevi.families import Gaussian
from scorevi.solvers.weights import largest_power

_CANDIDATES = 8
"""Effective draws for each chain to choose from."""


def starts(theta: Array, log_ratio: Array, white: Gaussian, chains: int, seed: int) -> Array:
    """Return a start for each chain, (chains, D).

    Candidates are draws of q (n, D), chosen by their weights p/q, which are made more even where
    few of them have all. The first start is any of them, each other the one that is farthest from
    those before, in the coordinates of q.
    """
    good = np.flatnonzero(np.isfinite(log_ratio))
    rng = stream(seed, CHAINS)
    power = largest_power(log_ratio[good], min(_CANDIDATES * chains, 0.9 * len(good)))
    weights = np.exp(power * (log_ratio[good] - log_ratio[good].max()))
    size = min(_CANDIDATES * chains, len(good))
    drawn = rng.choice(good, size, replace=False, p=_positive(weights))
    candidates = white.whiten(theta[drawn])
    chosen = [0]
    while len(chosen) < chains:
        apart = np.linalg.norm(candidates[:, None] - candidates[chosen][None], axis=2).min(axis=1)
        chosen.append(int(np.argmax(apart)))
    return np.asarray(theta[drawn[chosen]])


def _positive(weights: Array) -> Array:
    """Return probabilities, none of them zero."""
    weights = weights + 1e-12 * weights.max()
    return np.asarray(weights / weights.sum())
