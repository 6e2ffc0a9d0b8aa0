"""What is asked of fits where one Gaussian is not enough: how far q and resampled draws may be off.

Errors are the largest over the marginals, of means in standard deviations and of log standard
deviations: of q itself, and of 4,000 draws resampled out of 8,000.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import median
from typing import NamedTuple

from scorevi.studies.trials import Trial

FEW = 30
"""Dimensions up to which fewer gradients are to do."""


class Bar(NamedTuple):
    """What is asked of a group of targets."""

    gradients: int
    own: tuple[float, float]
    """Errors of q itself."""
    resampled: tuple[float, float]


BARS = {
    "hierarchies, D ≤ 30": Bar(6000, (0.15, 0.2), (0.1, 0.1)),
    "hierarchies, 30 < D ≤ 120": Bar(10_000, (0.15, 0.2), (0.1, 0.1)),
    "eight schools non-centered, gp, bball": Bar(4000, (0.1, 0.15), (0.06, 0.08)),
    "eight schools centered": Bar(6000, (0.3, 0.4), (0.15, 0.2)),
    "bent": Bar(4000, (0.1, 0.15), (0.06, 0.08)),
    "sinh-arcsinh": Bar(4000, (0.12, 0.25), (0.1, 0.15)),
}
NAMED = {
    "eight_schools-eight_schools_noncentered": "eight schools non-centered, gp, bball",
    "gp_pois_regr-gp_pois_regr": "eight schools non-centered, gp, bball",
    "bball_drive_event_0-hmm_drive_0": "eight schools non-centered, gp, bball",
    "eight_schools-eight_schools_centered": "eight schools centered",
    "funnel, scale 1": "bent",
    "banana": "bent",
    "ring": "bent",
    "two modes, 50 : 50": "bent",
    "two modes, 90 : 10": "bent",
    "two modes that touch, 50 : 50": "bent",
    "sinh-arcsinh, skew 1, tail 1": "sinh-arcsinh",
    "sinh-arcsinh, skew 0, tail 0.5": "sinh-arcsinh",
}


def shapes(found: Sequence[Trial]) -> str:
    """Return a line for each target that something is asked of, with medians over its seeds."""
    lines = [
        "| target | gradients | q | of q | resampled | within the bar | one Gaussian |",
        "|---|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(trial.target for trial in found if _group(trial)):
        rows = [trial for trial in found if trial.target == name]
        bar = BARS[_group(rows[0])]
        within = sum(_is_within(row.resampled, bar.resampled) for row in rows)
        kinds = "/".join(sorted({row.kind for row in rows}))
        gaussian = [row.gaussian for row in rows if not math.isnan(row.gaussian[0])]
        lines.append(
            f"| {name} | {median(row.gradients for row in rows):.0f} | {kinds} | "
            f"{_middle([_own(row) for row in rows])} | {_middle([row.resampled for row in rows])} "
            f"| {within} of {len(rows)} | {_middle(gaussian)} |"
        )
    return "\n".join(lines)


def groups(found: Sequence[Trial]) -> str:
    """Return a line for each group of targets: what is asked, and what was measured."""
    lines = [
        "| targets | of q, median (asked) | within that | resampled, within what is asked | "
        "gradients, at most what is asked |",
        "|---|---|---|---|---|",
    ]
    for group, bar in BARS.items():
        rows = [trial for trial in found if _group(trial) == group]
        if rows:
            own = sum(_is_within(_own(row), bar.own) for row in rows)
            good = sum(_is_within(row.resampled, bar.resampled) for row in rows)
            cheap = sum(row.gradients <= bar.gradients for row in rows)
            lines.append(
                f"| {group} | {_middle([_own(row) for row in rows])} ({bar.own[0]:g} / "
                f"{bar.own[1]:g}) | {own} of {len(rows)} | {good} of {len(rows)} "
                f"({bar.resampled[0]:g} / {bar.resampled[1]:g}) | {cheap} of {len(rows)} "
                f"({bar.gradients:,}) |"
            )
    return "\n".join(lines)


def _group(trial: Trial) -> str:
    if trial.suite == "hierarchies" and trial.is_judged:
        return "hierarchies, D ≤ 30" if trial.dim <= FEW else "hierarchies, 30 < D ≤ 120"
    return NAMED.get(trial.target, "")


def _own(trial: Trial) -> tuple[float, float]:
    return trial.mean_off, trial.sd_off


def _is_within(errors: tuple[float, float], bar: tuple[float, float]) -> bool:
    """Compare an error of means and a factor of standard deviations with a bar of logarithms."""
    return errors[0] <= bar[0] and math.log(errors[1]) <= bar[1]


def _middle(errors: Sequence[tuple[float, float]]) -> str:
    mean, factor = (median(column) for column in zip(*errors, strict=True))
    return f"{mean:.2f} / {math.log(factor):.2f}"
