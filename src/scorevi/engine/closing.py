"""What the q is worth that a run ends with."""

from __future__ import annotations

import numpy as np

from scorevi.base.evaluate import Exhausted, TooManyBadScores
from scorevi.engine.batches import Batches
from scorevi.engine.quality import Quality, Recent
from scorevi.families import Family

_CLOSING = 16
"""Draws of the final q, where the last ones of the run do not tell what it is worth."""


def closing(q: Family, recent: Recent, batches: Batches | None) -> Quality:
    """Return the ELBO and the Fisher residual of q, which was never drawn from itself.

    Where the last draws cannot tell, a few of its own are spent on it, if there are any left;
    without ``batches`` none.
    """
    found = recent.quality(q)
    if found.known or batches is None:
        return found
    size = int(min(_CLOSING, batches.evaluator.remaining))
    if size < _CLOSING // 2:
        return found
    try:
        with np.errstate(all="ignore"):
            batch = batches.take(q, size).batch
    except (Exhausted, TooManyBadScores):
        return found
    return Recent([batch]).quality(q)
