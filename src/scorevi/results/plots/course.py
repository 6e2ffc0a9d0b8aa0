"""The course of a fit, and the intervals that it ended with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Literal

import numpy as np

from scorevi.results.plots.look import FAINT, FIT, INK, PART, label, new_figure, plain, say, tidy
from scorevi.results.shapes import running_median

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_MOST = 30
"""Intervals in one picture."""


def draw_course(axes: Any, fit: Fit, what: Literal["elbo", "fisher"] = "elbo") -> None:
    """Draw the ELBO or the Fisher residual of each update, their running median, and the stop.

    Parameters
    ----------
    axes
        Where to draw: axes of matplotlib.
    fit
        What to draw.
    what
        Which of them.
    """
    name = {"elbo": "ELBO", "fisher": "Fisher residual"}[what]
    axes.set_title(f"{name} per update, with running median", fontsize=11, color=INK)
    tidy(axes)
    gradients, values = fit.trace.num_gradients, getattr(fit.trace, what)
    known = np.isfinite(values)
    if not known.any():
        say(axes, "needs the log density" if what == "elbo" else "no update was made")
        return
    axes.plot(gradients[known], values[known], ".", color=PART, markersize=3)
    place, middle = running_median(gradients, values)
    axes.plot(place, middle, color=FIT, linewidth=2)
    axes.set_xlim(left=0.0)
    axes.axvline(fit.num_gradients, color=INK, linewidth=1, linestyle="--")
    axes.annotate(
        plain(str(fit.status)),
        (fit.num_gradients, 1.0 if what == "fisher" else 0.0),
        xycoords=("data", "axes fraction"),
        xytext=(-4, -12 if what == "fisher" else 4),
        textcoords="offset points",
        ha="right",
        fontsize=10,
        color=INK,
    )
    if what == "fisher" and (values[known] > 0).any():
        axes.set_yscale("log")
    if what == "elbo":
        # Some updates, the first ones above all, lie far out; what matters is where it ends up.
        low, high = np.quantile(middle[len(middle) // 8 :], 0.1), middle.max()
        margin = 0.5 * (high - low) + 1.0
        axes.set_ylim(low - margin, high + margin)


def draw_intervals(axes: Any, fit: Fit) -> None:
    """Draw mean, 50 and 90 % interval of each variable in the table, up to thirty of them."""
    rows = fit.summary[:_MOST]
    places = np.arange(len(rows))[::-1]
    axes.axvline(0.0, color=FAINT, linewidth=1, zorder=0)
    axes.hlines(places, [row.lower for row in rows], [row.upper for row in rows], color=PART, lw=3)
    known = [row.lower_quarter is not None for row in rows]
    quarters = [[row.lower_quarter for row in rows], [row.upper_quarter for row in rows]]
    axes.hlines(places[known], *np.array(quarters, dtype=float)[:, known], color=FIT, lw=5)
    axes.plot([row.mean for row in rows], places, "o", color=INK, markersize=4)
    axes.set_yticks(places, [label(row.name) for row in rows])
    more = f", first {len(rows)} of {len(fit.summary)} parameters"
    shown = "" if len(rows) == len(fit.summary) else more
    axes.set_title(f"mean, 50 and 90 % interval{shown}", fontsize=11, color=INK)
    tidy(axes)


def plot_course(fit: Fit, title: str = "") -> Any:
    """Draw ELBO and Fisher residual against gradients, one above the other."""
    figure = new_figure(7.0, 5.6, title or f"{fit.status} after {fit.num_gradients} gradients")
    _both(figure, figure.add_gridspec(2, 1), 0, fit)
    return figure


def plot_fit(fit: Fit, title: str = "") -> Any:
    """Draw a fit: intervals of the parameters on the left, the course of the fit on the right.

    Parameters
    ----------
    fit
        What to draw.
    title
        A heading.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that belongs to no window; a notebook shows it, ``savefig`` saves it.
    """
    rows = min(len(fit.summary), _MOST)
    figure = new_figure(10.0, max(4.6, 0.32 * rows + 1.4), title)
    grid = figure.add_gridspec(2, 2, width_ratios=[1.1, 1])
    draw_intervals(figure.add_subplot(grid[:, 0]), fit)
    _both(figure, grid, 1, fit)
    return figure


def _both(figure: Any, grid: Any, column: int, fit: Fit) -> None:
    fisher = figure.add_subplot(grid[1, column])
    elbo = figure.add_subplot(grid[0, column], sharex=fisher)
    draw_course(elbo, fit, "elbo")
    draw_course(fisher, fit, "fisher")
    fisher.set_xlabel("gradient evaluations", fontsize=11, color=INK)
    elbo.tick_params(labelbottom=False)
