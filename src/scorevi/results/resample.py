"""Draws corrected by importance weights; see :meth:`scorevi.Fit.resample`."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from scorevi.base.arrays import Seed, as_count, seed_entropy
from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import RESAMPLE, WIDER, stream
from scorevi.base.status import FitError
from scorevi.base.variables import Include, check_include
from scorevi.results.parts import Resample
from scorevi.results.protected import protected
from scorevi.results.target_of import target_of
from scorevi.sampling.pool import Pool
from scorevi.sampling.weighted import choose
from scorevi.trust.fresh_draws import DRAWS
from scorevi.trust.weights import (
    FEWEST,
    RELIABLE,
    Weights,
    are_bounded,
    is_constant,
    normalised,
    smooth,
)
from scorevi.trust.wider_draws import is_affordable, log_density_at, wider_than

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_WIDER = 1 / 3
"""The share of draws from wider than q, so that what q lacks is there to be chosen."""


def resample(
    fit: Fit, size: int, seed: Seed, include: Include, *, replace: bool, proposals: int | None
) -> Resample:
    """Draw from q and from wider than q, weigh, and choose."""
    check_include(include)
    size = as_count("size", size)
    if proposals is None:
        proposals = max(4 * size, DRAWS)
    proposals = as_count("proposals", proposals, least=FEWEST)
    seed = seed_entropy(seed)
    if not replace and proposals < size:
        raise ValueError(
            f"`proposals` must be at least `size`, {size}, without replacement; got {proposals}."
        )
    pool = _pool(fit, proposals, seed)
    weights = _weights(pool)
    count = int(np.isfinite(pool.log_p).sum())
    if count < FEWEST:
        raise FitError(
            f"{count} of {proposals} draws have a usable score, fewer than the {FEWEST} that "
            "importance weights need. fit.check() says what is wrong.",
            fit,
        )
    if not weights.reliable:
        raise FitError(
            f"k-hat is {weights.khat:.2f}, above {RELIABLE}: importance weights cannot correct "
            "this fit. fit.check() says what is wrong.",
            fit,
        )
    rng = stream(seed, RESAMPLE)
    if replace:
        chosen = choose(weights.weights, size, rng)
    elif int((weights.weights > 0).sum()) < size:
        raise ValueError("`size` must be at most the number of proposals with a good score.")
    else:
        chosen = rng.choice(proposals, size, replace=False, p=weights.weights)
    theta = pool.theta[chosen]
    return Resample(fit.named(theta, include, seed), theta, weights.khat, weights.ess)


def _weights(pool: Pool) -> Weights:
    """Weigh: as they are where no weight is large, else smoothed, with the tail of q's own draws.

    Wider draws hide how long a tail q leaves uncovered.
    """
    raw = normalised(pool.log_ratio)
    if are_bounded(raw):
        return Weights(raw, 0.0)
    return smooth(pool.log_ratio)._replace(khat=smooth(pool.of_q.log_ratio).tail)


def _pool(fit: Fit, size: int, seed: int) -> Pool:
    """Return so many draws, up to a third of them from wider than q, unless p/q is constant."""
    target_of(fit, "so its score cannot be computed")
    fit.mean  # noqa: B018  (refuses a fit without an update)
    q, wider = fit.q, min(round(_WIDER * size), size - FEWEST)
    with protected(fit) as safe:
        assert safe.target is not None
        evaluator = Evaluator(safe.target)
        pool = Pool.of(q, size - wider, seed, evaluator)
        if pool is None:
            raise ValueError("Importance weights need the log density, which the target has not.")
        if is_constant(pool.log_ratio) or not is_affordable(q):
            return pool.with_own(q, wider, seed, evaluator)
        theta = wider_than(q).sample(wider, stream(seed, WIDER))
        return pool.with_wider(q, theta, log_density_at(evaluator, theta))
