"""Pictures of a fit, each a function of axes. No numerics; matplotlib comes with scorevi[plots]."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, TypeAlias, get_args

from scorevi.results.plots.correlation import draw_correlation, plot_correlation
from scorevi.results.plots.course import draw_course, draw_intervals, plot_course, plot_fit
from scorevi.results.plots.look import save_figure
from scorevi.results.plots.marginals import draw_marginal, plot_marginals
from scorevi.results.plots.pairs import draw_pair, plot_pair, plot_pairs
from scorevi.results.plots.reference import Reference, draws_by_name
from scorevi.results.plots.weights import draw_weights, plot_weights

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

__all__ = [
    "Kind",
    "Reference",
    "draw_correlation",
    "draw_course",
    "draw_intervals",
    "draw_marginal",
    "draw_pair",
    "draw_weights",
    "draws_by_name",
    "plot",
    "plot_correlation",
    "plot_course",
    "plot_fit",
    "plot_marginals",
    "plot_pair",
    "plot_pairs",
    "plot_weights",
    "save_figure",
    "save_picture",
]

Kind: TypeAlias = Literal["overview", "marginals", "pairs", "course", "correlation", "weights"]
KINDS: tuple[str, ...] = get_args(Kind)
_OF_PARAMETERS = ("marginals", "pairs", "correlation")
_WITH_REFERENCE = ("marginals", "pairs")


def plot(
    fit: Fit,
    kind: Kind = "overview",
    parameters: Sequence[str] | None = None,
    *,
    reference: Reference | None = None,
    title: str = "",
) -> Any:
    """Draw a fit; see :meth:`scorevi.Fit.plot`."""
    if kind not in KINDS:
        raise ValueError(f"`kind` must be one of {', '.join(KINDS)}; got {kind!r}.")
    if isinstance(parameters, str):
        raise ValueError(f"`parameters` must be a list of names; got {parameters!r}.")
    if parameters is not None and kind not in _OF_PARAMETERS:
        raise ValueError(
            f"`parameters` must be left out, or `kind` be one of {', '.join(_OF_PARAMETERS)}; got "
            f"{kind!r}."
        )
    if reference is not None and kind not in _WITH_REFERENCE:
        raise ValueError(
            f"`reference` must be left out, or `kind` be one of {', '.join(_WITH_REFERENCE)}; got "
            f"{kind!r}."
        )
    if kind == "marginals":
        return plot_marginals(fit, parameters, reference=reference, title=title)
    if kind == "pairs":
        return plot_pairs(fit, parameters, reference=reference, title=title)
    if kind == "correlation":
        return plot_correlation(fit, parameters, title)
    alone: dict[str, Callable[[Fit, str], Any]] = {
        "overview": plot_fit,
        "course": plot_course,
        "weights": plot_weights,
    }
    return alone[kind](fit, title)


def save_picture(fit: Fit, path: str | Path, title: str = "") -> None:
    """Save :func:`plot_fit` to a file, whose ending says the format."""
    save_figure(plot_fit(fit, title), path)
