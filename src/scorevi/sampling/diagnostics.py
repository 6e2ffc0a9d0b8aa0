"""What chains say of themselves: effective samples and R-hat of every parameter, by ArviZ.

References
----------
Vehtari, Gelman, Simpson, Carpenter and Bürkner (2021), Rank-normalization, folding, and
localization: an improved R-hat for assessing convergence of MCMC, *Bayesian Analysis* 16(2).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.statistics import array_stats

FEWEST = 4
"""Draws of a chain below which ArviZ has nothing to say."""
_TAILS = (0.05, 0.95)
"""The quantiles whose effective samples are that of the tails; of arrays ArviZ has no default."""


def effective(theta: Array) -> Array:
    """Return the effective sample of each parameter, the least of bulk and tail, (D,).

    Parameters
    ----------
    theta
        Draws (chain, draw, D).
    """
    if theta.shape[1] < FEWEST:
        return np.zeros(theta.shape[2])
    tail = _each("ess", theta, method="tail", prob=_TAILS)
    return np.minimum(_each("ess", theta, method="bulk"), tail)


def r_hat(theta: Array) -> Array:
    """Return R-hat of each parameter, rank-normalised, split and folded, (D,); NaN for too few."""
    if theta.shape[1] < FEWEST:
        return np.full(theta.shape[2], np.nan)
    return _each("rhat", theta, method="rank")


def energy_information(energy: Array) -> float:
    """Return the least of the chains' fractions of missing information, by energies (chain, draw).

    The mean square of the steps of the energy, over its variance: near one where a new momentum
    can take a chain anywhere, small where it must creep, as in a funnel.
    """
    if energy.shape[1] < FEWEST:
        return np.nan
    with np.errstate(all="ignore"):
        share = np.mean(np.diff(energy, axis=1) ** 2, axis=1) / np.var(energy, axis=1)
    return float(np.min(share))


def _each(name: str, theta: Array, **options: Any) -> Array:
    """Call ArviZ's function on each parameter."""
    with np.errstate(all="ignore"):
        values = getattr(array_stats(), name)(theta, chain_axis=0, draw_axis=1, **options)
    return np.asarray(values, dtype=np.float64)
