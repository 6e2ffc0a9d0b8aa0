"""How far replay's step may go: along each direction as far as the score is straight along it."""

from __future__ import annotations

import math

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.linalg import backward, cholesky, eigh, identity
from scorevi.solvers.memory import Evidence

_REACH, _LONGEST_REACH = 1.25, 100.0
"""The factor by which a step may change a variance: where the score is bent, and at most."""
_STRAIGHT = 0.25
"""The reach times what a line leaves of the scores, where that is little."""
_SHIFT = 0.16
"""The bound of a shift, in units of √D times the reach."""
_BEND, _LEAST_SHIFT = 0.7, 0.3
"""The length of a shift times what a line leaves of the scores along it, and a length that may be
gone in any case. To second order the score turns round after as long a way: further on there may be
a wall, and a fit would jump to and fro between the wall and where it was."""
_ASKED = 8
"""Directions that are asked by themselves, those held back most: each takes a regression."""


def trusted_step(evidence: Evidence) -> tuple[Array, Array, Array]:
    """Go to the precision found, within bounds."""
    intercept, precision = evidence.aim
    precision, vectors = eigh(precision)
    reach = _reach(evidence, vectors, precision)
    precision = np.clip(precision, 1.0 / reach, reach)
    shift = vectors @ ((vectors.T @ intercept) / precision)
    return shift * _share(shift, evidence, float(reach.max())), 1.0 / precision, vectors


def _share(shift: Array, evidence: Evidence, reach: float) -> float:
    """Return how much of a shift may be gone, of variances that may change by a factor."""
    length = math.sqrt(float(shift @ shift))
    if length == 0.0:
        return 1.0
    way = shift[:, None] / length
    straight = max(_LEAST_SHIFT, _BEND / max(float(evidence.bent(way)[0]), 1e-300))
    return min(1.0, min(_SHIFT * reach * math.sqrt(len(shift)), straight) / length)


def _reach(evidence: Evidence, directions: Array, precision: Array) -> Array:
    """Return the factor by which the variance along each direction may change.

    In a regression with raw units q begins a thousand times too narrow along one of them, and what
    is bent along the others would hold it back for ever.
    """
    bent = evidence.bent(directions)
    reach = _within(bent)
    if not evidence.tells_directions_apart:
        return reach
    held_back = np.abs(np.log(np.maximum(precision, 1e-300))) - np.log(reach)
    for k in np.argsort(-held_back)[:_ASKED]:
        if held_back[k] > 0.0:
            bent[k] = evidence.bent_by(directions[:, k])
    return _within(bent)


def _within(bent: Array) -> Array:
    return np.clip(_STRAIGHT / np.maximum(bent, 1e-300), _REACH, _LONGEST_REACH)


def small_step(evidence: Evidence) -> tuple[Array, Array] | None:
    """Return the same step by its shift and the Cholesky factor of the precision.

    In many dimensions that takes a quarter of the time. None where something is held back.
    """
    intercept, precision = evidence.aim
    if not _is_about_one(precision):
        return None
    lower = cholesky(precision)
    shift = backward(lower, backward(lower, intercept), transposed=True)
    return shift * _share(shift, evidence, _REACH), lower


def _is_about_one(precision: Array) -> bool:
    """Return whether all eigenvalues are within the smallest reach."""
    unit = identity(np, len(precision))
    off = precision - unit
    if float(np.vdot(off, off)) <= (1.0 - 1.0 / _REACH) ** 2:
        return True
    ends = precision - unit / _REACH, _REACH * unit - precision
    return all(np.isfinite(cholesky(end)[-1, -1]) for end in ends)
