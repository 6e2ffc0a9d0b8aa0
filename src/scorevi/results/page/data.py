"""What the scripts of the page are given: tables and curves, as plain numbers and texts."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Mixture
from scorevi.results.saving import known_summary
from scorevi.results.shapes import (
    SCORES,
    components_of,
    correlations,
    exact_curve,
    running_median,
    strongest,
    survey,
    telling,
    weight_tail,
)
from scorevi.results.table import HEADINGS, LEVELS, cells

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_DIGITS = 5
_MOST_UPDATES = 800
_MOST_IN_MAP, _MOST_PAIRS = 60, 200
_MOST_TELLING = 4
_MOST_DENSITIES = 10_000
"""Rows of the table of which the density can be drawn."""
_MOST_MODES = 100_000
"""Numbers of components that are told, so that the curves of each can be drawn."""


def data_of(fit: Fit) -> dict[str, Any]:
    """Return all that is drawn and sorted in the browser; what is not known is null."""
    fitted = bool(fit.num_updates)
    table = known_summary(fit)
    return {
        "headings": list(HEADINGS),
        "levels": list(LEVELS),
        "scores": numbers(SCORES),
        "sampled": fit.constrained,
        "rows": [[row.name, *map(number, cells(row))] for row in table],
        "quantiles": [numbers(row) for row in table.quantiles[:_MOST_DENSITIES]],
        "components": _components(fit) if fitted and not fit.constrained else None,
        "telling": _telling(fit) if fitted else None,
        "course": _course(fit),
        "correlation": _correlation(fit) if fitted else None,
        "weights": _weights(fit),
    }


def number(value: float | None) -> float | None:
    """Return a number with as many digits as anyone reads; null where it is none."""
    if value is None or not math.isfinite(value):
        return None
    return float(f"{value:.{_DIGITS}g}")


def numbers(values: Iterable[float]) -> list[float | None]:
    """Return many."""
    return [number(float(value)) for value in values]


def _components(fit: Fit) -> dict[str, Any] | None:
    weights, parts = components_of(fit.q)
    is_mixture = isinstance(fit.q, Mixture) and len(parts) > 1
    if not is_mixture or len(parts) * fit.dim > _MOST_MODES:
        return None
    return {
        "weights": numbers(weights),
        "means": [numbers(part.mean) for part in parts],
        "sds": [numbers(part.sd) for part in parts],
    }


def _telling(fit: Fit) -> list[dict[str, Any]] | None:
    """Return the curves of those parameters that tell the components of a mixture most apart."""
    if not isinstance(fit.q, Mixture) or len(fit.q.components) == 1:
        return None
    found = []
    for place in telling(fit.q, _MOST_TELLING):
        x, density, parts = (values[..., ::2] for values in exact_curve(fit.q, int(place)))
        found.append(
            {
                "name": fit.labels[place],
                "x": numbers(x),
                "density": numbers(density),
                "parts": [numbers(part) for part in parts],
            }
        )
    return found


def _course(fit: Fit) -> dict[str, Any]:
    trace = fit.trace
    count = len(trace.fisher)
    thin = np.unique(np.linspace(0, count - 1, min(count, _MOST_UPDATES)).astype(int))
    course: dict[str, Any] = {
        "gradients": trace.num_gradients[thin].tolist(),
        "seconds": numbers(trace.seconds[thin]),
        "elbo": numbers(trace.elbo[thin]),
        "fisher": numbers(trace.fisher[thin]),
        "updates": (thin + 1).tolist(),
        "end": fit.num_gradients,
        "status": str(fit.status),
    }
    for name, values in (("elbo", trace.elbo), ("fisher", trace.fisher)):
        place, middle = running_median(trace.num_gradients, values)
        course[f"{name}_median"] = [numbers(pair) for pair in zip(place, middle, strict=True)]
    return course


def _correlation(fit: Fit) -> dict[str, Any] | None:
    if fit.dim < 2:
        return None
    found = survey(fit.q, _MOST_PAIRS)
    order, matrix = correlations(fit.q, strongest(fit.q, _MOST_IN_MAP, found.largest))
    return {
        "names": [fit.labels[k] for k in order],
        "matrix": [_rounded(row) for row in matrix],
        "pairs": [[fit.labels[i], fit.labels[j], round(r, 3)] for i, j, r in found.pairs],
        "dim": fit.dim,
    }


def _rounded(row: Array) -> list[float]:
    return [round(float(value), 3) for value in row]


def _weights(fit: Fit) -> dict[str, Any] | None:
    if fit.log_ratio is None or not np.isfinite(fit.log_ratio).any():
        return None
    weights, share = weight_tail(fit.log_ratio)
    khat = None if fit.verdict is None else number(fit.verdict.khat)
    return {"weights": numbers(weights), "share": numbers(share), "khat": khat}
