"""How far the best Gaussian is from q, marginal by marginal, by the scores at draws from q."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.valley import valley

_LEAST_CURVED = 0.2
"""Of curvatures in units of q's own, below which they are not believed."""
_ENOUGH, _MOST = 3, 1000
"""Draws, over D + 1, that tell of a valley; and no more than so many are asked."""


class Steps(NamedTuple):
    """How far each marginal should still move, with standard errors, (D,) each."""

    mean: Array
    """In standard deviations."""
    mean_error: Array
    log_sd: Array
    log_sd_error: Array
    lengthening: float
    """By what factor bends of the score, at most, make the way longer than the score says."""


def steps(loadings: Array, z: Array, mismatch: Array) -> Steps:
    r"""Return where mismatched scores of draws from q say that its marginals should go.

    With t the coordinate of a parameter and s the mismatch of the score along it, both in standard
    deviations of q, E[s] and E[s t] vanish at the best Gaussian. They change with mean and log sd
    by the second and third derivatives of the log density, and by the next ones, which the draws
    tell too: :math:`E[s (t^2 - 1)]` and :math:`E[s (t^3 - 3t)]`. So this is Newton's step for each
    marginal. Where the score is bent it may be several times E[s]; and along a curved valley
    (:mod:`scorevi.base.valley`), where all of q changes with one parameter, several times that.

    Parameters
    ----------
    loadings
        q's factor, each row over the standard deviation of its parameter, (D, D).
    z, mismatch
        Draws, and the whitened scores of the target there less those of q, (n, D).
    """
    shift, offset = mismatch @ loadings.T, z @ loadings.T
    square = offset * offset
    wider = shift * offset
    slope = wider.mean(axis=0)
    bend = (shift * (square - 1.0)).mean(axis=0)
    twist = (wider * (square - 3.0)).mean(axis=0)
    precision = np.maximum(1.0 - slope, _LEAST_CURVED)
    across = np.maximum(2.0 * precision - twist, _LEAST_CURVED)
    determinant = np.maximum(precision * across - bend**2, _LEAST_CURVED * precision * across)
    moves = (across * shift + bend * wider) / determinant
    widens = (bend * shift + precision * wider) / determinant
    own = across * np.maximum(precision, 1.0) / determinant
    further, direction = _valley(z, mismatch)
    moves += np.outer((further - 1.0) * (mismatch @ direction), loadings @ direction)
    root = math.sqrt(len(shift))
    return Steps(
        moves.mean(axis=0),
        moves.std(axis=0) / root,
        widens.mean(axis=0),
        widens.std(axis=0) / root,
        max(further, float(own.max())),
    )


def _valley(z: Array, mismatch: Array) -> tuple[float, Array]:
    """Return the direction of a valley, and by what factor it lengthens the way: 1 without one."""
    z, mismatch = z[-_MOST:], mismatch[-_MOST:]
    count, dim = z.shape
    nothing = 1.0, np.zeros(dim)
    if count < _ENOUGH * (dim + 1) or not np.isfinite(mismatch).all():
        return nothing
    design = np.concatenate([np.ones((count, 1)), z], axis=1)
    line = np.linalg.lstsq(design, mismatch, rcond=None)[0]
    found = valley(z, mismatch - design @ line)
    return nothing if found is None else (found.lengthening, found.direction)
