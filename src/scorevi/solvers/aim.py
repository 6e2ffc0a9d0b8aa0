"""Where the mean should be, by the mean scores of all batches so far."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import LowRank
from scorevi.solvers.structure import Structure

_HISTORY, _RIDGE = 8, 1e-12
"""Means that are remembered, and what keeps equal ones from being told apart."""
_TELLING = 1.2
"""Times the noise that two estimates of the mean may differ by and agree."""


class Aim(NamedTuple):
    """What is known of where the mean should be."""

    place: Array
    """The estimate, (D,)."""
    weight: float
    """How many pairs it is worth."""
    means: Array
    """The last means of q, (m, D)."""
    scores: Array
    """The mean scores there, (m, D)."""

    @classmethod
    def nowhere(cls, q: LowRank) -> Aim:
        """Return what is known before the first batch."""
        rows = np.empty((0, q.dim))
        return cls(q.mean, 0.0, rows, rows)

    def after(self, q: LowRank, found: Structure, even: Array, total: int) -> tuple[Aim, float]:
        """Take in the mean scores of pairs around the mean of q, (p, D).

        Each batch says by a Newton step, with the precision found, where the mean should be. Two
        estimates that differ by more than their noise cannot both be right, and the later one is
        from nearer by; those that agree are averaged. Returns the share of this batch in it too.

        Parameters
        ----------
        q
            What the batch was drawn from.
        found
            The precision, in units of q's diagonal.
        even
            The scores.
        total
            Pairs so far: what is older than half of them counts no more.
        """
        count, score = len(even), even.mean(axis=0)
        white = found.whiten(q.scale * (even - score if count > 1 else even))
        noise = float(np.vdot(white, white)) / max(1, count - 1)
        here = self._newton(q, found, score, noise * 2.0 / count)
        place, weight, trust = here, float(count), 1.0
        if self.weight > 0.0:
            apart = float(found.lengths(((here - self.place) / q.scale)[None])[0]) ** 2
            excess = max(0.0, apart - _TELLING * noise * (1.0 / count + 1.0 / self.weight))
            weight = min(self.weight, 0.5 * total)
            if excess > 0.0:
                weight = noise / (noise / weight + excess)
            trust = count / (weight + count)
            place, weight = self.place + trust * (here - self.place), weight + count
        means, scores = (
            np.concatenate([rows, row[None]])[-_HISTORY:]
            for rows, row in ((self.means, q.mean), (self.scores, score))
        )
        return Aim(place, weight, means, scores), trust

    def _newton(self, q: LowRank, found: Structure, score: Array, noise: float) -> Array:
        """Return where the mean score would vanish.

        Precision that the directions have missed shows in how the mean score has changed from one
        mean to the next. So the step is taken from where, among the last means, the score would be
        least if it were linear (Anderson's mixing), as far as that stands out from noise.
        """
        mean = q.mean
        if len(self.means):
            moved, changed = self.means - mean, self.scores - score
            white = found.whiten(q.scale * changed)
            gram = white @ white.T
            gram[np.diag_indices(len(gram))] += noise + _RIDGE * np.trace(gram) + 1e-300
            share = -np.linalg.solve(gram, white @ found.whiten((q.scale * score)[None])[0])
            mean, score = mean + share @ moved, score + share @ changed
        return np.asarray(mean + q.scale * found.solve((q.scale * score)[None])[0])
