"""How far a step may go, in many dimensions: coordinate by coordinate."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import LowRank
from scorevi.solvers.structure import Structure, rescaled

_REACH, _LONGEST_REACH = 2.0, 1e6
"""The factor by which a step may change a variance: where scores are bent, and at most."""
_STRAIGHT = 0.5
"""The factor times what is not as it should be, where that is little."""
_SHIFT = 0.35
"""The bound of a shift, in standard deviations, next to the factor."""
_LONGEST_STRIDE = 64.0
_LEAST_SHARE = 0.05
"""What is gone of a shift in any case."""


class Region(NamedTuple):
    """Bounds of a step: of very many coordinates a few may be bent.

    A q that is too narrow is put right by its next draws; one that is too wide may not have any. So
    what the directions leave unexplained bounds how much wider q may become. Of a shift it makes
    that share doubtful.
    """

    narrower: Array
    """Factors of the precision, (D,)."""
    wider: Array
    """Factors of the variance, (D,)."""
    odd: Array
    """Half differences of scores, in units of q's diagonal, (p, D)."""
    even: Array
    """What their means vary by, (p, D)."""
    explained: Array
    """The share of the scores that is explained, (D,)."""

    @classmethod
    def of(cls, found: Structure, q: LowRank, odd: Array, even: Array) -> Region:
        """Ask the scores of a batch: their even part next to the odd one says what is bent."""
        odd, even = odd * q.scale, (even - even.mean(axis=0)) * q.scale
        bent = _ratio(even, odd)
        explained = np.maximum(1.0 - found.unexplained**2, _LEAST_SHARE)
        return cls(_reach(bent), _reach(np.maximum(bent, found.unexplained)), odd, even, explained)

    def bounded(self, found: Structure, q: LowRank) -> Structure:
        """Keep precisions within factors of those of q."""
        return self._clipped(found, q, self.narrower)

    def not_wider(self, found: Structure, q: LowRank) -> Structure:
        """Keep precisions from being too small alone."""
        return self._clipped(found, q, np.full(q.dim, np.inf))

    def shortened(
        self, shift: Array, q: LowRank, before: Array, stride: Array
    ) -> tuple[Array, Array]:
        """Bound a shift, of each coordinate in units of its own sd and of all together.

        A coordinate that is held back twice the same way may go twice as far, and one that turns
        round half as far: by its stride, given with the shift before, and returned anew.
        """
        same = np.sign(shift) * np.sign(before)
        stride = np.where(same < 0, np.maximum(1.0, 0.5 * stride), stride)
        reach = _SHIFT * self.narrower * stride
        wanted = self.explained * shift
        shift = np.clip(wanted, -reach * q.sd, reach * q.sd)
        length = float(np.linalg.norm(q.whitened(shift[None])))
        held = (np.abs(wanted) > reach * q.sd) & (same > 0)
        stride = np.where(held, np.minimum(2.0 * stride, _LONGEST_STRIDE), stride)
        return shift * min(1.0, float(np.linalg.norm(reach)) / max(length, 1e-300)), stride

    def _clipped(self, found: Structure, q: LowRank, narrower: Array) -> Structure:
        # A coordinate is kept narrow by what the directions add to its diagonal as well.
        total = found.diagonal * (1.0 + found.directions**2 @ (found.values - 1.0))
        least = np.clip(1.0 / self.wider - (total - found.diagonal), 0.0, 1.0 / self.wider)
        diagonal = np.clip(found.diagonal, least, narrower)
        if (diagonal != found.diagonal).any():
            found = rescaled(found, diagonal)
        rows = (found.directions / np.sqrt(diagonal)[:, None]).T
        before = np.vecdot(rows, rows) + (rows @ q.directions) ** 2 @ (q.widths**-2.0 - 1.0)
        bent = _ratio(self.even @ rows.T, self.odd @ rows.T)
        left = np.sqrt(np.mean(found.unexplained**2))
        most = before * _reach(bent) if np.isfinite(narrower).all() else np.inf
        values = np.clip(found.values, before / _reach(np.maximum(bent, left)), most)
        return found._replace(values=values)


def _ratio(even: Array, odd: Array) -> Array:
    """Return, for each column, the even part next to the odd one; 1 where they cannot tell."""
    count = len(even)
    if count < 2:
        return np.ones(odd.shape[1])
    one, two = np.vecdot(even.T, even.T), np.vecdot(odd.T, odd.T)
    both = one * (len(odd) / (count - 1.0)) / np.maximum(two, np.finfo(np.float64).tiny)
    return np.asarray(np.sqrt(both))


def _reach(left: Array) -> Array:
    """Return factors by which variances may change, by what is not as it should be."""
    return np.clip(_STRAIGHT / np.maximum(left, 1e-300), _REACH, _LONGEST_REACH)
