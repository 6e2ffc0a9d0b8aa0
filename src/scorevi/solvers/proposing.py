"""What a mixture draws next, how much of it, and when nothing is left to gain."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Mixture
from scorevi.solvers.scouts import DRAWS, Scout

_FLAT = 0.5
_OWN = 2.0
"""Draws of its own that a component is given first, over D + 1."""
_SHARE = 10
"""A batch is about this part of the memory."""
_REST = 0.4
"""The part of all draws that must have passed since."""


def proposal_of(parts: Mixture, own: Array, scouts: Sequence[Scout], size: int) -> Mixture:
    """Return what to draw from: the mixture, what is known least of it, and the scouts."""
    wanted = np.maximum(0.0, _OWN * (parts.dim + 1) - own)
    if len(own) == 1 or wanted.sum() == 0.0:
        wanted = np.ones(len(own))
    weights = (1.0 - _FLAT) * parts.weights + _FLAT * wanted / wanted.sum()
    each = min(DRAWS / size, 0.5 / max(1, len(scouts)))
    weights = np.concatenate([weights * (1.0 - each * len(scouts)), np.full(len(scouts), each)])
    return Mixture(weights, (*parts.components, *(scout.part for scout in scouts)))


def batch_size(dim: int, count: int) -> int:
    """Return a batch's size, of a few sizes only, since some targets are compiled for each."""
    size = max(32, 2 * dim)
    while size * _SHARE * 1.5 < count:
        size = math.ceil(1.5 * size)
    return size


def ending_of(count: int, drawn: int, since: int, size: int, cut: bool) -> str:
    """Say why nothing is left to gain, if nothing is, ``since`` draws after the last change."""
    if since < max(_REST * drawn, 6 * size):
        return ""
    if count == 1:
        return "the scores ask for no second component"
    if cut:
        return f"{count} components are as many as may be, and the posterior goes on beyond them"
    return f"{count} components, and nothing was added in the last {since} gradients"
