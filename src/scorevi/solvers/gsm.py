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
from typing import NamedTuple

import numpy as np

from scorevi._arrays import AnyArray, as_count, namespace
from scorevi._linalg import cholesky, identity
from scorevi.gaussian import Gaussian
from scorevi.solvers.base import Batch

_DENSE_UP_TO = 64
"""The dimension up to which the dense root is the faster one, measured at B = 2."""


class GSMState(NamedTuple):
    """The current approximation: GSM remembers nothing else."""

    q: Gaussian


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

    Examples
    --------
    >>> import scorevi
    >>> fit = scorevi.fit(scorevi.Gaussian.standard(2), solver=GSM(batch_size=4))
    >>> fit.num_gradients
    2000
    """

    batch_size: int = 2
    name = "gsm"

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
        shift = w.sum(axis=0) / size
        if dim <= max(_DENSE_UP_TO, 2 * size):
            q = state.q.moved(shift, *_dense_root(z, w, rho))
        else:
            q = state.q.moved_within(*_low_rank_root(z, w, shift, rho))
        return GSMState(q), GSMInfo(rho)


def _dense_root(z: AnyArray, w: AnyArray, rho: AnyArray) -> tuple[AnyArray, AnyArray]:
    """Return a square root of the batch's C, (D, D), and its log determinant."""
    xp = namespace(z)
    size, dim = z.shape
    half = (z - 0.5 * w).T @ (w / size)
    covariance = half + half.T + identity(xp, dim)
    root = cholesky(covariance)
    log_det = xp.log(root.diagonal()).sum()
    # Rounding may hide a tiny eigenvalue. In a compiled loop NaN goes out, and the driver, which
    # accepts no such update, comes back with NumPy arrays.
    if xp is np and np.isnan(log_det):
        values, vectors = np.linalg.eigh(covariance)
        values = np.maximum(values, _floor(rho))
        return vectors * np.sqrt(values), 0.5 * np.log(values).sum()
    return root, log_det


def _low_rank_root(
    z: AnyArray, w: AnyArray, shift: AnyArray, rho: AnyArray
) -> tuple[AnyArray, AnyArray, AnyArray, AnyArray]:
    """Return basis (D, 2B), the shift in it, core (2B, 2B) and the log determinant.

    I + basis·core·basisᵀ is the symmetric root of C.
    """
    xp = namespace(z)
    size = z.shape[0]
    basis, upper = xp.linalg.qr(xp.concat([z, w]).T)
    in_z, in_w = upper[:, :size], upper[:, size:]
    half = (in_z - 0.5 * in_w) @ in_w.T
    small = (half + half.T) / size + identity(xp, 2 * size)
    values, vectors = xp.linalg.eigh(small)
    values = xp.maximum(values, _floor(rho))
    core = (vectors * (xp.sqrt(values) - 1.0)) @ vectors.T
    return basis, basis.T @ shift, core, 0.5 * xp.log(values).sum()


def _floor(rho: AnyArray) -> AnyArray:
    """Return the lower bound that the eigenvalues of C obey in exact arithmetic."""
    return 1.0 / (1.0 + rho.max())
