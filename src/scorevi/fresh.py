"""Draws from q that its fit has not seen, and the error bars that their scores give."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from scorevi._arrays import Array, Mask
from scorevi.evaluate import Evaluator
from scorevi.noise import CHECK, stream

if TYPE_CHECKING:
    from scorevi.results import Fit

DRAWS = 400


class Fresh(NamedTuple):
    """Draws from q that the fit has not seen, and what the target says there."""

    z: Array
    theta: Array
    score: Array
    """NaN where it is no use."""
    log_ratio: Array | None
    """log p − log q; −∞ where it is no use."""
    good: Mask


def draw(fit: Fit, size: int, seed: int, evaluator: Evaluator, *, after: int = 0) -> Fresh:
    """Draw from q and evaluate; ``after`` so many draws of the same seed."""
    q = fit.q
    z = stream(seed, CHECK).standard_normal((after + size, q.dim))[after:]
    theta = np.asarray(q.unwhiten(z))
    evaluation = evaluator(theta)
    good = evaluator.usable(evaluation)
    score = np.where(good[:, None], evaluation.score, np.nan)
    log_ratio = None
    if evaluation.log_density is not None:
        log_ratio = np.where(good, evaluation.log_density - q.log_density(theta), -np.inf)
    return Fresh(z, theta, score, log_ratio, good)


def joined(one: Fresh, two: Fresh) -> Fresh:
    """Return the draws of both."""
    columns = zip(one, two, strict=True)
    both: list[Any] = [None if a is None else np.concatenate([a, b]) for a, b in columns]
    return Fresh(*both)


class ErrorBars(NamedTuple):
    """How well a fit's moments are determined, per unconstrained parameter and in its units."""

    mean: Array
    """The error of the fitted means as estimates of the best Gaussian's: root mean square."""
    sd: Array
    """The same of the fitted standard deviations."""
    mean_step: Array
    """Where the scores of fresh draws say that the means should move."""
    mean_error: Array
    """The standard error of that."""
    sd_step: Array
    sd_error: Array


def error_bars(fit: Fit, fresh: Fresh) -> ErrorBars:
    r"""Estimate how far q is from the Gaussian of highest ELBO, from the scores at fresh draws.

    There :math:`a = E_q[h]` and :math:`M = I + E_q[h z^\top]` vanish; elsewhere a Newton step moves
    the mean by L a and the covariance by L M Lᵀ. Both are means over draws, with standard errors;
    h + z in the place of h has the same means, and no variance where q is exact.
    """
    q, z = fit.q, fresh.z[fresh.good]
    count = max(len(z), 2)
    mismatch = np.asarray(q.whiten_score(fresh.score[fresh.good])) + z
    shift = mismatch @ q.factor.T
    mean_step, mean_error = shift.mean(axis=0), shift.std(axis=0, ddof=1) / math.sqrt(count)
    # (L (h + z) zᵀ Lᵀ)_jj of each draw, over 2 sd: the change of the standard deviation.
    change = shift * (z @ q.factor.T) / (2 * q.sd)
    sd_step, sd_error = change.mean(axis=0), change.std(axis=0, ddof=1) / math.sqrt(count)
    return ErrorBars(
        np.sqrt(np.maximum(mean_step**2 - mean_error**2, 0) + mean_error**2),
        np.sqrt(np.maximum(sd_step**2 - sd_error**2, 0) + sd_error**2),
        mean_step,
        mean_error,
        sd_step,
        sd_error,
    )
