"""What a batch says about the q it was drawn from, at no extra cost. Pure functions."""

from __future__ import annotations

from scorevi._arrays import AnyArray, namespace
from scorevi.gaussian import HALF_LOG_2PI, Gaussian

_MAX_LOG_GROWTH = 35.0
"""e^35: a q that has grown or shrunk by 1e15 in each dimension is not on its way to a posterior."""


def fisher_residuals(z: AnyArray, whitened_score: AnyArray) -> AnyArray:
    r"""Return |h + z|²/D of each draw, shape (B,).

    Their expectation under q is the covariance-weighted Fisher divergence of q and p over D,

    .. math:: \frac1D E_q\big|L^\top(\nabla\log p - \nabla\log q)\big|^2,

    which is invariant under affine maps and zero if and only if q = p.
    """
    mismatch = whitened_score + z
    return namespace(z).vecdot(mismatch, mismatch) / z.shape[1]


def elbo_terms(z: AnyArray, log_density: AnyArray, log_det: AnyArray) -> AnyArray:
    """Return log p(θ) − log q(θ) of each draw, shape (B,); their expectation is the ELBO."""
    return log_density + 0.5 * namespace(z).vecdot(z, z) + (log_det + z.shape[1] * HALF_LOG_2PI)


def is_sound(q: Gaussian, log_det_at_start: AnyArray) -> AnyArray:
    """Return whether q is finite and of a size that a posterior may have, next to its start's."""
    growth = abs(q.log_det - log_det_at_start)
    # Both comparisons are false for NaN.
    return (growth <= _MAX_LOG_GROWTH * q.mean.shape[0]) & (q.mean @ q.mean < float("inf"))
