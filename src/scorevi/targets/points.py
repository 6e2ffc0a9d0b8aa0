"""A point of theta from what a user has: the vector itself, or the model's values by name."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorevi.base.arrays import Array, as_float_array
from scorevi.base.target import Parameter, Target, split
from scorevi.base.variables import Constrain

_SAME = 1e-6
"""Relative to its size, how close a value is to come back from the unconstrained space."""
_SHOWN = 40
"""Characters of a value that a message shows."""


def as_point(value: Any, target: Target) -> Array:
    """Return the point (D,) that a user's ``initial`` stands for.

    Parameters
    ----------
    value
        A vector of D numbers is theta itself. Anything else holds the values of all parameters:
        by name and on their own scale, or in the form that a log density in JAX takes.
    target
        What is fitted.
    """
    dim, variables = target.dim, target.variables
    if not isinstance(value, Mapping) and (_is_vector(value) or variables.unconstrain is None):
        return as_float_array("initial", value, (dim,))
    if variables.unconstrain is not None:
        return as_float_array("initial", variables.unconstrain(value), (dim,))
    if variables.constrain is not None:
        raise ValueError(
            "`initial` by name needs the way back from the parameters' own scale, which this "
            f"target has not. Pass unconstrain= when making it, or give the {dim} unconstrained "
            "values as a vector."
        )
    return joined(take_by_name(value, dict(target.parameters)))


def take_by_name(values: Any, shapes: Mapping[str, tuple[int, ...]]) -> dict[str, Array]:
    """Check a user's values of all parameters, and put them into their order."""
    names = ", ".join(shapes)
    if not isinstance(values, Mapping):
        raise ValueError(
            f"`initial` must be a vector, or a dict with the values of {names}; "
            f"got {type(values).__name__}."
        )
    missing = [name for name in shapes if name not in values]
    if missing:
        raise ValueError(
            f"`initial` must have the values of all parameters; {', '.join(missing)} is missing. "
            f"They are {names}."
        )
    unknown = [str(name) for name in values if name not in shapes]
    if unknown:
        raise ValueError(
            f"`initial` must have the values of the parameters alone; there is no "
            f"{', '.join(unknown)} among {names}."
        )
    return {
        name: as_float_array(f"initial[{name!r}]", values[name], shape)
        for name, shape in shapes.items()
    }


def joined(values: Mapping[str, Array]) -> Array:
    """Return one vector of all values, in their order."""
    return np.concatenate([np.reshape(value, -1) for value in values.values()])


@dataclass(frozen=True, eq=False)
class Inverse:
    """From the parameters' values by name, on their own scale, to a point; checked on the way."""

    function: Callable[[dict[str, Array]], Any]
    """Maps values of the right names and shapes to theta (D,)."""
    constrain: Constrain
    """The way that this is the inverse of."""
    parameters: tuple[Parameter, ...]

    def __call__(self, values: Any) -> Array:
        """Return the point, or say which value is no value of its parameter."""
        dim = sum(parameter.size for parameter in self.parameters)
        # Not at zero, where a unit vector, for one, does not exist.
        drawn = self.constrain(np.random.default_rng(0).uniform(-1, 1, (1, dim)))
        somewhere = {name: np.asarray(value)[0] for name, value in drawn.items()}
        shapes = {name: value.shape for name, value in somewhere.items()}
        named = take_by_name(values, shapes)
        try:
            with np.errstate(all="ignore"):
                theta = np.asarray(self.function(dict(named)), dtype=np.float64)
        except Exception as error:
            for name, value in named.items():
                if not self._takes(somewhere | {name: value}):
                    raise _outside(name, value) from error
            reason = str(error).strip().partition("\n")[0].rstrip(".")
            raise ValueError(
                f"`initial` has no place on the unconstrained scale: {reason}."
            ) from error
        if theta.shape != (dim,):
            raise ValueError(f"`unconstrain` must return shape ({dim},); got {theta.shape}.")
        for name, part in split(theta[None], self.parameters).items():
            if not np.isfinite(part).all() and name in named:
                raise _outside(name, named[name])
        back = self.constrain(theta[None])
        for name, value in named.items():
            size = float(np.abs(value).max(initial=0.0))
            if not np.allclose(back[name][0], value, rtol=_SAME, atol=_SAME * size):
                raise _outside(name, value)
        return theta

    def _takes(self, values: dict[str, Array]) -> bool:
        try:
            with np.errstate(all="ignore"):
                self.function(values)
        except Exception:
            return False
        return True


def _outside(name: str, value: Array) -> ValueError:
    text = np.array2string(value, threshold=6, separator=", ").replace("\n", "")
    text = text if len(text) <= _SHOWN else text[: _SHOWN - 3] + "..."
    return ValueError(
        f"`initial[{name!r}]` must lie inside the support of {name}, which {text} does not."
    )


def _is_vector(value: Any) -> bool:
    try:
        array = np.asarray(value)
    except ValueError:  # arrays of several shapes
        return False
    return array.ndim == 1 and array.dtype.kind in "buif"
