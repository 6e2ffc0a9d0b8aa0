"""The best Gaussian there is, by brute force: what solvers are measured against."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi._arrays import Array
from scorevi.diagnostics import elbo_estimate
from scorevi.gaussian import Gaussian
from scorevi.targets.base import Target


class Best(NamedTuple):
    """The Gaussian of highest ELBO, and that ELBO on the sample it was found with."""

    q: Gaussian
    elbo: float


def best_gaussian(
    target: Target, start: Gaussian, draws: int = 20_000, iterations: int = 200, seed: int = 0
) -> Best:
    """Maximise the ELBO over one large fixed sample, to second order.

    The sample is antithetic and has exactly the moments of N(0, I). Each iteration takes the
    natural-gradient (Gauss–Newton) step of Stein's identities, halved until the ELBO rises.

    Parameters
    ----------
    target
        One with a log density. It is evaluated ``draws`` times in each iteration.
    start
        Where to begin.
    draws, iterations, seed
        The size of the sample, the most iterations, and the sample's seed.
    """
    half = np.random.default_rng(seed).standard_normal((draws // 2, target.dim))
    z = np.concatenate([half, -half])
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z))).T
    q, elbo, step = start, sample_elbo(target, start, z), 1.0
    for _ in range(iterations):
        white = q.whiten_score(target.evaluate(q.unwhiten(z)).score)
        pull, slope = white.mean(axis=0), white.T @ z / len(z)
        values, vectors = np.linalg.eigh(-0.5 * (slope + slope.T))
        for _ in range(15):
            precision = np.clip((1.0 - step) + step * values, 0.1, 10.0)
            shift = step * (vectors @ ((vectors.T @ pull) / precision))
            shift *= min(1.0, 1.0 / max(float(np.linalg.norm(shift)), 1e-300))
            log_det = -0.5 * float(np.log(precision).sum())
            moved = q.moved(shift, vectors / np.sqrt(precision), log_det)
            new = sample_elbo(target, moved, z)
            if new >= elbo:
                break
            step *= 0.5
        else:
            break
        gain = new - elbo
        q, elbo = moved, new
        if gain < 1e-7 and step > 0.2:
            break
        step = min(1.0, 1.5 * step)
    return Best(q, elbo)


def sample_elbo(target: Target, q: Gaussian, z: Array) -> float:
    """Return the ELBO of q on the noise z, (n, D); NaN counts as minus infinity."""
    log_density = target.evaluate(q.unwhiten(z)).log_density
    assert log_density is not None
    value = float(elbo_estimate(z, log_density, q.log_det))
    return value if np.isfinite(value) else -np.inf
