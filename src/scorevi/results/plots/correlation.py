"""Correlations as a heat map, with what goes together side by side."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.results.plots.look import FAINT, INK, label, new_figure
from scorevi.results.shapes import correlations, strongest

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_MOST, _NAMED, _FIGURES = 500, 40, 12
"""The most parameters that are drawn, that are named, and that have their numbers written in."""


def draw_correlation(axes: Any, fit: Fit, parameters: Sequence[str] | None = None) -> Any:
    """Draw the correlations of q, on the unconstrained scale; returns the image.

    Parameters
    ----------
    axes
        Where to draw: axes of matplotlib.
    fit
        What to draw.
    parameters
        Labels, as in ``fit.labels``; all if left out, or the 500 that are correlated most.
    """
    fit.mean  # noqa: B018  (refuses a fit without an update)
    if parameters is None:
        chosen = strongest(fit.q, _MOST)
    else:
        unknown = [name for name in parameters if name not in fit.labels]
        if unknown:
            raise ValueError(f"`parameters` must be among fit.labels; got {unknown[0]!r}.")
        chosen = np.array([fit.labels.index(name) for name in parameters], dtype=np.intp)
    numbers, matrix = correlations(fit.q, chosen)
    shown = np.where(np.eye(len(numbers), dtype=bool), np.nan, matrix)
    axes.set_facecolor(FAINT)
    image = axes.imshow(shown, cmap="RdBu_r", vmin=-1.0, vmax=1.0, interpolation="nearest")
    count = len(numbers)
    if count <= _NAMED:
        names = [label(fit.labels[number]) for number in numbers]
        axes.set_xticks(np.arange(count), names, rotation=90, fontsize=9, color=INK)
        axes.set_yticks(np.arange(count), names, fontsize=9, color=INK)
    else:
        axes.set_xticks([])
        axes.set_yticks([])
        axes.set_xlabel(_counted(count, fit.dim), fontsize=11, color=INK)
    if count <= _FIGURES:
        for i, j in np.ndindex(count, count):
            if i != j:
                colour = "white" if abs(matrix[i, j]) > 0.6 else INK
                figure = f"{matrix[i, j]:.2f}".replace("-0.00", "0.00")
                axes.text(j, i, figure, ha="center", va="center", color=colour, fontsize=8)
    axes.spines[:].set_visible(False)
    axes.tick_params(length=0)
    return image


def plot_correlation(fit: Fit, parameters: Sequence[str] | None = None, title: str = "") -> Any:
    """Draw the correlations of q; see :func:`scorevi.plots.draw_correlation`."""
    count = min(fit.dim, _MOST) if parameters is None else len(parameters)
    side = min(9.0, max(4.0, 0.24 * min(count, _NAMED) + 2.0))
    figure = new_figure(side + 1.0, side, title or "correlations, what goes together side by side")
    axes = figure.subplots()
    image = draw_correlation(axes, fit, parameters)
    figure.colorbar(image, ax=axes, shrink=0.7, ticks=[-1, -0.5, 0, 0.5, 1])
    return figure


def _counted(count: int, dim: int) -> str:
    if count < dim:
        return f"the {count} of {dim} parameters that are correlated most"
    return f"{count} parameters"
