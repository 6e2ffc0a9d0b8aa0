"""The opposite pairs of a batch, and what their scores have in common and not."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.solvers.base import Batch


class Opposites(NamedTuple):
    """Pairs of points μ ± offset, m rows each."""

    offset: Array
    odd: Array
    """Half the difference of their scores."""
    even: Array
    """Their mean."""


def opposites(batch: Batch) -> Opposites:
    """Return the pairs of a batch.

    A draw whose opposite had no usable score counts as a pair with a point at the mean, whose score
    is what the other pairs say; without others, the mean of the batch.
    """
    offset, score = np.asarray(batch.offset), np.asarray(batch.score)
    place: dict[float, int] = {}
    one, two, alone = [], [], []
    for row, value in enumerate(np.asarray(batch.z)[:, 0].tolist()):
        other = place.pop(-value, None)
        if other is None:
            place[value] = row
        else:
            one.append(other)
            two.append(row)
    alone = sorted(place.values())
    odd, even = 0.5 * (score[one] - score[two]), 0.5 * (score[one] + score[two])
    offset, alone_offset = offset[one], offset[alone]
    if not alone:
        return Opposites(offset, odd, even)
    centre = even.mean(axis=0) if one else score[alone].mean(axis=0)
    if len(score) == 1:
        centre = np.zeros_like(centre)  # as if the mean were right: there is nothing else to go by
    odd = np.concatenate([odd, score[alone] - centre])
    even = even if one else score[alone]
    return Opposites(np.concatenate([offset, alone_offset]), odd, even)
