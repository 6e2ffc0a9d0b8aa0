"""Draws corrected by importance weights; see :meth:`scorevi.Fit.resample`."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scorevi.base.arrays import Seed, as_count, seed_entropy
from scorevi.base.noise import RESAMPLE, stream
from scorevi.base.status import FitError
from scorevi.base.variables import Include, check_include
from scorevi.results.parts import Resample
from scorevi.results.protected import fresh_draws
from scorevi.trust.fresh_draws import DRAWS
from scorevi.trust.weights import FEWEST, RELIABLE, smooth

if TYPE_CHECKING:
    from scorevi.results.fit import Fit


def resample(
    fit: Fit, size: int, seed: Seed, include: Include, *, replace: bool, proposals: int | None
) -> Resample:
    """Draw from q, weigh, and choose."""
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
    fresh = fresh_draws(fit, proposals, seed)
    if fresh.log_ratio is None:
        raise ValueError("Importance weights need the log density, which the target has not.")
    weights = smooth(fresh.log_ratio)
    count = int(fresh.good.sum())
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
    if not replace and int((weights.weights > 0).sum()) < size:
        raise ValueError("`size` must be at most the number of proposals with a good score.")
    chosen = rng.choice(proposals, size, replace=replace, p=weights.weights)
    theta = fresh.theta[chosen]
    return Resample(fit.named(theta, include, seed), theta, weights.khat, weights.ess)
