"""Parameters against each other, on the unconstrained scale, where q needs no draws."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.families import Approximation, Gaussian, Mixture
from scorevi.results.plots.look import FIT, INK, PART, REFERENCE, label, new_figure, tidy
from scorevi.results.plots.marginals import draw_marginal
from scorevi.results.plots.reference import Draws, Reference, draws_by_name
from scorevi.results.shapes import components_of, covariance_of, reach_of, telling

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_MOST, _MOST_ASKED = 4, 8
_LEVELS = (0.9, 0.5, 0.1)
"""What the contours of a pair hold, of all draws."""
_FOR_LEVELS = 20_000
_REFERENCE_SHOWN = 500


def draw_pair(
    axes: Any,
    fit: Fit,
    x: str,
    y: str,
    *,
    draws: int = 500,
    seed: int = 0,
    reference: Draws | None = None,
) -> None:
    """Draw two parameters of q against each other: contours that hold 10, 50 and 90 %, and draws.

    Parameters
    ----------
    axes
        Where to draw: axes of matplotlib.
    fit
        What to draw.
    x, y
        Labels, as in ``fit.labels``.
    draws, seed
        How many draws are shown, and which.
    reference
        Draws to compare with, by name, shown in place of those of q.
    """
    pair = [_number(fit, x, "x"), _number(fit, y, "y")]
    weights, parts = components_of(fit.q)
    flat = Mixture(weights, [_marginal(part, pair) for part in parts])
    means = np.array([part.mean for part in flat.components])
    sds = np.array([part.sd for part in flat.components])
    grid = [reach_of(weights, means[:, k], sds[:, k]) for k in (0, 1)]
    places = np.stack(np.meshgrid(*grid), axis=-1)
    height = np.exp(flat.log_density(places.reshape(-1, 2))).reshape(places.shape[:2])
    # The height above which a share of all draws lies.
    levels = np.quantile(
        np.exp(flat.log_density(flat.sample(_FOR_LEVELS, seed=0))), 1 - np.array(_LEVELS)
    )
    if reference is not None and x in reference and y in reference:
        shown = np.stack([reference[name][-_REFERENCE_SHOWN:] for name in (x, y)])
        axes.plot(*shown, ".", color=REFERENCE, markersize=3, alpha=0.6, label="reference")
    else:
        theta = fit.sample(draws, seed)[:, pair]
        axes.plot(*theta.T, ".", color=PART, markersize=3, label="draws")
    axes.contour(*grid, height, levels=np.unique(levels), colors=FIT, linewidths=1.6)
    axes.set_xlim(grid[0][0], grid[0][-1])
    axes.set_ylim(grid[1][0], grid[1][-1])
    axes.set_xlabel(label(x), fontsize=11, color=INK)
    axes.set_ylabel(label(y), fontsize=11, color=INK)
    axes.locator_params(nbins=4)
    tidy(axes)


def plot_pair(fit: Fit, x: str, y: str, draws: int = 500, seed: int = 0) -> Any:
    """Draw two parameters against each other; see :func:`scorevi.plots.draw_pair`."""
    figure = new_figure(5.0, 4.2)
    draw_pair(figure.subplots(), fit, x, y, draws=draws, seed=seed)
    return figure


def plot_pairs(
    fit: Fit,
    parameters: Sequence[str] | None = None,
    *,
    reference: Reference | None = None,
    title: str = "",
) -> Any:
    """Draw up to eight parameters against each other, with their marginals along the diagonal.

    Parameters
    ----------
    fit
        What to draw.
    parameters
        Labels, as in ``fit.labels``; if left out, four that are correlated most, or that tell the
        components of a mixture most apart.
    reference
        Draws to compare with; see :meth:`scorevi.Fit.plot`.
    title
        A heading.
    """
    if parameters is None:
        fit.mean  # noqa: B018  (refuses a fit without an update)
        names = [fit.labels[number] for number in telling(fit.q, _MOST)]
    else:
        names = list(parameters)
        for name in names:
            _number(fit, name, "parameters")
    if not 2 <= len(names) <= _MOST_ASKED:
        raise ValueError(f"`parameters` must be 2 to {_MOST_ASKED} names; got {len(names)}.")
    if isinstance(reference, Mapping) and fit.constrained:
        raise ValueError(
            f"`reference` must be an array (n, {fit.dim}) on the unconstrained scale for pairs, "
            "which are drawn there; got a dict."
        )
    drawn = draws_by_name(fit, reference)
    count = len(names)
    heading = title or ("on the unconstrained scale" if fit.constrained else "")
    figure = new_figure(2.3 * count + 0.8, 2.1 * count + 0.6, heading)
    grid = figure.subplots(count, count, squeeze=False, sharex="col")
    for row, y in enumerate(names):
        for column, x in enumerate(names):
            axes = grid[row][column]
            if column > row:
                axes.set_visible(False)
            elif column == row:
                # A name may be that of something else on the model's scale.
                draw_marginal(axes, fit, x, drawn, scale="unconstrained")
            else:
                draw_pair(axes, fit, x, y, reference=drawn)
                if column:
                    axes.set_ylabel("")
                    axes.tick_params(labelleft=False)
                if row < count - 1:
                    axes.set_xlabel("")
    grid[-1][-1].set_xlabel(label(names[-1]), fontsize=11, color=INK)
    return figure


def _number(fit: Fit, name: str, argument: str) -> int:
    fit.mean  # noqa: B018  (refuses a fit without an update)
    if name not in fit.labels:
        known = ", ".join(fit.labels[:8]) + (", ..." if fit.dim > 8 else "")
        raise ValueError(f"`{argument}` must be among fit.labels, {known}; got {name!r}.")
    return fit.labels.index(name)


def _marginal(part: Approximation, pair: list[int]) -> Gaussian:
    return Gaussian.from_moments(part.mean[pair], covariance_of(part, np.array(pair)))
