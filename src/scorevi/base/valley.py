r"""The direction along which the posterior changes its shape, and how that lengthens the way.

In whitened coordinates let :math:`Q_{abc} = E_q[\partial^3 \log p]` be the third derivatives. Where
the mean of q moves along a unit vector u, the precision that fits there changes by
:math:`-Q_u = -\sum_c Q_{abc} u_c`; and where the covariance changes by :math:`Q_u`, the mean that
fits moves by :math:`\tfrac12 |Q_u|^2` along u. In a hierarchy u is the log of a scale, all
its groups take part in :math:`|Q_u|^2`, and the two nearly feed each other: the best Gaussian is
then far, at the end of a curved valley, though the score hardly points there. To second order a
mean that the scores would move by a along u moves by :math:`a / \kappa` in all, with

.. math:: \kappa = 1 - \tfrac12 |Q_u|^2 .

u is the leading eigenvector of :math:`N_{cd} = \sum_{ab} Q_{abc} Q_{abd}`, with
:math:`|Q_u|^2` its eigenvalue. By Stein's identity :math:`Q_{abc} = E_q[r_a z_b z_c]` with r what a
line leaves of the scores. Its D³ entries drown in noise, but N need not: summed over two different
draws each, so that their noise is independent, it has no bias.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.linalg import eigh

_LONGEST = 6.0
"""What a line leaves of a score counts up to this length, in units of √D."""
_STANDS_OUT = 1.0
"""The largest eigenvalue over the noise, which is as large as the smallest is negative."""
_LEAST = 0.1
"""The smallest κ: further on it is for higher derivatives to say."""


class Valley(NamedTuple):
    """A direction along which the precision changes."""

    direction: Array
    """u, a unit vector, (D,)."""
    strength: float
    """|Q_u|²."""
    bend: Array
    """Q_u, symmetric, (D, D), as noisy as it is."""

    @property
    def lengthening(self) -> float:
        """1/κ."""
        return 1.0 / max(_LEAST, 1.0 - 0.5 * self.strength)


def valley(z: Array, residual: Array, weight: Array | None = None) -> Valley | None:
    """Return the direction, or None where nothing stands out.

    Parameters
    ----------
    z, residual
        Draws, and what a line leaves of their scores, in whitened coordinates, (n, D).
    weight
        How much each counts, (n,); the same where left out.
    """
    count = len(z)
    share = np.full(count, 1.0 / count) if weight is None else weight / weight.sum()
    residual = _shortened(residual)
    values, vectors = eigh(_third(z, residual, share))
    strength, noise = float(values[-1]), -float(values[0])
    if not strength > _STANDS_OUT * max(noise, 0.0):
        return None
    direction = vectors[:, -1]
    along = (residual.T * (share * (z @ direction))) @ z
    return Valley(direction, strength - noise**2 / strength, 0.5 * (along + along.T))


def third_derivatives(z: Array, residual: Array, weight: Array) -> Array:
    """Return N, (D, D), of draws that count as much as their weights; see :func:`valley`."""
    return _third(z, _shortened(residual), weight / weight.sum())


def _shortened(residual: Array) -> Array:
    lengths = np.sqrt(np.vecdot(residual, residual))
    own = _LONGEST * math.sqrt(residual.shape[1])
    return np.asarray(residual * (own / np.maximum(lengths, own))[:, None])


def _third(z: Array, residual: Array, share: Array) -> Array:
    """Sum over pairs of different draws."""
    count, dim = z.shape
    squares = np.vecdot(residual, residual) * np.vecdot(z, z) * share**2
    same = (z.T * squares) @ z
    if dim * dim <= count:
        pairs = (z[:, :, None] * z[:, None, :]).reshape(count, -1)
        third = ((residual.T * share) @ pairs).reshape(dim * dim, dim)
        both = third.T @ third
    else:
        products = residual @ residual.T
        products *= z @ z.T
        shared = z * share[:, None]
        both = shared.T @ products @ shared
    return np.asarray((both - same) / (1.0 - float(share @ share)))
