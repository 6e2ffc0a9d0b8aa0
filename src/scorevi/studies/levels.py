"""Levels that metrics come down to: which one counts on a target, and what it takes to be there."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from scorevi.studies.best_rate import best_rate, median_below
from scorevi.studies.synthetic import GAUSSIANS
from scorevi.studies.table import Curve, Table, short

KL, ELBO = "forward KL", "negative ELBO"
CONVERGED = 0.01
"""The forward KL, in nats, at which a fit of a Gaussian target counts as converged."""
NATS = 1.0
"""The distance from the best Gaussian's ELBO at which a fit of a posterior counts as arrived."""


class Speed(NamedTuple):
    """Gradients to a level on one target, medians over runs."""

    target: str
    ours: float
    bbvi: float
    budget: int
    """What BBVI was given."""

    @property
    def ratio(self) -> float:
        """How many times as many BBVI takes, at least; 0 where we do not arrive."""
        return min(self.bbvi, self.budget) / self.ours if math.isfinite(self.ours) else 0.0

    def __str__(self) -> str:
        if not math.isfinite(self.ours):
            return f"{short(self.target)}: not reached"
        return f"{short(self.target)}: {'' if math.isfinite(self.bbvi) else '> '}{self.ratio:.3g}×"


def speed(table: Table, target: str, solver: str, metric: str, level: float) -> Speed:
    """Compare a solver with BBVI on a target."""
    rate = best_rate(table, target, metric, level)
    theirs = table.curves(target, rate, metric) if rate else []
    ours = median_below(table.curves(target, solver, metric), level)
    budget = int(theirs[0].gradients[-1]) if theirs else 0
    return Speed(target, ours, median_below(theirs, level), budget)


def bbvi_level(table: Table, target: str) -> float:
    """Return the level that counts as BBVI's final one on a target, with a margin."""
    theirs = table.curves(target, best_rate(table, target, KL) or "", KL)
    return 1.1 * late_level(theirs) + 0.02


def late_level(curves: Sequence[Curve]) -> float:
    """Return the median over runs of a metric's mean in the last half."""
    return float(np.median([np.mean(curve.late()) for curve in curves])) if curves else math.inf


def best_elbo(table: Table, target: str) -> float:
    """Return the negative ELBO of the best Gaussian."""
    best = table.curves(target, "best", ELBO)
    return best[0].last if best else math.nan


def batch_level(table: Table, target: str) -> float:
    """Return the forward KL to which batch sizes are compared on a target."""
    if target in GAUSSIANS:
        return CONVERGED
    return 1.5 * min(late_level(table.curves(target, solver, KL)) for solver in table.solvers)


def final_level(curves: Sequence[Curve]) -> float:
    """Return the median over runs of a metric at the end; of zero, what rounding leaves."""
    return max(float(np.median([curve.last for curve in curves])), 1e-16) if curves else math.inf


def swing(curves: Sequence[Curve]) -> float:
    """Return the range, 10 to 90 %, of a metric in the last half, median over runs; ∞ if lost."""
    ranges = [
        np.subtract(*np.quantile(late, [0.9, 0.1])) if np.isfinite(late).all() else np.inf
        for late in (curve.late() for curve in curves)
    ]
    return float(np.median(ranges)) if ranges else math.nan
