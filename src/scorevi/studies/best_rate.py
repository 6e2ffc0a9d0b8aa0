"""Which learning rate of BBVI counts: the best, as in the paper, by a rule."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scorevi.studies.table import Curve, Table


def best_rate(table: Table, target: str, metric: str, level: float | None = None) -> str | None:
    """Return the label of BBVI's best learning rate on a target, or None if there is none.

    The best is the one that takes the fewest gradients, in the median over runs, to come down to a
    level; without a level, or where none of them does, the one whose runs end lowest in the median.
    """
    labels = [label for label in table.solvers if label.startswith("bbvi")]
    labels = [label for label in labels if table.curves(target, label, metric)]
    if not labels:
        return None

    def rank(label: str) -> tuple[float, float]:
        curves = table.curves(target, label, metric)
        reached = np.inf if level is None else median_below(curves, level)
        return reached, float(np.nanmedian([curve.last for curve in curves]))

    return min(labels, key=rank)


def median_below(curves: Sequence[Curve], level: float) -> float:
    """Return the median over runs of the gradients to come down to a level; ∞ where most do not."""
    return float(np.median([curve.first_below(level) for curve in curves])) if curves else np.inf


def drawn(table: Table, target: str, metric: str) -> list[str]:
    """Return the solvers of a target that are drawn, BBVI with its best learning rate alone."""
    best = best_rate(table, target, metric)
    return [
        label
        for label in table.solvers
        if table.curves(target, label, metric)
        and len(table.curves(target, label, metric)[0].values) > 1
        and (not label.startswith("bbvi") or label == best)
    ]
