"""Pictures of what q looks like: marginals with their components, and pairs of parameters.

On the unconstrained scale, where q is a Gaussian or a mixture of them; no draws are needed, and no
model.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.families import Gaussian, LowRank, Mixture
from scorevi.results.fit import Fit
from scorevi.results.plots import ACCENT, INK, MUTED, label, tidy, with_png
from scorevi.results.structure import between

_MOST = 12
_COLUMNS = 4
_POINTS = 240
_REACH = 3.5
"""Standard deviations beyond the outermost component that matters."""
_MATTERS = 1e-3
_LEVELS = (0.9, 0.5, 0.1)
"""What the contours of a pair hold, of all draws."""


def plot_marginals(fit: Fit, parameters: Sequence[str] | None = None) -> Any:
    """Draw marginal densities of q, with those of its components under them.

    Parameters
    ----------
    fit
        What to draw.
    parameters
        Labels, as in ``fit.labels``; the twelve that tell the components most apart if left out.

    Returns
    -------
    matplotlib.figure.Figure
        A figure that belongs to no window.
    """
    require("matplotlib")
    from matplotlib.figure import Figure

    weights, parts = _parts(fit)
    if parameters is None:
        order = np.argsort(-between(fit.q), kind="stable") if isinstance(fit.q, Mixture) else None
        chosen = np.arange(fit.dim) if order is None else order
        numbers = [int(number) for number in chosen[:_MOST]]
    else:
        numbers = [_number(fit, name, "parameters") for name in parameters]
    columns = min(_COLUMNS, len(numbers))
    rows = -(-len(numbers) // columns)
    figure: Any = Figure(figsize=(2.6 * columns, 2.0 * rows + 0.3), layout="constrained")
    grid = figure.subplots(rows, columns, squeeze=False).ravel()
    for axes, number in zip(grid, numbers, strict=False):
        means = np.array([part.mean[number] for part in parts])
        sds = np.array([part.sd[number] for part in parts])
        x = _range(weights, means, sds)
        each = weights[:, None] * _normal(x, means[:, None], sds[:, None])
        if len(parts) > 1:
            axes.plot(x, each.T, color=MUTED, linewidth=0.8)
        axes.plot(x, each.sum(axis=0), color=ACCENT, linewidth=1.8)
        axes.set_title(label(fit.labels[number]), fontsize=9, color=INK)
        axes.set_yticks([])
        axes.set_ylim(bottom=0.0)
        tidy(axes)
    for axes in grid[len(numbers) :]:
        axes.set_visible(False)
    return with_png(figure)


def plot_pair(fit: Fit, x: str, y: str, draws: int = 500, seed: int = 0) -> Any:
    """Draw two parameters of q against each other: contours that hold 10, 50 and 90 %, and draws.

    Parameters
    ----------
    fit
        What to draw.
    x, y
        Labels, as in ``fit.labels``.
    draws, seed
        How many draws are shown, and which.
    """
    require("matplotlib")
    from matplotlib.figure import Figure

    pair = [_number(fit, x, "x"), _number(fit, y, "y")]
    weights, parts = _parts(fit)
    flat = Mixture(weights, [_marginal(part, pair) for part in parts])
    means = np.array([part.mean for part in flat.components])
    sds = np.array([part.sd for part in flat.components])
    grid = [_range(weights, means[:, k], sds[:, k]) for k in (0, 1)]
    places = np.stack(np.meshgrid(*grid), axis=-1)
    height = np.exp(flat.log_density(places.reshape(-1, 2))).reshape(places.shape[:2])
    # The height above which a share of all draws lies.
    levels = np.quantile(
        np.exp(flat.log_density(flat.sample(20_000, seed=0))), 1 - np.array(_LEVELS)
    )
    figure: Any = Figure(figsize=(5.0, 4.2), layout="constrained")
    axes = figure.subplots()
    theta = fit.sample(draws, seed)[:, pair]
    axes.plot(*theta.T, ".", color=MUTED, markersize=3)
    axes.contour(*grid, height, levels=np.unique(levels), colors=ACCENT, linewidths=1.3)
    axes.set_xlim(grid[0][0], grid[0][-1])
    axes.set_ylim(grid[1][0], grid[1][-1])
    axes.set_xlabel(label(x), color=INK)
    axes.set_ylabel(label(y), color=INK)
    tidy(axes)
    return with_png(figure)


def _parts(fit: Fit) -> tuple[Array, tuple[Gaussian | LowRank, ...]]:
    fit.mean  # noqa: B018  (refuses a fit without an update)
    if isinstance(fit.q, Mixture):
        return fit.q.weights, fit.q.components
    return np.ones(1), (fit.q,)


def _number(fit: Fit, name: str, argument: str) -> int:
    if name not in fit.labels:
        known = ", ".join(fit.labels[:8]) + (", ..." if fit.dim > 8 else "")
        raise ValueError(f"`{argument}` must be among fit.labels, {known}; got {name!r}.")
    return fit.labels.index(name)


def _marginal(part: Gaussian | LowRank, pair: list[int]) -> Gaussian:
    units = np.zeros((2, part.dim))
    units[[0, 1], pair] = 1.0
    rows = np.asarray(part.whiten_score(units))  # those of the factor
    return Gaussian.from_moments(part.mean[pair], rows @ rows.T)


def _range(weights: Array, means: Array, sds: Array) -> Array:
    matters = weights >= _MATTERS
    low, high = (means - _REACH * sds)[matters].min(), (means + _REACH * sds)[matters].max()
    return np.linspace(low, high, _POINTS)


def _normal(x: Array, mean: Array, sd: Array) -> Array:
    return np.asarray(np.exp(-0.5 * ((x - mean) / sd) ** 2) / (sd * np.sqrt(2.0 * np.pi)))
