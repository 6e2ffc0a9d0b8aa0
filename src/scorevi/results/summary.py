"""The table of parameters: mean, sd and 90 % interval of each number that has a name."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np
import scipy.special

from scorevi.base.arrays import Array
from scorevi.base.labels import labels_of
from scorevi.base.variables import Variables
from scorevi.families import Family, Mixture
from scorevi.results.parts import Summary
from scorevi.results.target_of import target_of

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_DRAWS = 10_000
_ENTRIES = 20_000_000
_INTERVAL = (0.05, 0.95)
_LONG = 20
"""Derived variables with more entries come last."""


def summary_of(fit: Fit) -> tuple[Summary, ...]:
    """Return the table of a fit; see :attr:`scorevi.Fit.summary`."""
    fit.mean  # noqa: B018  (refuses a fit without an update)
    if not fit.constrained:
        return exact_table(fit.labels, fit.q)
    first = "The summary could not be computed when the fit was saved"
    target_of(fit, "and needs its model", first=first)
    return _sampled_table(fit)


def exact_table(labels: Sequence[str], q: Family) -> tuple[Summary, ...]:
    """Return the table of unconstrained parameters."""
    if isinstance(q, Mixture):
        low, high = q.quantile(_INTERVAL)
    else:
        low, high = (q.mean + level * q.sd for level in scipy.special.ndtri(_INTERVAL))
    columns = (map(float, column) for column in (q.mean, q.sd, low, high))
    return tuple(Summary(*row) for row in zip(labels, *columns, strict=True))


def _sampled_table(fit: Fit) -> tuple[Summary, ...]:
    """Return the table of constrained variables, from draws of a fixed seed."""
    assert fit.target is not None
    variables = fit.target.variables
    one = fit.named(fit.mean[None])
    first = fit.named(fit.mean[None], "parameters")
    order = in_order(one, first)
    entries = sum(value.size for value in one.values())
    size = min(_DRAWS, max(500, _ENTRIES // max(entries, 1)))
    return table_of(variables, order, fit.draws(size, seed=0))


def table_of(
    variables: Variables, order: Sequence[str], draws: Mapping[str, Array]
) -> tuple[Summary, ...]:
    """Return the table of draws by name, in the given order."""
    rows = []
    for name in order:
        values = draws[name]
        flat = values.reshape(len(values), -1)
        lower, upper = np.quantile(flat, _INTERVAL, axis=0)
        columns = (flat.mean(axis=0), flat.std(axis=0), lower, upper)
        texts = labels_of(variables, name, values.shape[1:])
        for label, *row in zip(texts, *columns, strict=True):
            rows.append(Summary(label, *map(float, row)))
    return tuple(rows)


def in_order(draws: Mapping[str, Array], parameters: Collection[str]) -> list[str]:
    """Return the names of variables, parameters first, long ones that are derived last."""

    def place(name: str) -> int:
        derived = name not in parameters
        return derived + (derived and draws[name][0].size > _LONG)

    return sorted(draws, key=place)
