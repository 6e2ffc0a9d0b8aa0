r"""The direction along which the posterior changes its shape, and how far the best Gaussian is.

In whitened coordinates let :math:`Q_{abc} = E_q[\partial^3 \log p]` be the third derivatives. Where
the mean of q moves along a unit vector u, the precision that fits there changes by
:math:`-Q_u = -\sum_c Q_{abc} u_c`; and where the covariance changes by :math:`Q_u`, the mean that
fits moves by :math:`\tfrac12 |Q_u|^2` along u. In a hierarchy u is the log of a scale, all
its groups take part in :math:`|Q_u|^2`, and the two nearly feed each other: the best Gaussian is
then far, at the end of a curved valley, though the score hardly points there. With
:math:`a = E_q[h]` and :math:`M = I + E_q[\nabla^2 \log p]`, which both vanish at the best Gaussian,
Newton's step for mean and covariance together is, to second order and along u,

.. math:: s = \frac{u^\top a + \tfrac12 \langle Q_u, M \rangle}{1 - \tfrac12 |Q_u|^2},
   \qquad \Sigma^{-1} \leftarrow I - M - s \, Q_u .

Neither part of the numerator tells by itself: where the widths are a little off, the score along u
makes up for it. Both are averages over draws, :math:`E[m^\top (u + \tfrac12 Q_u z)]` with m = h + z
the mismatch, of which most of the noise goes with z, its squares along the axes of :math:`Q_u`, and
their products with u·z. And :math:`Q_u`, found by the same draws, must not be multiplied by their
own noise: that of one half of the draws serves the other half.

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
_WEAKEST = 0.02
"""The smallest |Q_u|² of which anything depends."""
_LEAST = 0.1
"""The least that 1 − ½|Q_u|² is taken for: further on it is for higher derivatives to say."""
_PER_SQUARE, _PER_PRODUCT, _RIDGE = 1.4, 2, 1e-9
"""Draws, of a half, for each function that takes noise out: squares, and products as well; and what
keeps these from being singular."""


class Told(NamedTuple):
    """What draws say."""

    value: float
    variance: float


class Way(NamedTuple):
    """The way along a valley to the best Gaussian, as the draws say."""

    shift: Told
    """s, in units of q along u."""
    beyond: Told
    """The same less what the score along u says by itself."""
    bend: Told
    """By how many :math:`Q_u` the covariance is too small where q is now."""


class Valley(NamedTuple):
    """A direction along which the precision changes."""

    direction: Array
    """u, a unit vector, (D,)."""
    strength: float
    """|Q_u|²."""
    halves: tuple[Array, Array]
    """Q_u by every other draw, and by the rest, symmetric, (D, D), as noisy as they are."""

    @property
    def lengthening(self) -> float:
        """By what factor the way is longer than the scores say at first."""
        return 1.0 / max(_LEAST, 1.0 - 0.5 * self.strength)

    @property
    def bend(self) -> Array:
        """Q_u, so much smaller that its noise does not count."""
        return self._shrunk(0.5 * (self.halves[0] + self.halves[1]))

    def way(self, z: Array, mismatch: Array, weight: Array | None = None) -> Way:
        """Return how far the best Gaussian is.

        Parameters
        ----------
        z, mismatch
            The draws by which the valley was found, and the scores of the target there less those
            of q, (n, D).
        weight
            How much each counts, (n,); the same where left out.
        """
        weight = np.ones(len(z)) if weight is None else weight
        one, other = (
            self._of_half(z[k::2], mismatch[k::2], weight[k::2], self.halves[1 - k]) for k in (0, 1)
        )
        values, variances = 0.5 * (one + other)
        return Way(*map(Told, values.tolist(), (0.5 * variances).tolist()))

    def _of_half(self, z: Array, mismatch: Array, weight: Array, bend: Array) -> Array:
        """Return what half of the draws say, and the variances, by the bend of the other half."""
        score, wider = mismatch @ self.direction, np.vecdot(mismatch @ self._shrunk(bend), z)
        shift = self.lengthening * (score + 0.5 * wider)
        values = np.stack([shift, shift - score, wider / self.strength], axis=1)
        root = np.sqrt(weight)[:, None]
        sizes, axes = eigh(bend)
        design = self._features(z, axes[:, np.argsort(-np.abs(sizes))]) * root
        gram = design.T @ design
        gram[np.diag_indices(len(gram))] += _RIDGE * float(gram.trace()) / len(gram)
        known = np.concatenate([design.T @ (values * root), np.eye(len(gram), 1)], axis=1)
        found = np.linalg.solve(gram, known)
        left = values * root - design @ found[:, :-1]
        noise = (design @ found[:, -1]) ** 2 @ left**2 * (len(z) / max(1, len(z) - len(gram)))
        return np.stack([found[0, :-1], noise])

    def _features(self, z: Array, axes: Array) -> Array:
        """Return 1 and what averages out under q, but varies as the scores along a valley do.

        By the axes of the bend, those along which it is largest first.
        """
        count, dim = z.shape
        most = int(np.clip(count / _PER_SQUARE - dim - 1, 0, dim))
        features = [np.ones((count, 1)), z, (z @ axes[:, :most]) ** 2 - 1.0]
        if count > _PER_PRODUCT * (3 * dim + 1):
            features.append((z @ self.direction)[:, None] * z - self.direction)
        return np.concatenate(features, axis=1)

    def _shrunk(self, bend: Array) -> Array:
        return bend * min(1.0, self.strength / max(float(np.vdot(bend, bend)), 1e-300))


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
    strength -= noise**2 / strength
    if strength < _WEAKEST:
        return None
    direction = vectors[:, -1]
    counts = share * (z @ direction)
    one, other = (_bend(z[half::2], residual[half::2], counts[half::2]) for half in (0, 1))
    return Valley(direction, strength, (2.0 * one, 2.0 * other))


def third_derivatives(z: Array, residual: Array, weight: Array) -> Array:
    """Return N, (D, D), of draws that count as much as their weights; see :func:`valley`."""
    return _third(z, _shortened(residual), weight / weight.sum())


def _bend(z: Array, residual: Array, counts: Array) -> Array:
    along = (residual.T * counts) @ z
    return np.asarray(0.5 * (along + along.T))


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
