"""How far an approximation is from a posterior. Pure functions, all without a normaliser.

Those of q take a Gaussian; those of draws take arrays with the draws along the first axis.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
import scipy.stats

from scorevi.base.arrays import Array
from scorevi.base.estimates import elbo_estimate, fisher_residual
from scorevi.base.target import Target
from scorevi.families import Family, Gaussian


def forward_kl(q: Gaussian, samples: Array, log_density: Array) -> float:
    """Return the mean of log p − log q over samples from p: KL(p, q), where log p is normalised.

    Parameters
    ----------
    q
        The approximation.
    samples
        From p, (n, D).
    log_density
        log p at them, (n,).
    """
    return float(np.mean(log_density - q.log_density(samples)))


def even_noise(size: int, dim: int, seed: int = 0) -> Array:
    """Return standard normal noise, (size, dim), antithetic and with covariance exactly I."""
    half = np.random.default_rng(seed).standard_normal((size // 2, dim))
    z = np.concatenate([half, -half])
    return np.asarray(z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z))).T)


def elbo(q: Family, target: Target, z: Array) -> float:
    """Return E_q[log p − log q] on noise, (n, noise_width); where log p is NaN, minus infinity."""
    points = q.points(z)
    log_density = target.evaluate(points.theta).log_density
    assert log_density is not None
    value = float(elbo_estimate(log_density, points.log_q))
    return value if np.isfinite(value) else -np.inf


def fisher(q: Gaussian, target: Target, z: Array) -> float:
    """Return the Fisher residual, the covariance-weighted Fisher divergence over D, on the noise z.

    Infinite where a score is not finite.
    """
    score = target.evaluate(np.asarray(q.unwhiten(z))).score
    value = float(fisher_residual(z, q.whiten_score(score)))
    return value if np.isfinite(value) else np.inf


class MomentErrors(NamedTuple):
    """The worst errors over all marginals."""

    mean: float
    """|mean − reference mean| in reference standard deviations."""
    sd: float
    """|log(sd / reference sd)|."""


def moment_errors(mean: Array, sd: Array, true_mean: Array, true_sd: Array) -> MomentErrors:
    """Compare the moments of marginals, each an array with one entry for a marginal."""
    off = float(np.max(np.abs(mean - true_mean) / true_sd))
    return MomentErrors(off, float(np.max(np.abs(np.log(sd / true_sd)))))


def marginal_wasserstein(draws: Array, reference: Array) -> float:
    """Return the largest 1-Wasserstein distance of a marginal, in reference standard deviations."""
    scale = reference.std(axis=0)
    return max(
        float(scipy.stats.wasserstein_distance(draws[:, j], reference[:, j]) / scale[j])
        for j in range(draws.shape[1])
    )
