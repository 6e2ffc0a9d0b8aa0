"""Pictures of a fit. No numerics here; matplotlib comes with ``scorevi[plots]``."""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.files import check_folder
from scorevi.results.fit import Fit

_MOST_PARAMETERS = 30
INK, ACCENT, MUTED = "#222222", "#1f5fa8", "#9db7d5"


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
    require("matplotlib")
    from matplotlib.figure import Figure

    rows = min(len(fit.summary), _MOST_PARAMETERS)
    figure: Any = Figure(figsize=(9.5, max(4.0, 0.32 * rows + 1.4)), layout="constrained")
    grid = figure.add_gridspec(2, 2, width_ratios=[1.1, 1])
    _intervals(figure.add_subplot(grid[:, 0]), fit)
    fisher = figure.add_subplot(grid[1, 1])
    elbo = figure.add_subplot(grid[0, 1], sharex=fisher)
    _course(elbo, fit.trace.num_gradients, fit.trace.elbo, "ELBO")
    _course(fisher, fit.trace.num_gradients, fit.trace.fisher, "Fisher residual")
    if (fit.trace.fisher > 0).any():
        fisher.set_yscale("log")
    fisher.set_xlabel("gradient evaluations")
    elbo.tick_params(labelbottom=False)
    if title:
        figure.suptitle(title, fontsize=12, color=INK)
    return with_png(figure)


def save_picture(fit: Fit, path: str | Path, title: str = "") -> None:
    """Save :func:`plot_fit` to a file, whose ending says the format."""
    path = check_folder(path)
    if not path.name:
        raise ValueError("`path` must name a file; got an empty name.")
    figure = plot_fit(fit, title)
    try:
        figure.savefig(path, dpi=130)
    except OSError as error:
        raise ValueError(f"`path` could not be written: {error}.") from None


def with_png(figure: Any) -> Any:
    """Return a figure that a notebook shows, though it belongs to no window."""

    def png() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    figure._repr_png_ = png
    return figure


def _intervals(axes: Any, fit: Fit) -> None:
    rows = fit.summary[:_MOST_PARAMETERS]
    places = np.arange(len(rows))[::-1]
    lower = [row.lower for row in rows]
    upper = [row.upper for row in rows]
    axes.hlines(places, lower, upper, color=MUTED, linewidth=3)
    axes.plot([row.mean for row in rows], places, "o", color=ACCENT, markersize=5)
    axes.axvline(0.0, color="#dddddd", linewidth=1, zorder=0)
    axes.set_yticks(places, [label(row.name) for row in rows])
    left_out = len(fit.summary) - len(rows)
    more = f", first {len(rows)} of {len(fit.summary)} parameters" if left_out else ""
    axes.set_title(f"mean and 90 % interval{more}", fontsize=10, color=INK)
    tidy(axes)


def label(name: str) -> str:
    """Return a name as it fits a picture."""
    short = name if len(name) <= 40 else name[:37] + "..."
    return short.replace("$", r"\$")


def _course(axes: Any, gradients: NDArray[Any], values: Array, title: str) -> None:
    axes.set_title(f"{title} per update, with running median", fontsize=10, color=INK)
    tidy(axes)
    known = np.isfinite(values)
    if not known.any():
        axes.text(0.5, 0.5, "needs the log density", transform=axes.transAxes, ha="center")
        return
    gradients, values = gradients[known], values[known]
    axes.plot(gradients, values, ".", color=MUTED, markersize=2.5)
    width = max(1, len(values) // 40)
    middle = [np.median(part) for part in np.array_split(values, len(values) // width)]
    place = [np.median(part) for part in np.array_split(gradients, len(values) // width)]
    axes.plot(place, middle, color=ACCENT, linewidth=1.5)
    # The first updates may lie far out; what matters is where the course ends up.
    if title == "ELBO":
        low = min(middle[len(middle) // 8 :])
        high = max(middle)
        margin = 0.5 * (high - low) + 1.0
        axes.set_ylim(low - margin, high + margin)


def tidy(axes: Any) -> None:
    """Take away what a picture does not need."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.tick_params(labelsize=9)
