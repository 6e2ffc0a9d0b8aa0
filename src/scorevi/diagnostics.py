"""What a batch says about the q it was drawn from, at no extra cost. Pure functions."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scorevi._arrays import AnyArray, Array, namespace
from scorevi.gaussian import HALF_LOG_2PI, Gaussian

if TYPE_CHECKING:
    from scorevi.evaluate import Pair

_MAX_LOG_GROWTH = 35.0
"""e^35: a q that has grown or shrunk by 1e15 in each dimension is not on its way to a posterior."""

FEWEST = 20
"""Signs that are too few to tell a coin from a direction."""


def fisher_residual(z: AnyArray, whitened_score: AnyArray) -> AnyArray:
    r"""Return |h + z|²/D, averaged over the draws. Finite if and only if all of h is usable.

    Its expectation under q is the covariance-weighted Fisher divergence of q and p over D,

    .. math:: \frac1D E_q\big|L^\top(\nabla\log p - \nabla\log q)\big|^2,

    which is invariant under affine maps and zero if and only if q = p.
    """
    mismatch = whitened_score + z
    return namespace(z).vdot(mismatch, mismatch) / z.size


def elbo_estimate(z: AnyArray, log_density: AnyArray, log_det: AnyArray) -> AnyArray:
    """Return log p(θ) − log q(θ), averaged over the draws; its expectation is the ELBO."""
    size, dim = z.shape
    xp = namespace(z)
    return (log_density.sum() + 0.5 * xp.vdot(z, z)) / size + (log_det + dim * HALF_LOG_2PI)


def drift(whitened_score: AnyArray) -> AnyArray:
    """Return h₁·h₂/D of the first two draws of a batch; NaN for a batch of one.

    Its expectation is |E_q h|²/D, which is zero where the mean of q is right and positive where
    independent draws agree on the way to go.
    """
    if whitened_score.shape[0] < 2:
        return float("nan")
    return whitened_score[0] @ whitened_score[1] / whitened_score.shape[1]


def still_moving(drifts: Array) -> float | None:
    """Return the share of recent updates whose draws agree on the way to go, if it is telling.

    In a fit that has settled the sign of :func:`drift` is a toss of a coin, however heavy the tails
    of its size are. The last quarter of the updates is counted, or the last 20 if those are among
    the last half; the share is returned if it is at least 2/3 and 4 standard errors above 1/2,
    which settled fits reach with probability 3e-5.
    """
    count = len(drifts)
    recent = drifts[-max(math.ceil(count / 4), min(FEWEST, count // 2), 1) :]
    recent = recent[np.isfinite(recent) & (recent != 0.0)]
    if len(recent) < FEWEST:
        return None
    share = float((recent > 0).mean())
    return share if share >= max(2 / 3, 0.5 + 2 / math.sqrt(len(recent))) else None


def predicted_and_actual(one: Pair, two: Pair) -> tuple[float, float]:
    """Return the change of log density between two points, as the scores predict it and as it is.

    The prediction is the trapezoidal rule along the line between them; on a Gaussian target it is
    exact.
    """
    predicted = 0.5 * float((one.score + two.score) @ (one.theta - two.theta))
    return predicted, one.log_density - two.log_density


def is_sound(q: Gaussian, log_det_at_start: AnyArray) -> AnyArray:
    """Return whether q is finite and of a size that a posterior may have, next to its start's."""
    growth = abs(q.log_det - log_det_at_start)
    # Both comparisons are false for NaN.
    return (growth <= _MAX_LOG_GROWTH * q.mean.shape[0]) & (q.mean @ q.mean < float("inf"))


def is_full_rank(q: Gaussian) -> bool:
    """Return whether each coordinate of q has a variance of its own, given those before it.

    Measured as a share of its standard deviation, so that units do not matter, and against
    rounding: the diagonal of the Cholesky factor of the correlations. Takes O(D³).
    """
    return bool((np.diag(q.cholesky) > np.finfo(np.float64).eps * q.sd).all())
