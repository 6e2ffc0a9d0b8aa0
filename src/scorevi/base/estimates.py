"""What a batch says about the q it was drawn from, at no extra cost. Pure functions."""

from __future__ import annotations

from scorevi.base.arrays import AnyArray, namespace
from scorevi.base.pairs import Pair


def fisher_residual(z: AnyArray, whitened_score: AnyArray) -> AnyArray:
    r"""Return |h + z|²/D, averaged over the draws. Finite if and only if all of h is usable.

    Its expectation under q is the covariance-weighted Fisher divergence of q and p over D,

    .. math:: \frac1D E_q\big|L^\top(\nabla\log p - \nabla\log q)\big|^2,

    which is invariant under affine maps and zero if and only if q = p.
    """
    mismatch = whitened_score + z
    return namespace(z).vdot(mismatch, mismatch) / z.size


def elbo_estimate(log_density: AnyArray, log_q: AnyArray) -> AnyArray:
    """Return log p(θ) − log q(θ), averaged over the draws; its expectation is the ELBO."""
    return (log_density - log_q).sum() / log_q.shape[0]


def drift(whitened_score: AnyArray) -> AnyArray:
    """Return h₁·h₂/D of the first two draws of a batch; NaN for a batch of one.

    Its expectation is |E_q h|²/D, which is zero where the mean of q is right and positive where
    independent draws agree on the way to go.
    """
    if whitened_score.shape[0] < 2:
        return float("nan")
    return whitened_score[0] @ whitened_score[1] / whitened_score.shape[1]


def predicted_and_actual(one: Pair, two: Pair) -> tuple[float, float]:
    """Return the change of log density between two points, as the scores predict it and as it is.

    The prediction is the trapezoidal rule along the line between them; on a Gaussian target it is
    exact.
    """
    predicted = 0.5 * float((one.score + two.score) @ (one.theta - two.theta))
    return predicted, one.log_density - two.log_density
