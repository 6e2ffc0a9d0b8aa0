"""Points and what the target said there: paid for, so worth keeping."""

from __future__ import annotations

import math
from typing import NamedTuple

from scorevi.base.arrays import Array


class Pair(NamedTuple):
    """One point."""

    theta: Array
    score: Array
    log_density: float
    """NaN where the target has none."""
    log_q: float = math.nan
    """The log density of the q that it was drawn from; NaN where it was not drawn."""


class Draws(NamedTuple):
    """Draws of one or several q's, n rows."""

    theta: Array
    """(n, D)."""
    score: Array
    """(n, D)."""
    log_density: Array
    """(n,); NaN where the target has none."""
    log_q: Array
    """Log density of each under the q it was drawn from, (n,)."""
