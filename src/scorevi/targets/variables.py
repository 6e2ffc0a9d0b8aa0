"""What the user calls things: from draws of theta to named variables and back to their data."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from scorevi._arrays import Array

Constrain: TypeAlias = Callable[[Array], Mapping[str, Array]]
"""Maps unconstrained draws (n, D) to named values, each of shape (n, *shape)."""
Derive: TypeAlias = Callable[[Array, int], Mapping[str, Array]]
"""The same, with a seed for what is drawn at random on the way."""
Include: TypeAlias = Literal["parameters", "all"]


@dataclass(frozen=True, kw_only=True, eq=False)
class Variables:
    """The variables of a model that are not the vector theta itself."""

    constrain: Constrain | None = None
    """The parameters on their own scale; None where theta itself is that."""
    derive: Derive | None = None
    """What follows from the parameters: transformed, deterministic, generated quantities."""
    log_likelihood: Constrain | None = None
    """The log likelihood of each observation, by the name of the data."""
    observed: Mapping[str, Array] = field(default_factory=dict)
    """The data that the model was conditioned on."""
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the axes of a variable."""
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Labels along a named axis."""

    def __post_init__(self) -> None:
        for name in ("constrain", "derive", "log_likelihood"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ValueError(f"`{name}` must be a function; got {type(function).__name__}.")
        for name in ("observed", "dims", "coords"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise ValueError(f"`{name}` must be a dict by name; got {type(value).__name__}.")
        for name, axes in self.dims.items():
            if isinstance(axes, str) or not all(isinstance(axis, str) for axis in axes):
                raise ValueError(f"`dims` must give a list of names for {name!r}; got {axes!r}.")

    def derived(self, theta: Array, seed: int) -> dict[str, Array]:
        """Return what follows from the parameters at the rows of theta (n, D)."""
        derive = self.derive
        return {} if derive is None else _checked("derive", lambda rows: derive(rows, seed), theta)

    def constrained(self, theta: Array) -> dict[str, Array] | None:
        """Return the parameters on their own scale; None where theta itself is that."""
        return None if self.constrain is None else _checked("constrain", self.constrain, theta)

    def pointwise(self, theta: Array) -> dict[str, Array]:
        """Return the log likelihood of each observation; empty where it is not known."""
        if self.log_likelihood is None:
            return {}
        return _checked("log_likelihood", self.log_likelihood, theta)


def check_include(include: str) -> None:
    """Refuse what :data:`Include` does not list."""
    if include not in get_args(Include):
        raise ValueError(f'`include` must be "parameters" or "all"; got {include!r}.')


def _checked(argument: str, function: Constrain, theta: Array) -> dict[str, Array]:
    """Apply a function to draws (n, D), and check what it returns."""
    try:
        named = function(theta.copy())
    except Exception as error:
        raise ValueError(f"`{argument}` raised {type(error).__name__}: {error}.") from error
    if not isinstance(named, Mapping):
        raise ValueError(
            f"`{argument}` must return a dict from name to array, the draws along the first "
            f"axis; got {type(named).__name__}."
        )
    values = {}
    for name, value in named.items():
        array = np.asarray(value)
        if array.dtype.kind not in "buif" or array.shape[:1] != (len(theta),):
            raise ValueError(
                f"`{argument}` must return real arrays with {len(theta)} draws along the first "
                f"axis for {len(theta)} draws; {name!r} has shape {array.shape}, {array.dtype}."
            )
        values[str(name)] = array.astype(np.float64) if array.dtype.kind == "b" else array
    return values
