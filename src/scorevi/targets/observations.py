"""Data that no parameters can explain: NaN, and what lies outside its support.

A front end warns of them when the target is made, where it can tell. When a fit ends because its
scores are bad, the log likelihoods of single observations tell which of them are never finite.
"""

from __future__ import annotations

import warnings
from collections.abc import Mapping
from typing import Any

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.base.labels import labels_of
from scorevi.base.status import FitWarning
from scorevi.base.target import Target
from scorevi.base.variables import Variables

_POINTS = 8
"""Points at which log likelihoods are computed, near zero and farther out, as many each."""
_SHOWN = 3
"""Observations that a message names."""


def warn_of_nan(data: Mapping[str, Any], argument: str, user: str, stacklevel: int) -> bool:
    """Say which data hold NaN: it may be meant, but seldom is. Returns whether any do.

    Parameters
    ----------
    data
        By name; what is not made of real numbers is passed over.
    argument
        The argument that the data came with.
    user
        What uses them: the program, the model.
    stacklevel
        As in ``warnings.warn``, for the caller of this.
    """
    found = False
    for name, value in data.items():
        where = _places_of_nan(value)
        if where:
            warnings.warn(
                f"`{argument}`: {name!r} holds NaN{where}. Where the {user} uses it, scores are "
                "NaN.",
                FitWarning,
                stacklevel=stacklevel + 1,
            )
            found = True
    return found


def warn_of_support(name: str, value: Array, inside: Mask, support: str, stacklevel: int) -> None:
    """Say where an observed variable has values that its distribution cannot have.

    ``inside`` may have fewer axes than ``value``, whose last ones then belong together.
    """
    bad = np.argwhere(~inside)
    if len(bad):
        where = f" at {bad[0].tolist()}" if bad.shape[1] else ""
        warnings.warn(
            f"`model`: {name!r} is observed outside its support, {support}: "
            f"{_text(value[tuple(bad[0])])}{where}{_more(len(bad) - 1)}. No parameters can explain "
            "that. Correct the data, or choose a distribution that has such values.",
            FitWarning,
            stacklevel=stacklevel + 1,
        )


def blame(target: Target, *, evaluate: bool = True) -> str:
    """Say which data make the scores bad, and what to do; empty where it cannot be told.

    Parameters
    ----------
    target
        What was fitted.
    evaluate
        Whether log likelihoods may be computed, or only what is known already be looked at.
    """
    variables = target.variables
    found = _never_finite(variables, target.dim) if evaluate else []
    if not found:
        places = ((name, _places_of_nan(value)) for name, value in variables.observed.items())
        found = [f"the data {name!r} hold NaN{where}" for name, where in places if where]
    if not found:
        return ""
    return (
        f"Look at the data: {'; '.join(found)}. Correct them or leave them out, or choose a "
        "distribution that has such values."
    )


def _never_finite(variables: Variables, dim: int) -> list[str]:
    """Name the observations whose log likelihood is finite at none of a few points."""
    rng = np.random.default_rng(0)
    near, far = rng.uniform(-0.5, 0.5, (_POINTS, dim)), rng.uniform(-2, 2, (_POINTS, dim))
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            pointwise = variables.pointwise(np.concatenate([near, far]))
    except ValueError:
        return []
    found = []
    for name, values in pointwise.items():
        bad = np.argwhere(~np.isfinite(values).any(axis=0))
        if not len(bad):
            continue
        shape = values.shape[1:]
        what = "-inf" if np.isneginf(values[:, *bad[0]]).all() else "not finite"
        if len(bad) == np.prod(shape) and len(bad) > 1:
            found.append(
                f"the log likelihood of all {len(bad)} observations of {name} is {what} at every "
                "point tried"
            )
            continue
        names = labels_of(variables, name, shape)
        places = np.arange(values[0].size).reshape(shape)
        told = ", ".join(names[places[tuple(index)]] for index in bad[:_SHOWN])
        found.append(
            f"the log likelihood of {told}{_more(len(bad) - _SHOWN)} is {what} at every point "
            f"tried{_value(variables, name, shape, tuple(bad[0]))}"
        )
    return found


def _value(variables: Variables, name: str, shape: tuple[int, ...], index: tuple[int, ...]) -> str:
    """Say what the first of the observations is, where the data are known."""
    data = np.asarray(variables.observed.get(name, np.nan))
    if name not in variables.observed or data.shape[: len(shape)] != shape:
        return ""
    which = "the value of the first" if shape and np.prod(shape) > 1 else "its value"
    return f"; {which} is {_text(data[index])}"


def _places_of_nan(value: Any) -> str:
    """Return where an array holds NaN, as `` at [3] and 2 more``; empty where it does not."""
    try:
        bad = np.argwhere(np.isnan(np.asarray(value, dtype=np.float64)))
    except (TypeError, ValueError):  # complex numbers, tuples, texts
        return ""
    if not len(bad):
        return ""
    # Something at least, because one number has no place.
    return f"{f' at {bad[0].tolist()}' if bad.shape[1] else ' as its value'}{_more(len(bad) - 1)}"


def _more(count: int) -> str:
    return f" and {count} more" if count > 0 else ""


def _text(value: Any) -> str:
    return np.array2string(np.asarray(value), threshold=6, separator=", ").replace("\n", "")
