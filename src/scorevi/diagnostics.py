"""What a batch says about the q it was drawn from, at no extra cost. Pure functions."""

from __future__ import annotations

from scorevi._arrays import AnyArray, namespace
from scorevi.gaussian import HALF_LOG_2PI, Gaussian

_MAX_LOG_GROWTH = 35.0
"""e^35: a q that has grown or shrunk by 1e15 in each dimension is not on its way to a posterior."""


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


def is_sound(q: Gaussian, log_det_at_start: AnyArray) -> AnyArray:
    """Return whether q is finite and of a size that a posterior may have, next to its start's."""
    growth = abs(q.log_det - log_det_at_start)
    # Both comparisons are false for NaN.
    return (growth <= _MAX_LOG_GROWTH * q.mean.shape[0]) & (q.mean @ q.mean < float("inf"))
