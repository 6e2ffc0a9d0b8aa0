"""Arguments of a log density in JAX: what their leaves are called, to theta and back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scorevi.base.arrays import Array, as_count
from scorevi.base.extras import require
from scorevi.base.target import Names, Parameter, check_distinct, parse_names, split
from scorevi.targets.points import joined, take_by_name


@dataclass(frozen=True)
class Structure:
    """What an argument is made of; the same for arguments of the same names, shapes and nesting."""

    parameters: tuple[Parameter, ...]
    tree: Any
    """How its leaves are nested; None for a vector."""
    unravel: Callable[[Any], Any] = field(compare=False)
    """The way to it from theta (D,)."""


def structure_of(jax: Any, dim_or_example: Any, names: Names) -> Structure:
    """Return what an argument of a log density is made of."""
    if isinstance(dim_or_example, (int, np.integer)) and not isinstance(dim_or_example, bool):
        dim = as_count("dim", dim_or_example)
        return Structure(parse_names(names, dim), None, lambda theta: theta)
    leaves, tree = jax.tree_util.tree_flatten_with_path(dim_or_example)
    if not leaves:
        raise ValueError("`dim_or_example` must be a dimension or hold at least one array.")
    parameters = []
    for path, leaf in leaves:
        name = path_name(path)
        shape = np.shape(leaf)
        if not is_real(jax, leaf):
            raise ValueError(
                f"`dim_or_example` must hold arrays of real numbers; {name!r} is of type "
                f"{type(leaf).__name__}, {getattr(leaf, 'dtype', 'without a dtype')}."
            )
        if 0 in shape:
            raise ValueError(f"`dim_or_example` must not hold empty arrays; {name!r} is empty.")
        parameters.append(Parameter(name, shape))
    check_distinct("dim_or_example", parameters)
    dim = sum(parameter.size for parameter in parameters)
    if names is not None:
        if len(parameters) > 1:
            raise ValueError("`names` is for a vector argument; a pytree's paths are its names.")
        shape = parameters[0].shape
        parsed = parse_names(names, dim)
        return Structure(parsed, tree, lambda theta: tree.unflatten([theta.reshape(shape)]))

    def unravel(theta: Any) -> Any:
        parts = split(theta[None], parameters)
        return tree.unflatten([parts[parameter.name][0] for parameter in parameters])

    return Structure(tuple(parameters), tree, unravel)


@dataclass(frozen=True, eq=False)
class Ravel:
    """From an argument of the log density to theta."""

    parameters: tuple[Parameter, ...]

    def __call__(self, argument: Any) -> Array:
        """Return the vector (D,) of an argument's leaves."""
        leaves, _ = require("jax").tree_util.tree_flatten_with_path(argument)
        named = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
        return joined(take_by_name(named, dict(self.parameters)))


def is_real(jax: Any, leaf: Any) -> bool:
    """Tell by the type alone: an example may be a ``jax.ShapeDtypeStruct``."""
    try:
        dtype = jax.numpy.result_type(leaf)
    except (TypeError, ValueError):
        return False
    real = (np.bool_, np.integer, np.floating)
    return any(jax.numpy.issubdtype(dtype, kind) for kind in real)


def path_name(path: Any) -> str:
    """Return what a leaf of a pytree is called: ``group.mu``, ``group.0``."""
    return ".".join(_key(key) for key in path) or "theta"


def _key(key: Any) -> str:
    for attribute in ("key", "name", "idx"):
        if hasattr(key, attribute):
            return str(getattr(key, attribute))
    return str(key)
