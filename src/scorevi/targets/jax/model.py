"""What is compiled of a model in JAX: its density, and what else is computed from its argument."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.target import Parameter, check_distinct
from scorevi.base.variables import Constrain, Derive
from scorevi.targets.jax.pieces import in_pieces
from scorevi.targets.jax.pytrees import Structure, path_name

_DRAWS = 64
"""Rows of each call for what is computed from draws, which also bounds the memory it takes."""
_KEPT = 32
"""Models whose compiled functions are kept for other data."""
_Functions = tuple[Callable[[Any], Any] | None, ...]


class Model(NamedTuple):
    """A model, for all data of the shapes that it is called with."""

    batched: Callable[..., tuple[Any, Any]]
    """Traceable: theta (n, D) and data → log density (n,), score (n, D)."""
    compiled: Callable[..., tuple[Any, Any]]
    """The same, compiled."""
    constrain: Constrain | None
    derive: Derive | None
    log_likelihood: Constrain | None


def make_model(
    log_density: Callable[..., Any], functions: _Functions, structure: Structure
) -> Model:
    """Differentiate, vectorise and compile.

    Parameters
    ----------
    log_density
        Of one point, and of data if it takes any.
    functions
        ``constrain``, ``derive`` and ``log_likelihood``, of one point.
    structure
        What the point is made of.
    """
    jax = require("jax")

    def in_double(theta: Any, *data: Any) -> Any:
        return log_density(structure.unravel(theta), *data).astype(np.float64)

    in_double = owning(jax, in_double)

    def batched(theta: Any, *data: Any) -> Any:
        each = jax.vmap(jax.value_and_grad(in_double), in_axes=(0, *(None for _ in data)))
        return each(theta, *data)

    constrain, derive, log_likelihood = (
        _vectorised(jax, name, function, structure.unravel)
        for name, function in zip(("constrain", "derive", "log_likelihood"), functions, strict=True)
    )
    return Model(batched, jax.jit(batched), constrain, _without_seed(derive), log_likelihood)


shared_model = functools.lru_cache(maxsize=_KEPT)(make_model)
"""The same for the same functions: for those that depend on nothing but their arguments."""


def owning(jax: Any, function: Callable[..., Any]) -> Callable[..., Any]:
    """Return a traceable function with copies of its own of the NumPy arrays that it closes over.

    JAX remembers, by the array and not by the precision, what it has made of a NumPy array, for as
    long as something that was traced holds it. Traced in double precision, the user's own calls of
    the same function in single precision would find arrays of the wrong one, and fail.
    """

    def own(constant: Any) -> Any:
        is_numpy = isinstance(constant, np.ndarray)
        return np.array(constant, subok=False) if is_numpy else constant

    def owned(*arguments: Any) -> Any:
        # A function of its own, so that no trace of the user's is kept.
        trace = jax.make_jaxpr(lambda *given: function(*given), return_shape=True)
        closed, shape = trace(*arguments)
        from jax.extend.core import ClosedJaxpr, jaxpr_as_fun

        again = jaxpr_as_fun(ClosedJaxpr(closed.jaxpr, [own(one) for one in closed.consts]))
        found = again(*jax.tree.leaves(arguments))
        return jax.tree.unflatten(jax.tree.structure(shape), found)

    return owned


def check_scalar(jax: Any, of_vector: Callable[[Any], Any], dim: int) -> None:
    """Refuse a log density that is no real number at one point."""
    try:
        result = jax.eval_shape(of_vector, jax.ShapeDtypeStruct((dim,), np.float64))
    except Exception as error:
        raise ValueError(f"`log_density` raised {type(error).__name__}: {error}") from error
    shape = getattr(result, "shape", None)
    if shape != ():
        raise ValueError(
            "`log_density` must return a scalar for one point; got "
            f"{'shape ' + str(shape) if shape is not None else type(result).__name__}. "
            "Sum over the observations inside it."
        )
    if not np.issubdtype(result.dtype, np.floating):
        raise ValueError(f"`log_density` must return a real number; got {result.dtype}.")


def _vectorised(
    jax: Any, argument: str, function: Callable[[Any], Any] | None, unravel: Callable[[Any], Any]
) -> Constrain | None:
    if function is None:
        return None
    batched = jax.jit(jax.vmap(owning(jax, lambda theta: function(unravel(theta)))))

    def of_rows(theta: Array) -> dict[str, Array]:
        sizes = [_DRAWS] * -(-len(theta) // _DRAWS)
        leaves, _ = jax.tree_util.tree_flatten_with_path(in_pieces(batched, theta, sizes))
        check_distinct(argument, [Parameter(path_name(path)) for path, _ in leaves])
        return {path_name(path): leaf for path, leaf in leaves}

    return of_rows


def _without_seed(function: Constrain | None) -> Derive | None:
    """Take and ignore the seed: nothing is drawn at random on the way."""
    return None if function is None else lambda theta, _: function(theta)
