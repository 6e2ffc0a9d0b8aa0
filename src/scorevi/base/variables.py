"""What the user calls things: from draws of theta to named variables and back to their data."""

from __future__ import annotations

import difflib
import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from scorevi.base.arrays import Array

Constrain: TypeAlias = Callable[[Array], Mapping[str, Array]]
"""Maps unconstrained draws (n, D) to named values, each of shape (n, *shape)."""
Derive: TypeAlias = Callable[[Array, int], Mapping[str, Array]]
"""The same, with a seed for what is drawn at random on the way."""
Unconstrain: TypeAlias = Callable[[Any], Array]
"""Maps values of all parameters, in the form that the model has for them, to a point (D,)."""
Include: TypeAlias = Literal["parameters", "all", "everything"]
"""Which variables: the parameters; also what follows from them, but neither log likelihoods of
single observations nor draws of data; these, too."""
_SHOWN = 20
"""Names that a message lists."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Variables:
    """The variables of a model that are not the vector theta itself."""

    constrain: Constrain | None = None
    """The parameters on their own scale; None where theta itself is that."""
    derive: Derive | None = None
    """What follows from the parameters: transformed, deterministic, generated quantities."""
    log_likelihood: Constrain | None = None
    """The log likelihood of each observation, by the name of the data."""
    unconstrain: Unconstrain | None = None
    """The way back, for starts: a point from the parameters' values by name."""
    predict: Derive | None = None
    """Draws of data given the parameters, by the name of the data; asked only where wanted."""
    predictive: Sequence[str] = ()
    """Which of these are draws of data: not summarised, and a group of their own in ArviZ."""
    likelihoods: Sequence[str] = ()
    """Which of these are log likelihoods of single observations: left out in the same way."""
    observed: Mapping[str, Array] = field(default_factory=dict)
    """The data that the model was conditioned on."""
    dims: Mapping[str, Sequence[str]] = field(default_factory=dict)
    """Names of the axes of a variable."""
    coords: Mapping[str, Sequence[Any]] = field(default_factory=dict)
    """Labels along a named axis."""
    source: str = ""
    """The model as its author wrote it, for reports; empty where it is not known."""

    def __post_init__(self) -> None:
        for name in ("constrain", "derive", "log_likelihood", "unconstrain", "predict"):
            function = getattr(self, name)
            if function is not None and not callable(function):
                raise ValueError(f"`{name}` must be a function; got {type(function).__name__}.")
        for name in ("observed", "dims", "coords"):
            value = getattr(self, name)
            if not isinstance(value, Mapping):
                raise ValueError(f"`{name}` must be a dict by name; got {type(value).__name__}.")
        for field_name in ("predictive", "likelihoods"):
            names = getattr(self, field_name)
            if isinstance(names, str) or not all(isinstance(name, str) for name in names):
                raise ValueError(f"`{field_name}` must be a list of names; got {names!r}.")
        for name, axes in self.dims.items():
            if isinstance(axes, str) or not all(isinstance(axis, str) for axis in axes):
                raise ValueError(f"`dims` must give a list of names for {name!r}; got {axes!r}.")

    def check_names(
        self, sampled: Mapping[str, tuple[int, ...]], data: Mapping[str, tuple[int, ...]]
    ) -> None:
        """Refuse ``predictive``, ``dims`` and ``coords`` that do not fit the variables.

        Parameters
        ----------
        sampled
            The shapes of the constrained parameters and of what is derived from them.
        data
            The shapes of whatever else has a name: data, log likelihoods.
        """
        for name in self.predictive:
            if name not in sampled:
                raise ValueError(
                    f"`predictive` must name variables of the model; there is no {name!r} among "
                    f"{_listed(sampled)}."
                )
        shapes = {**data, **sampled}
        for name, axes in self.dims.items():
            if name not in shapes:
                raise ValueError(
                    f"`dims` must name variables of the model; there is no {name!r} among "
                    f"{_listed(shapes)}."
                )
            if len(axes) != len(shapes[name]):
                raise ValueError(
                    f"`dims` must name every axis of {name!r}, which has shape {shapes[name]}; "
                    f"got {list(axes)}."
                )
            for axis, length in zip(axes, shapes[name], strict=True):
                if axis in self.coords and len(self.coords[axis]) != length:
                    raise ValueError(
                        f"`coords` must have {length} labels for {axis!r}, an axis of {name!r}; "
                        f"got {len(self.coords[axis])}."
                    )

    def included(self, values: Mapping[str, Array], include: Include) -> dict[str, Array]:
        """Leave out what :data:`Include` does not ask for of parameters and derived variables."""
        apart = () if include == "everything" else {*self.predictive, *self.likelihoods}
        return {name: value for name, value in values.items() if name not in apart}

    def derived(self, theta: Array, seed: int) -> dict[str, Array]:
        """Return what follows from the parameters at the rows of theta (n, D)."""
        derive = self.derive
        return {} if derive is None else _checked("derive", lambda rows: derive(rows, seed), theta)

    def predicted(self, theta: Array, seed: int) -> dict[str, Array]:
        """Return draws of data at the rows of theta (n, D); empty where the model tells none."""
        draw = self.predict
        return {} if draw is None else _checked("predict", lambda rows: draw(rows, seed), theta)

    def constrained(self, theta: Array) -> dict[str, Array] | None:
        """Return the parameters on their own scale; None where theta itself is that."""
        return None if self.constrain is None else _checked("constrain", self.constrain, theta)

    def pointwise(self, theta: Array) -> dict[str, Array]:
        """Return the log likelihood of each observation; empty where it is not known."""
        if self.log_likelihood is None:
            return {}
        return _checked("log_likelihood", self.log_likelihood, theta)


def check_arguments(function: Callable[..., Any], given: Iterable[str]) -> None:
    """Refuse keyword arguments that neither a front end nor :class:`Variables` has."""
    own = inspect.signature(function).parameters.values()
    known = [one.name for one in own if one.kind is not one.VAR_KEYWORD]
    known += [one.name for one in fields(Variables) if one.name not in known]
    for name in given:
        if name not in known:
            near = difflib.get_close_matches(name, known, 1)
            hint = f"Did you mean `{near[0]}`?" if near else f"It takes {_listed(known)}."
            raise TypeError(f"{function.__name__}() has no argument `{name}`. {hint}")


def check_include(include: str) -> None:
    """Refuse what :data:`Include` does not list."""
    if include not in get_args(Include):
        wanted = ", ".join(f'"{known}"' for known in get_args(Include))
        raise ValueError(f"`include` must be one of {wanted}; got {include!r}.")


def _listed(names: Iterable[str]) -> str:
    names = list(names)
    more = f", ... {len(names) - _SHOWN} more" if len(names) > _SHOWN else ""
    return ", ".join(names[:_SHOWN]) + more


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
