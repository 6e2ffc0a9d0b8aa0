"""Where the mean should be, by the mean scores of all batches so far."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import LowRank
from scorevi.solvers.structure import Structure

_HISTORY, _RIDGE = 8, 1e-12
"""Means that are remembered, and what keeps equal ones from being told apart."""
_TELLING, _ERRORS = 1.2, 3.0
"""Times the noise that two estimates of the mean may differ by and agree: at least, and in
standard errors of what noise in so many dimensions comes to."""


class Aim(NamedTuple):
    """What is known of where the mean should be."""

    place: Array
    """The estimate, (D,)."""
    weight: float
    """How many pairs it is worth."""
    weight_along: float
    """How many pairs it is worth along the directions that were found."""
    means: Array
    """The last means of q, (m, D)."""
    scores: Array
    """The mean scores there, (m, D)."""

    @classmethod
    def nowhere(cls, q: LowRank) -> Aim:
        """Return what is known before the first batch."""
        rows = np.empty((0, q.dim))
        return cls(q.mean, 0.0, 0.0, rows, rows)

    @property
    def steady(self) -> float:
        """How many pairs agree on it."""
        return min(self.weight, self.weight_along)

    def after(self, q: LowRank, found: Structure, even: Array, total: int) -> tuple[Aim, float]:
        """Take in the mean scores of pairs around the mean of q, (p, D).

        Each batch says by a Newton step, with the precision found, where the mean should be. Two
        estimates that differ by more than their noise cannot both be right, and the later one is
        from nearer by; those that agree are averaged. Along the directions they are compared by
        themselves: there steps are longest and least certain, and the noise of very many other
        coordinates would hide that all go the same way. Returns the share of this batch in the
        rest of it too.

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
        noise, noise_along = (part / max(1, count - 1) for part in _parts(white, found))
        place = here = self._newton(q, found, score, (noise + noise_along) / count)
        weight = weight_along = float(count)
        trust = 1.0
        if self.weight > 0.0:
            step = here - self.place
            row = (step / q.scale)[None]
            apart, apart_along = _parts(found.stretch(row), found)
            most, dim = 0.5 * total, len(found.values)
            weight = _worth(self.weight, most, apart, noise, count, q.dim - dim)
            weight_along = _worth(self.weight_along, most, apart_along, noise_along, count, dim)
            trust, trust_along = (count / (known + count) for known in (weight, weight_along))
            along = q.scale * found.along(row)[0]
            place = self.place + trust * (step - along) + trust_along * along
            weight, weight_along = weight + count, weight_along + count
        means, scores = (
            np.concatenate([rows, row[None]])[-_HISTORY:]
            for rows, row in ((self.means, q.mean), (self.scores, score))
        )
        return Aim(place, weight, weight_along, means, scores), trust

    def _newton(self, q: LowRank, found: Structure, score: Array, noise: float) -> Array:
        """Return where the mean score would vanish; ``noise`` is the variance of a mean score.

        Precision that the directions have missed shows in how the mean score has changed from one
        mean to the next. So the step is taken from where, among the last means, the score would be
        least if it were linear (Anderson's mixing), as far as that stands out from noise. All
        changes are from this score, and what they share with it by its noise is taken off: it would
        draw the step back to where q was.
        """
        mean = q.mean
        if len(self.means):
            moved, changed = self.means - mean, self.scores - score
            white = found.whiten(q.scale * changed)
            gram = white @ white.T
            gram[np.diag_indices(len(gram))] += 2.0 * noise + _RIDGE * np.trace(gram) + 1e-300
            common = white @ found.whiten((q.scale * score)[None])[0] + noise
            share = -np.linalg.solve(gram, common)
            mean, score = mean + share @ moved, score + share @ changed
        return np.asarray(mean + q.scale * found.solve((q.scale * score)[None])[0])


def _parts(white: Array, found: Structure) -> tuple[float, float]:
    """Return the sums of squares of whitened rows beside the directions, and along them."""
    along = white @ found.directions
    squares = float(np.vdot(along, along))
    return max(0.0, float(np.vdot(white, white)) - squares), squares


def _worth(weight: float, most: float, apart: float, noise: float, count: int, dim: int) -> float:
    """Return how many pairs an estimate is worth, now that a batch has said something else.

    Parameters
    ----------
    weight, most
        How many it was worth, and how many may count.
    apart
        The squared distance of what the batch says.
    noise
        The variance of what one of its pairs says.
    count
        Its pairs.
    dim
        The dimensions in which they are compared.
    """
    telling = max(_TELLING, 1.0 + _ERRORS * math.sqrt(2.0 / max(1, dim)))
    excess = apart - telling * noise * (1.0 / count + 1.0 / weight)
    weight = min(weight, most)
    return noise / (noise / weight + excess) if excess > 0.0 else weight
