"""The figures of the studies: a panel for each target, a colour for each solver.

Translucent lines are the runs, the solid one is their mean. Of BBVI only the best learning rate is
drawn.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.studies.best_rate import drawn
from scorevi.studies.table import Curve, Table, short

if TYPE_CHECKING:
    from scorevi.studies.plan import Study

COLOURS = {"gsm": "#1f5fa8", "bbvi": "#d1701a", "bam": "#2f8f5b", "auto": "#111111"}
_CYCLE = ("#1f5fa8", "#d1701a", "#2f8f5b", "#8a4fa3", "#b8336a", "#5b6b73")
NAMES = {"gsm": "GSM", "bbvi": "BBVI", "bam": "BaM", "auto": "auto (scorevi's own)"}
_DPI = 100


@dataclass(frozen=True)
class Axes:
    """What the axes of a figure's panels have in common."""

    columns: int = 4
    lowest: float = 0.0
    """Values are cut off below: rounding is of no interest. 0 for never."""
    label: str = ""
    """Of the vertical axis, if it is not the metric."""
    by: str = "gradients"
    below: bool = False
    """Whether a panel's values are shown above the lowest that any Gaussian has there."""


_OFF_THE_PAGE = 1e12
"""A value that no picture shows: what is lost may be off by any number."""
ABOVE_BEST = Axes(lowest=1e-3, label="negative ELBO − that of\nthe best Gaussian", below=True)
"""For the negative ELBO, of which only differences mean something."""


def draw_panels(table: Table, study: Study, folder: Path, axes: Axes) -> None:
    """Draw a study's figure, and save it as PNG and SVG under the study's name."""
    targets = table.targets
    columns = min(axes.columns, len(targets))
    rows = math.ceil(len(targets) / columns)
    figure = new_figure(2.9 * columns + 0.6, 2.5 * rows + 1.1)
    grid = figure.subplots(rows, columns, squeeze=False, sharex="row", sharey=False)
    handles: dict[str, Any] = {}
    for place, target in zip(grid.flat, targets, strict=False):
        for label, name, colour in _lines(table, target, study.metric):
            curves = table.curves(target, label, study.metric)
            handles.setdefault(
                name, _runs(place, curves, colour, axes, _floor(table, target, study, axes))
            )
        place.set_title(short(target), fontsize=9)
        place.set_xscale("log")
        place.set_yscale("log")
        tidy(place)
    for place in list(grid.flat)[len(targets) :]:
        place.set_visible(False)
    for place in grid[:, 0]:
        place.set_ylabel(axes.label or study.metric, fontsize=9)
    for place in grid[-1]:
        place.set_xlabel("seconds" if axes.by == "seconds" else "gradient evaluations", fontsize=9)
    figure.suptitle(study.title, fontsize=11)
    figure.legend(
        handles.values(),
        handles.keys(),
        loc="outside lower center",
        ncols=len(handles),
        frameon=False,
        fontsize=9,
    )
    save(figure, folder, study.name)


def _lines(table: Table, target: str, metric: str) -> list[tuple[str, str, str]]:
    """Return label, name in the legend and colour of what is drawn in a panel."""
    labels = drawn(table, target, metric)
    solvers = [label.split()[0] for label in labels]
    if len(set(solvers)) == len(labels) and COLOURS.keys() >= set(solvers):
        found = zip(labels, solvers, strict=True)
        return [(label, NAMES[solver], COLOURS[solver]) for label, solver in found]
    return [
        (label, label.replace("gsm ", "GSM, "), _CYCLE[index % len(_CYCLE)])
        for index, label in enumerate(labels)
    ]


def _floor(table: Table, target: str, study: Study, axes: Axes) -> float:
    best = table.curves(target, "best", study.metric)
    return best[0].last if axes.below and best else 0.0


def _runs(place: Any, curves: Sequence[Curve], colour: str, axes: Axes, floor: float) -> Any:
    """Draw the runs of a line and their mean; returns what stands for it in the legend."""
    for curve in curves:
        where = curve.seconds if axes.by == "seconds" else curve.gradients
        place.plot(where, _shown(curve.values - floor, axes), color=colour, alpha=0.22, lw=0.8)
    where, mean = mean_curve(curves, axes.by)
    (line,) = place.plot(where, _shown(mean - floor, axes), color=colour, lw=1.8)
    return line


def mean_curve(curves: Sequence[Curve], by: str = "gradients") -> tuple[Array, Array]:
    """Return the mean of runs, from where all have begun to where the first one ends.

    Checkpoints need not be the same in all runs; each counts with the last value it has had.
    """
    places = [curve.seconds if by == "seconds" else curve.gradients for curve in curves]
    first, last = max(one[0] for one in places), min(one[-1] for one in places)
    grid = np.unique(np.concatenate(places))
    grid = grid[(grid >= first) & (grid <= last)]
    held = [
        curve.values[np.searchsorted(place, grid, side="right") - 1]
        for curve, place in zip(curves, places, strict=True)
    ]
    return grid, np.mean(held, axis=0)


def _shown(values: Array, axes: Axes) -> Array:
    values = np.where(np.isfinite(values), values, np.nan)
    values = np.where(values > _OFF_THE_PAGE, np.nan, values)
    return np.maximum(values, axes.lowest) if axes.lowest else values


def new_figure(width: float, height: float) -> Any:
    """Return a figure that belongs to no window."""
    require("matplotlib")
    from matplotlib.figure import Figure

    return Figure(figsize=(width, height), layout="constrained")


def save(figure: Any, folder: Path, name: str) -> None:
    """Save a figure as PNG and SVG, the same bytes for the same figure."""
    import matplotlib as mpl

    folder.mkdir(parents=True, exist_ok=True)
    figure.savefig(folder / f"{name}.png", dpi=_DPI)
    with mpl.rc_context({"svg.hashsalt": name}):
        figure.savefig(folder / f"{name}.svg", metadata={"Date": None})


def tidy(place: Any) -> None:
    """Give a panel the house's look."""
    place.spines[["top", "right"]].set_visible(False)
    place.tick_params(which="both", labelsize=8)
    place.grid(visible=True, which="major", color="#e6e6e6", lw=0.6)
    place.set_axisbelow(True)
