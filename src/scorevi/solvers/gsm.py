r"""GSM-VI: Gaussian score matching (Modi et al., NeurIPS 2023, arXiv 2307.07849).

For one draw the update is the projection, in KL, of q onto the Gaussians whose score at the draw
equals the target's (their Theorem 1). In whitened coordinates, where q is N(0, I) and h is the
target's score at the draw z, it reads

.. math::

    \rho (1 + \rho) = |h|^2 + (z \cdot h)^2, \qquad
    w = z + \frac{h + (z \cdot h)\, z}{1 + \rho}, \qquad
    C = I + z w^\top + w z^\top - w w^\top,

where w is the new mean and C the new covariance; C equals the paper's
:math:`I + z z^\top - (w - z)(w - z)^\top` and does not cancel as w goes to zero. A batch averages
w and C (their Algorithm 1). C is bounded below by 1 / (1 + max ρ), which is used where rounding
would lose that bound.

A step costs O(B·D²): the square root of C is the identity but for 2B directions. In few dimensions
a dense root is cheaper than finding those directions.
"""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, Array, as_count, namespace
from scorevi.base.estimates import fisher_residual
from scorevi.base.linalg import averaging, cholesky, eigh, identity
from scorevi.families import Gaussian
from scorevi.solvers.base import Batch

_DENSE_UP_TO = 64
"""The dimension up to which the dense root is the faster one, measured at B = 2."""


class GSMState(NamedTuple):
    """The current approximation. The paper's GSM remembers nothing else."""

    q: Gaussian
    fast: AnyArray = 0.0
    """With ``settle``: the log Fisher residual, averaged over about 10 steps."""
    slow: AnyArray = 0.0
    """The same over about 50 steps."""
    calm: AnyArray = 0.0
    """Steps in which the one was not below the other: no progress was made."""


class GSMInfo(NamedTuple):
    """What a step found."""

    rho: AnyArray
    """ρ of each draw, (B,): gᵀΣg of the projected covariance; how hard the draw pulled."""


@dataclass(frozen=True)
class GSM:
    """The paper's solver. No learning rate, nothing to tune.

    Parameters
    ----------
    batch_size
        Draws averaged in a step. The paper finds 2 better than 1, and no gain beyond.
    settle
        On targets that are not Gaussian the paper's iterates never come to rest. With this, once
        the Fisher residual has levelled off, a step goes only γ = 1 / (1 + k/20) of the way, k the
        number of steps without progress. The way is measured in natural parameters: the precision
        goes to (1 − γ)·I + γ·C⁻¹, so that q becomes an average of what the steps ask for in which
        those that blow it up count for little. Off by default, as the paper has no such thing.

    Examples
    --------
    >>> import scorevi
    >>> fit = scorevi.fit(scorevi.Gaussian.standard(2), solver=GSM(batch_size=4))
    >>> fit.status == "converged"
    True
    """

    batch_size: int = 2
    settle: bool = False
    name = "gsm"
    family = Gaussian
    compilable = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", as_count("batch_size", self.batch_size))

    def batch_size_for(self, dim: int) -> int:
        """Return the batch size, which is the same in every dimension."""
        del dim
        return self.batch_size

    def init(self, q: Gaussian) -> GSMState:
        """Start from q."""
        return GSMState(q)

    def step(self, state: GSMState, batch: Batch) -> tuple[GSMState, GSMInfo]:
        """Project q onto the scores of the batch."""
        z, h = batch.z, batch.whitened_score
        xp = namespace(z)
        size, dim = z.shape
        zh = xp.vecdot(z, h)
        square = xp.vecdot(h, h) + zh * zh
        rho = square / (xp.sqrt(0.25 + square) + 0.5)
        w = z + (h + zh[:, None] * z) / (1.0 + rho)[:, None]
        gain: AnyArray | None = None
        if self.settle:
            state = _calmed(state, fisher_residual(z, h))
            gain = 1.0 / (1.0 + state.calm / 20.0)
        if dim > max(_DENSE_UP_TO, 2 * size):
            # factor @ w without another pass over the factor for its part along z
            of_h = state.q.image(h) + zh[:, None] * batch.offset
            of_w = batch.offset + of_h / (1.0 + rho)[:, None]
            images = xp.concat([batch.offset, of_w])
            along, core, log_det = _low_rank_root(z, w, rho, gain)
            q = state.q.moved_along(along @ images, xp.concat([z, w]), images, core, log_det)
        elif self.settle:
            q = state.q.moved(*_damped_root(z, w, rho, gain))
        else:
            q = state.q.moved(averaging(size) @ w, *_dense_root(z, w, rho))
        return GSMState(q, state.fast, state.slow, state.calm), GSMInfo(rho)


def _calmed(state: GSMState, fisher: AnyArray) -> GSMState:
    """Keep track of whether the Fisher residual still falls."""
    xp = namespace(state.q.mean)
    level = xp.log(fisher + 1e-300)
    fast = state.fast + 0.1 * (level - state.fast)
    slow = state.slow + 0.02 * (level - state.slow)
    return state._replace(fast=fast, slow=slow, calm=state.calm + (fast >= slow))


def _dense_root(z: AnyArray, w: AnyArray, rho: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return a square root of the batch's C, (D, D), and its log determinant."""
    xp = namespace(z)
    covariance = _change(z, w) + identity(xp, z.shape[1])
    root = cholesky(covariance)
    log_det = xp.log(root.diagonal()).sum()
    # Rounding may hide a tiny eigenvalue. In a compiled loop NaN goes out, and the engine, which
    # accepts no such update, comes back with NumPy arrays.
    if xp is np and np.isnan(log_det):
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, _floor(rho))
        return vectors * np.sqrt(values), 0.5 * np.log(values).sum()
    return root, log_det


def _damped_root(
    z: AnyArray, w: AnyArray, rho: AnyArray, gain: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray]:
    """Return shift, root and log determinant of a step that goes ``gain`` of the way."""
    xp = namespace(z)
    values, vectors = eigh(_change(z, w))
    squared = xp.maximum(1.0 + values, _floor(rho))
    resistance = gain + (1.0 - gain) * squared
    damped = squared / resistance
    shift = vectors @ ((vectors.T @ (w.sum(axis=0) / z.shape[0])) * (gain / resistance))
    return shift, (vectors * xp.sqrt(damped)) @ vectors.T, 0.5 * xp.log(damped).sum()


def _low_rank_root(
    z: AnyArray, w: AnyArray, rho: AnyArray, gain: AnyArray | None
) -> tuple[AnyArray, AnyArray, AnyArray]:
    r"""Return shift, core T and log determinant of the same step, in terms of the rows of X.

    X has the rows z and w, S = [[0, I], [I, −I]]/B, and C = I + Xᵀ S X. With Rᵀ R = X Xᵀ, the
    eigenvalues e of E = R S Rᵀ are those of C − I. The symmetric root of the damped covariance,
    whose eigenvalues are (1 + e)/d with d = 1 + (1 − γ)e, is I + Xᵀ T X with

    .. math::

        T = \tfrac\gamma2 S - S R^\top k(E) R S, \qquad
        k(e) = \frac{\gamma}{2 d t} \Big[(1 - \gamma)\, t + \frac{\gamma}{d t}\Big], \qquad
        t = 1 + \sqrt{(1 + e)/d},

    in which nothing is divided by, however small w is. Undamped (None, for γ = 1) k is ½ t⁻².
    """
    xp = namespace(z)
    size = z.shape[0]
    rows = xp.concat([z, w])
    unit = identity(xp, 2 * size)
    # Rounding on the diagonal keeps the Cholesky factor alive where w is parallel to z, or zero.
    upper = cholesky(rows @ rows.T * (1.0 + 1e-14 * unit) + 1e-300 * unit).T
    signs = _signs(size)
    scaled = upper @ signs
    values, vectors = eigh(scaled @ upper.T)
    squared = xp.maximum(1.0 + values, _floor(rho))
    if gain is None:
        kernel = 0.5 / (1.0 + xp.sqrt(squared)) ** 2
        core = 0.5 * signs - scaled.T @ ((vectors * kernel) @ vectors.T) @ scaled
        return _mean_of_w(size), core, 0.5 * xp.log(squared).sum()
    resistance = gain + (1.0 - gain) * squared
    damped = squared / resistance
    reach = 1.0 + xp.sqrt(damped)
    kernel = (gain / 2.0) * ((1.0 - gain) * reach + gain / (resistance * reach))
    inner = scaled.T @ (vectors * (kernel / (resistance * reach))) @ (vectors.T @ scaled)
    core = (0.5 * gain) * signs - inner
    # (I + (1 − γ) Xᵀ S X)⁻¹ applied to the mean of the rows w
    along = _mean_of_w(size)
    pull = vectors.T @ (upper @ along)
    along = gain * (along - (1.0 - gain) * (scaled.T @ (vectors @ (pull / resistance))))
    return along, core, 0.5 * xp.log(damped).sum()


def _change(z: AnyArray, w: AnyArray) -> AnyArray:
    """Return C − I of the batch, (D, D)."""
    half = (z - 0.5 * w).T @ (w / z.shape[0])
    return half + half.T


@cache
def _mean_of_w(size: int) -> Array:
    """Return the coefficients of the rows [z; w] that make the mean of w, (2B,)."""
    return np.repeat([0.0, 1.0 / size], size)


@cache
def _signs(size: int) -> Array:
    """Return S, symmetric, (2B, 2B)."""
    unit = np.eye(size)
    return np.block([[0.0 * unit, unit], [unit, -unit]]) / size


def _floor(rho: AnyArray) -> AnyArray:
    """Return the lower bound that the eigenvalues of C obey in exact arithmetic."""
    return 1.0 / (1.0 + rho.max())
