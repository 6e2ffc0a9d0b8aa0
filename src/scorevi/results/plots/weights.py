"""The tail of the importance weights."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.results.plots.look import FAINT, FIT, INK, REFERENCE, new_figure, tidy
from scorevi.results.shapes import weight_tail
from scorevi.trust.weights import RELIABLE

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_LEAST = 0.03
"""The least weight that is shown: what matters is the other end."""


def draw_weights(axes: Any, fit: Fit) -> None:
    """Draw what share of the fresh draws has at least so large a weight, on logarithmic scales.

    At the posterior itself all weights are 1. A tail that falls off steeply can be averaged over;
    one as flat as the line of k-hat 0.7, or flatter, cannot.

    Parameters
    ----------
    axes
        Where to draw: axes of matplotlib.
    fit
        What to draw, after :meth:`scorevi.Fit.check`.
    """
    if fit.log_ratio is None or not np.isfinite(fit.log_ratio).any():
        raise ValueError(
            "`kind` must not be 'weights' for a fit without them: they come from fit.check(), and "
            "need the log density."
        )
    weights, share = weight_tail(fit.log_ratio)
    low = max(float(weights[-1]), _LEAST)
    axes.axvline(1.0, color=FAINT, linewidth=1, zorder=0)
    start = max(1, math.ceil(min(0.2 * len(weights), 3.0 * math.sqrt(len(weights)))))
    ahead = np.array([weights[start - 1], max(weights[0] * 3.0, weights[start - 1] * 3.0)])
    axes.plot(
        ahead, share[start - 1] * (ahead / ahead[0]) ** (-1.0 / RELIABLE),
        color=REFERENCE, linestyle="--", linewidth=1.3,
        label=f"k-hat {RELIABLE}: flatter cannot be averaged over",
    )  # fmt: skip
    axes.plot(weights, share, ".", color=FIT, markersize=5, label=_told(fit))
    axes.set_xscale("log")
    axes.set_yscale("log")
    axes.set_xlim(low / 1.3, ahead[1] * 1.1)
    axes.set_ylim(0.5 / len(weights), 1.6)
    axes.set_xlabel("importance weight p/q, over its mean", fontsize=11, color=INK)
    axes.set_ylabel("share of draws at or above", fontsize=11, color=INK)
    axes.legend(frameon=False, fontsize=10, loc="lower left")
    tidy(axes)


def plot_weights(fit: Fit, title: str = "") -> Any:
    """Draw the tail of the weights; see :func:`scorevi.plots.draw_weights`."""
    figure = new_figure(6.0, 4.4, title or "the tail of the importance weights")
    draw_weights(figure.subplots(), fit)
    return figure


def _told(fit: Fit) -> str:
    verdict = fit.verdict
    if verdict is None or math.isnan(verdict.khat):
        return "draws"
    return f"draws: k-hat {verdict.khat:.2f}, ESS {verdict.ess:.0%}"
