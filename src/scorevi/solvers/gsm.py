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

from scorevi._arrays import AnyArray, Array, as_count, namespace
from scorevi._linalg import cholesky, eigh, identity
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
        if dim <= max(_DENSE_UP_TO, 2 * size):
            q = state.q.moved(w.sum(axis=0) / size, *_dense_root(z, w, rho))
        else:
            # factor @ w without another pass over the factor for its part along z
            of_w = (
                batch.offset
                + (state.q.image(h) + zh[:, None] * batch.offset) / (1.0 + rho)[:, None]
            )
            images = xp.concat([batch.offset, of_w])
            q = state.q.moved_along(
                of_w.sum(axis=0) / size, xp.concat([z, w]), images, *_low_rank_root(z, w, rho)
            )
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


def _low_rank_root(z: AnyArray, w: AnyArray, rho: AnyArray) -> tuple[AnyArray, AnyArray]:
    r"""Return T, (2B, 2B), with I + Xᵀ T X the symmetric root of C, and its log determinant.

    X has the rows z and w, and C = I + Xᵀ S X with S = [[0, I], [I, −I]] / B. With Rᵀ R = X Xᵀ,
    E = R S Rᵀ has the eigenvalues of C − I, and

    .. math:: T = \tfrac12 S - S R^\top k(E) R S, \qquad k(e) = \tfrac12 (1 + \sqrt{1 + e})^{-2},

    in which nothing is divided by, however small w is.
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
    kernel = (vectors * (0.5 / (1.0 + xp.sqrt(squared)) ** 2)) @ vectors.T
    return 0.5 * signs - scaled.T @ kernel @ scaled, 0.5 * xp.log(squared).sum()


@cache
def _signs(size: int) -> Array:
    """Return S, symmetric, (2B, 2B)."""
    unit = np.eye(size)
    return np.block([[0.0 * unit, unit], [unit, -unit]]) / size


def _floor(rho: AnyArray) -> AnyArray:
    """Return the lower bound that the eigenvalues of C obey in exact arithmetic."""
    return 1.0 / (1.0 + rho.max())
