"""Marginal densities: the fitted one, its components, and reference draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

import numpy as np

from scorevi.families import Mixture
from scorevi.results.plots.look import FIT, INK, PART, REFERENCE, label, new_figure, tidy
from scorevi.results.plots.reference import Draws, Reference, draws_by_name
from scorevi.results.shapes import Curve, exact_curve, sampled_curve, telling

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

Scale: TypeAlias = Literal["model", "unconstrained"]
_MOST, _COLUMNS, _BINS = 12, 4, 40
_KNOWN = 8
"""Names that a message lists."""


def draw_marginal(
    axes: Any,
    fit: Fit,
    name: str,
    reference: Draws | None = None,
    *,
    scale: Scale = "model",
) -> None:
    """Draw the density of one number.

    Parameters
    ----------
    axes
        Where to draw: axes of matplotlib.
    fit
        What to draw.
    name
        As in ``fit.summary``, on the model's own scale; or as in ``fit.labels``, on the
        unconstrained one, where the components of a mixture are drawn too.
    reference
        Draws to compare with, by name, as :func:`scorevi.plots.draws_by_name` makes them.
    scale
        Which of the two is meant by a name that is in both.
    """
    curve = curve_of(fit, name, scale)
    if len(curve.parts):
        axes.plot(curve.x, curve.parts.T, color=PART, linewidth=1)
        axes.lines[0].set_label("components")
    else:
        axes.fill_between(curve.x, curve.density, color=PART, alpha=0.35, linewidth=0)
    axes.plot(curve.x, curve.density, color=FIT, linewidth=2, label="fit")
    drawn = None if reference is None else reference.get(name)
    if drawn is not None:
        low, high = np.quantile(drawn, [0.002, 0.998])
        axes.hist(
            drawn, _BINS, range=(low, high), density=True, histtype="step", color=REFERENCE,
            linewidth=1.3, linestyle="--", label="reference",
        )  # fmt: skip
    axes.set_title(label(name), fontsize=11, color=INK)
    axes.set_yticks([])
    axes.set_ylim(bottom=0.0)
    tidy(axes)
    axes.spines["left"].set_visible(False)
    axes.locator_params(axis="x", nbins=4)


def plot_marginals(
    fit: Fit,
    parameters: Sequence[str] | None = None,
    *,
    reference: Reference | None = None,
    title: str = "",
) -> Any:
    """Draw marginal densities, with those of the components of a mixture under them.

    Parameters
    ----------
    fit
        What to draw.
    parameters
        Names as in ``fit.summary``, on the model's own scale, or as in ``fit.labels``, on the
        unconstrained one. If left out: the first twelve of the table, or of a mixture the twelve
        that tell its components most apart, on the unconstrained scale.
    reference
        Draws to compare with; see :meth:`scorevi.Fit.plot`.
    title
        A heading.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that belongs to no window.
    """
    # Components are on the unconstrained scale, and so is an array of draws; a dict is not.
    as_fitted = isinstance(fit.q, Mixture) and parameters is None
    if reference is not None:
        as_fitted = not isinstance(reference, Mapping)
    scale: Scale = "unconstrained" if as_fitted else "model"
    names = _chosen(fit, scale) if parameters is None else list(parameters)
    if not names:
        raise ValueError("`parameters` must name at least one; got none.")
    title = title or ("on the unconstrained scale" if as_fitted and fit.constrained else "")
    drawn = draws_by_name(fit, reference)
    rows = -(-len(names) // _COLUMNS)
    columns = -(-len(names) // rows)
    figure = new_figure(2.6 * max(columns, 2), 2.1 * rows + 0.4, title)
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, name in zip(grid, names, strict=False):
        draw_marginal(axes, fit, name, drawn, scale=scale)
    for axes in grid[len(names) :]:
        axes.set_visible(False)
    if len(grid[0].get_legend_handles_labels()[0]) > 1:
        handles, texts = grid[0].get_legend_handles_labels()
        figure.legend(handles, texts, loc="outside lower center", ncols=3, frameon=False)
    return figure


def curve_of(fit: Fit, name: str, scale: Scale = "model") -> Curve:
    """Return the density of what has a name, on the model's scale if it has one there."""
    number = _number(fit, name)
    if number is not None and (not fit.constrained or scale == "unconstrained"):
        return exact_curve(fit.q, number)
    places = [place for place, row in enumerate(fit.summary) if row.name == name]
    if places and len(fit.summary.quantiles):
        return sampled_curve(fit.summary.quantiles[places[0]])
    if number is None:
        texts = [row.name for row in fit.summary]
        known = ", ".join(texts[:_KNOWN]) + (", ..." if len(texts) > _KNOWN else "")
        raise ValueError(
            f"`parameters` must be names in fit.summary, {known}, or in fit.labels; got {name!r}."
        )
    return exact_curve(fit.q, number)


def _number(fit: Fit, name: str) -> int | None:
    """Return which entry of theta has a label."""
    fit.mean  # noqa: B018  (refuses a fit without an update)
    return fit.labels.index(name) if name in fit.labels else None


def _chosen(fit: Fit, scale: Scale) -> list[str]:
    fit.mean  # noqa: B018
    if scale == "unconstrained":
        return [fit.labels[number] for number in telling(fit.q, _MOST)]
    return [row.name for row in fit.summary[:_MOST]]
