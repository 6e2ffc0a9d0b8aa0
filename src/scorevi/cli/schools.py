"""The picture of the demonstration: what a hierarchy does to eight schools."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from scorevi.results.fit import Fit
from scorevi.results.plots import draw_course, draw_intervals, draw_marginal, save_figure
from scorevi.results.plots.look import INK, REFERENCE, new_figure
from scorevi.targets.synthetic import EIGHT_SCHOOLS


def save_schools(fit: Fit, path: Path) -> None:
    """Draw the effects beside what each school alone would say, their scale, and the course."""
    figure = new_figure(10.0, 5.0, f"Eight schools (Rubin 1981): verdict {fit.verdict!s}")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.25, 1])
    effects = figure.add_subplot(grid[:, 0])
    draw_intervals(effects, fit)
    rows = len(fit.summary)
    places = [rows - 1 - k for k, row in enumerate(fit.summary) if row.name.startswith("theta")]
    observed = np.array(EIGHT_SCHOOLS["effect"])
    effects.plot(observed, places, "x", color=REFERENCE, markersize=7, label="the school alone")
    effects.legend(frameon=False, fontsize=10, loc="upper right")
    scale = figure.add_subplot(grid[0, 1])
    draw_marginal(scale, fit, "tau")
    scale.set_xlim(0.0, 20.0)
    scale.set_xlabel("tau", fontsize=11, color=INK)
    scale.set_title("how much schools differ", fontsize=11, color=INK)
    course = figure.add_subplot(grid[1, 1])
    draw_course(course, fit, "elbo")
    course.set_xlabel("gradient evaluations", fontsize=11, color=INK)
    save_figure(figure, path)
