"""Making a target of a log density in JAX, and of what else is computed from its argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.source import source_of
from scorevi.base.target import Names, Parameter, check_distinct, check_early
from scorevi.base.variables import Constrain, Derive, Variables
from scorevi.targets.jax.pieces import in_pieces
from scorevi.targets.jax.pytrees import Ravel, path_name, structure_of
from scorevi.targets.jax.target import JaxTarget

_DRAWS = 64
"""Rows of each call for what is computed from draws, which also bounds the memory it takes."""


def from_jax(
    log_density: Callable[[Any], Any],
    dim_or_example: Any,
    *,
    names: Names = None,
    constrain: Callable[[Any], Any] | None = None,
    derive: Callable[[Any], Any] | None = None,
    log_likelihood: Callable[[Any], Any] | None = None,
    **variables: Any,
) -> JaxTarget:
    """Make a target of a log density written in JAX.

    Parameters
    ----------
    log_density
        The log density, up to a constant, of *one* point; returns a scalar.
    dim_or_example
        The dimension, where the argument is a vector; or an example of the argument, any pytree
        of arrays and numbers, whose values do not matter. Its paths become the names: ``scale``,
        ``group.mu`` for what is nested, ``group.0`` in a list. JAX puts the keys of a dict in
        alphabetical order, and leaves those of an ``OrderedDict`` in theirs.
    names
        Names for the entries of a vector argument, as in :func:`scorevi.from_function`.
    constrain
        Maps one point, in the form that ``log_density`` takes, to a dict (or any pytree) of
        arrays on the scale the user thinks in. Vectorised and compiled here, like the two below.
    derive
        Maps one point to a dict of what follows from it beside the parameters.
    log_likelihood
        Maps one point to a dict of the log likelihoods of its observations, by name.
    **variables
        More for ArviZ: ``observed``, ``predictive``, ``dims``, ``coords`` as in
        :class:`scorevi.targets.Variables`.

    Notes
    -----
    Data that the function closes over should be NumPy arrays, or made in double precision:
    JAX makes single-precision arrays by default, and what was rounded stays rounded.

    Examples
    --------
    >>> import scorevi
    >>> def log_density(p):
    ...     return -0.5 * p["mu"] ** 2 - 0.5 * (p["eta"] ** 2).sum()
    >>> target = scorevi.from_jax(log_density, {"mu": 0.0, "eta": np.zeros(3)})
    >>> target.dim, [parameter.name for parameter in target.parameters]
    (4, ['eta', 'mu'])
    """
    jax = require("jax")
    if not callable(log_density):
        raise ValueError(f"`log_density` must be a function; got {type(log_density).__name__}.")
    functions: dict[str, Any] = {
        "constrain": constrain,
        "derive": derive,
        "log_likelihood": log_likelihood,
    }
    variables.setdefault("source", source_of(log_density))
    unwrapped = Variables(**functions, **variables)  # names what is no function
    with jax.enable_x64(True):
        parameters, unravel = structure_of(jax, dim_or_example, names)
        check_early(unwrapped, parameters)
        dim = sum(parameter.size for parameter in parameters)

        def of_vector(theta: Any) -> Any:
            return log_density(unravel(theta))

        _check_scalar(jax, of_vector, dim)

        def in_double(theta: Any) -> Any:
            return of_vector(theta).astype(np.float64)

        batched = jax.vmap(jax.value_and_grad(in_double))
        vectorised = {
            name: _vectorised(jax, name, function, unravel) for name, function in functions.items()
        }
        variables.setdefault("unconstrain", Ravel(parameters))
        return JaxTarget(
            dim=dim,
            parameters=parameters,
            variables=Variables(
                constrain=vectorised["constrain"],
                derive=_without_seed(vectorised["derive"]),
                log_likelihood=vectorised["log_likelihood"],
                **variables,
            ),
            log_density_and_score=batched,
            compiled=jax.jit(batched),
        )


def _check_scalar(jax: Any, of_vector: Callable[[Any], Any], dim: int) -> None:
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
    batched = jax.jit(jax.vmap(lambda theta: function(unravel(theta))))

    def of_rows(theta: Array) -> dict[str, Array]:
        sizes = [_DRAWS] * -(-len(theta) // _DRAWS)
        leaves, _ = jax.tree_util.tree_flatten_with_path(in_pieces(batched, theta, sizes))
        check_distinct(argument, [Parameter(path_name(path)) for path, _ in leaves])
        return {path_name(path): leaf for path, leaf in leaves}

    return of_rows


def _without_seed(function: Constrain | None) -> Derive | None:
    """Take and ignore the seed: nothing is drawn at random on the way."""
    return None if function is None else lambda theta, _: function(theta)
