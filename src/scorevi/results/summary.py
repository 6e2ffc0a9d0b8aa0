"""The table of parameters: moments, quantiles and errors of each number that has a name."""

from __future__ import annotations

import math
from collections.abc import Callable, Collection, Mapping, Sequence
from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from scorevi.base.arrays import Array
from scorevi.base.labels import labels_of
from scorevi.base.newton import steps
from scorevi.base.variables import Variables
from scorevi.families import Approximation, Gaussian, LowRank
from scorevi.results.parts import Summary
from scorevi.results.table import LEVELS, SummaryTable
from scorevi.results.target_of import target_of
from scorevi.trust.error_bars import error_bars
from scorevi.trust.fresh_draws import Fresh

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_DRAWS = 10_000
_ENTRIES = 20_000_000
_LONG = 20
"""Derived variables with more entries come last."""
_SHOWN = [LEVELS.index(level) for level in (0.05, 0.95, 0.25, 0.5, 0.75)]
"""Where the quantiles of a row are among those that are kept, in the order of the row."""
_MOST_WORK = 30_000_000_000
"""Multiplications for errors on the model's own scale; where it takes more, they are not had."""
_FEWEST = 2
_AT_ONCE = 2000


def summary_of(fit: Fit) -> SummaryTable:
    """Return the table of a fit; see :attr:`scorevi.Fit.summary`."""
    fit.mean  # noqa: B018  (refuses a fit without an update)
    if not fit.constrained:
        return exact_table(fit.labels, fit.q, _own_draws(fit))
    first = "The summary could not be computed when the fit was saved"
    target_of(fit, "and needs its model", first=first)
    return _sampled_table(fit)


def exact_table(
    labels: Sequence[str], q: Approximation, fresh: Fresh | None = None
) -> SummaryTable:
    """Return the table of unconstrained parameters."""
    if isinstance(q, (Gaussian, LowRank)):
        quantiles = q.mean[:, None] + q.sd[:, None] * scipy.special.ndtri(LEVELS)
    else:
        quantiles = q.quantile(LEVELS).T
    errors = None if fresh is None else error_bars(q, fresh).mean
    return SummaryTable(_rows(labels, q.mean, q.sd, quantiles, errors), quantiles)


def _rows(
    labels: Sequence[str], mean: Array, sd: Array, quantiles: Array, errors: Array | None
) -> list[Summary]:
    columns = [column.tolist() for column in (mean, sd, *quantiles.T[_SHOWN])]
    told = [None] * len(labels) if errors is None else errors.tolist()
    told = [error if error is not None and math.isfinite(error) else None for error in told]
    return [Summary(*row) for row in zip(labels, *columns, told, strict=True)]


def _sampled_table(fit: Fit) -> SummaryTable:
    """Return the table of constrained variables, from draws of a fixed seed."""
    assert fit.target is not None
    variables = fit.target.variables
    one = fit.named(fit.mean[None])
    first = fit.named(fit.mean[None], "parameters")
    order = in_order(one, first)
    entries = sum(value.size for value in one.values())
    size = min(_DRAWS, max(500, _ENTRIES // max(entries, 1)))
    theta = fit.sample(size, 0)
    return table_of(
        variables, order, fit.named(theta, seed=0), lambda flat: _errors(fit, theta, flat)
    )


def table_of(
    variables: Variables,
    order: Sequence[str],
    draws: Mapping[str, Array],
    errors_of: Callable[[Array], Array | None] = lambda _: None,
) -> SummaryTable:
    """Return the table of draws by name, in the given order.

    ``errors_of`` says how far the means of draws (n, P) may be off, where that is known.
    """
    rows: list[Summary] = []
    quantiles = [np.empty((0, len(LEVELS)))]
    for name in order:
        values = draws[name]
        flat = values.reshape(len(values), -1).astype(np.float64)
        levels = np.quantile(flat, LEVELS, axis=0).T
        texts = labels_of(variables, name, values.shape[1:])
        rows += _rows(texts, flat.mean(axis=0), flat.std(axis=0), levels, errors_of(flat))
        quantiles.append(levels)
    return SummaryTable(rows, np.concatenate(quantiles))


def in_order(draws: Mapping[str, Array], parameters: Collection[str]) -> list[str]:
    """Return the names of variables, parameters first, long ones that are derived last."""

    def place(name: str) -> int:
        derived = name not in parameters
        return derived + (derived and draws[name][0].size > _LONG)

    return sorted(draws, key=place)


def _own_draws(fit: Fit) -> Fresh | None:
    """Return the draws of the last check, if they tell and are of this q, not of one before."""
    fresh = fit.fresh
    if fresh is None or fresh.good.sum() < _FEWEST:
        return None
    same = np.allclose(fit.q.log_density(fresh.theta[:1]), fresh.log_q[:1], rtol=1e-9)
    return fresh if same else None


def _images(loadings: Array, rows: Array) -> Array:
    return np.asarray(rows @ loadings.T)


def _errors(fit: Fit, theta: Array, values: Array) -> Array | None:
    """Return the errors of the means of functions of theta, from their draws (n, P).

    What q's mean is off by moves the mean of a function f by its covariance with z, the whitened
    coordinates, to first order; so that covariance takes the place of q's factor.
    """
    fresh = _own_draws(fit)
    if fresh is None or values.size * fit.dim > _MOST_WORK:
        return None
    white = fit.q.coordinates
    points = fresh.theta[fresh.good]
    at, mismatch = white.whiten(points), fit.q.mismatch(points, fresh.score[fresh.good])
    z = np.asarray(white.whiten(theta))
    errors = np.full(values.shape[1], np.nan)
    for start in range(0, values.shape[1], _AT_ONCE):
        part = values[:, start : start + _AT_ONCE]
        sd = part.std(axis=0)
        with np.errstate(all="ignore"):
            loadings = (part - part.mean(axis=0)).T @ z / (len(z) * sd[:, None])
            loadings = np.where(np.isfinite(loadings), loadings, 0.0)
            images = partial(_images, loadings)
            found = steps(images(mismatch), images(at), at, mismatch, images, normal=white is fit.q)
        # Of the fit, and of the draws that the table is made from.
        square = np.maximum(found.mean**2, found.mean_error**2) + 1.0 / len(z)
        errors[start : start + _AT_ONCE] = sd * np.sqrt(square)
    return errors
