"""One label per number: by the axes' coords, and for theta by the variable that it moves."""

from __future__ import annotations

import itertools
import warnings

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array
from scorevi.base.target import Parameter, Target, labels
from scorevi.base.variables import Variables

_ROWS = 64
"""Points that are looked at together."""
_MOST_ENTRIES = 100_000_000
"""Numbers to compute at most, for all points together, to find out what moves what."""
_STEP = 0.1
_MOVED = 1e-9
"""Relative to the size of the variable; what is less is rounding."""


def labels_of(variables: Variables, name: str, shape: tuple[int, ...]) -> list[str]:
    """Return one label per entry of a variable, by coords along the axes that have them.

    Where two entries would have the same label, as coords that repeat themselves give, all have
    their indices instead.

    Examples
    --------
    >>> variables = Variables(dims={"z": ["side", "t"]}, coords={"side": ["north", "south"]})
    >>> labels_of(variables, "z", (2, 2))
    ['z[north,0]', 'z[north,1]', 'z[south,0]', 'z[south,1]']
    """
    axes = variables.dims.get(name, ())
    if len(axes) != len(shape) or not any(axis in variables.coords for axis in axes):
        return labels(name, shape)
    texts = []
    for axis, length in zip(axes, shape, strict=True):
        known = [str(label) for label in variables.coords.get(axis, ())]
        texts.append(known if len(known) == length else [str(index) for index in range(length)])
    found = [f"{name}[{','.join(entry)}]" for entry in itertools.product(*texts)]
    return found if len(set(found)) == len(found) else labels(name, shape)


def theta_labels(target: Target) -> tuple[str, ...]:
    """Return one label per entry of theta: the one that the tables have for what it moves.

    The unconstrained form of a variable may be in another order, or of another shape. So each of
    its entries is moved a little; it is called after the first entry of the variable that moves
    with it and is not taken yet. Of square matrices with fewer degrees of freedom than entries,
    those of the lower triangle are meant.
    """
    variables = target.variables
    base = np.random.default_rng(0).uniform(-1, 1, target.dim)
    values = _constrained(variables, base[None]) or {}
    found: list[str] = []
    for parameter in target.parameters:
        name, shape = parameter
        own = labels_of(variables, name, shape)
        value = values.get(name)
        if value is not None and value.shape[1:] != shape:
            moved = _named_by_moving(variables, parameter, base, len(found), value[0])
            own = moved or labels(name, shape)
        found += own
    return tuple(found)


def _named_by_moving(
    variables: Variables, parameter: Parameter, base: Array, start: int, value: Array
) -> list[str]:
    """Name the entries of one parameter, from ``start`` on in theta; empty where it cannot be."""
    if parameter.size * (len(base) + value.size) > _MOST_ENTRIES:
        return []
    candidates = _candidates(value.shape, parameter.size)
    scale = _MOVED * max(1.0, float(np.abs(value).max(initial=0.0)))
    taken = np.zeros(value.size, dtype=bool)
    order = []
    for first in range(0, parameter.size, _ROWS):
        count = min(_ROWS, parameter.size - first)
        rows = np.tile(base, (count, 1))
        rows[np.arange(count), start + first + np.arange(count)] += _STEP
        changed = (_constrained(variables, rows) or {}).get(parameter.name)
        if changed is None or changed.shape[1:] != value.shape:
            return []
        moved = np.abs(changed - value).reshape(count, -1) > scale
        for row in moved:
            free = candidates[row[candidates] & ~taken[candidates]]
            if not len(free):
                return []
            order.append(free[0])
            taken[free[0]] = True
    names = labels_of(variables, parameter.name, value.shape)
    return [names[index] for index in order]


def _candidates(shape: tuple[int, ...], free: int) -> NDArray[np.intp]:
    """Return the entries to name ``free`` numbers after, in order."""
    inside = np.ones(shape, dtype=bool)
    if len(shape) >= 2 and shape[-1] == shape[-2] and free < inside.size:
        inside = np.tril(inside)
    return np.flatnonzero(inside)


def _constrained(variables: Variables, theta: Array) -> dict[str, Array] | None:
    """Return the parameters on their own scale; none where that fails, and without a warning."""
    try:
        with warnings.catch_warnings(), np.errstate(all="ignore"):
            warnings.simplefilter("ignore")
            return variables.constrained(theta)
    except ValueError:
        return None
