"""Targets from JAX log densities: differentiated, vectorised and compiled, in double precision.

Everything runs under JAX's scoped 64-bit switch; the user's global setting is never touched.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from scorevi.base.arrays import Array, as_count
from scorevi.base.extras import require
from scorevi.base.target import (
    Evaluation,
    Names,
    Parameter,
    check_distinct,
    check_early,
    describe,
    parse_names,
    split,
)
from scorevi.base.variables import Constrain, Derive, Variables
from scorevi.targets.points import joined, take_by_name

_SIZES = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64, 96, 128)
"""Rows that are compiled for: to compile takes longer than many a fit, so no other sizes are."""
_FILLED_UP = 16
"""Up to here more rows cost little more, so one call of the next size is best."""
_DRAWS = 64
"""Rows of each call for what is computed from draws, which also bounds the memory it takes."""


@dataclass(frozen=True, eq=False, repr=False)
class JaxTarget:
    """A target made by :func:`from_jax`."""

    dim: int
    parameters: tuple[Parameter, ...]
    variables: Variables
    log_density_and_score: Callable[[Any], tuple[Any, Any]]
    """Traceable: theta (n, D) → log density (n,), score (n, D)."""
    compiled: Callable[[Any], tuple[Any, Any]]
    """The same, compiled."""
    loops: dict[Any, Any] = field(default_factory=dict)
    """Compiled loops over this target, by what they were compiled for."""

    has_log_density = True
    thread_safe = True

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate at the rows of theta, in pieces of few sizes."""
        log_density, score = in_pieces(self.compiled, theta, piece_sizes(len(theta)))
        return Evaluation(score, log_density)

    def __repr__(self) -> str:
        return describe(self)

    def __reduce__(self) -> tuple[Any, ...]:
        # What was compiled stays behind, and is compiled anew on the other side.
        return _rebuilt, (self.dim, self.parameters, self.variables, self.log_density_and_score)


def piece_sizes(count: int) -> list[int]:
    """Cut rows into pieces of the sizes that are compiled for; the last may be filled up.

    Examples
    --------
    >>> [piece_sizes(count) for count in (5, 24, 40, 60, 300)]
    [[8], [24], [32, 8], [64], [128, 128, 48]]
    """
    full, count = divmod(count, _SIZES[-1])
    return [_SIZES[-1]] * full + (_last_pieces(count) if count else [])


def _last_pieces(count: int) -> list[int]:
    """Fill up to one piece, unless to cut saves more than an eighth of its rows."""
    whole = [min(size for size in _SIZES if size >= count)]
    if count <= _FILLED_UP:
        return whole
    first = max(size for size in _SIZES if size <= count)
    cut = [first, *piece_sizes(count - first)]
    return cut if 8 * sum(cut) < 7 * sum(whole) else whole


def in_pieces(function: Callable[[Any], Any], theta: Array, sizes: Sequence[int]) -> Any:
    """Apply a compiled function to the rows of theta (n, D), in pieces of the given sizes.

    The last piece is filled up with copies of the last row. What comes back is what the function
    returns, any pytree of arrays with the rows along their first axis.
    """
    jax = require("jax")
    count = len(theta)
    missing = sum(sizes) - count
    if missing:
        theta = np.concatenate([theta, np.repeat(theta[-1:], missing, axis=0)])
    with jax.enable_x64(True):
        if len(sizes) == 1:
            return jax.tree.map(lambda array: np.asarray(array)[:count], function(theta))
        ends = itertools.accumulate(sizes)
        parts = [function(theta[end - size : end]) for size, end in zip(sizes, ends, strict=True)]
        return jax.tree.map(lambda *arrays: np.concatenate(arrays)[:count], *parts)


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
    unwrapped = Variables(**functions, **variables)  # names what is no function
    with jax.enable_x64(True):
        parameters, unravel = _structure(jax, dim_or_example, names)
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
        variables.setdefault("unconstrain", _Ravel(parameters))
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


@dataclass(frozen=True, eq=False)
class _Ravel:
    """From an argument of the log density to theta."""

    parameters: tuple[Parameter, ...]

    def __call__(self, argument: Any) -> Array:
        leaves, _ = require("jax").tree_util.tree_flatten_with_path(argument)
        named = {path_name(path): np.asarray(leaf) for path, leaf in leaves}
        return joined(take_by_name(named, dict(self.parameters)))


def _rebuilt(
    dim: int,
    parameters: tuple[Parameter, ...],
    variables: Variables,
    batched: Callable[[Any], tuple[Any, Any]],
) -> JaxTarget:
    return JaxTarget(dim, parameters, variables, batched, require("jax").jit(batched))


def _structure(
    jax: Any, dim_or_example: Any, names: Names
) -> tuple[tuple[Parameter, ...], Callable[[Any], Any]]:
    if isinstance(dim_or_example, (int, np.integer)) and not isinstance(dim_or_example, bool):
        dim = as_count("dim", dim_or_example)
        return parse_names(names, dim), lambda theta: theta
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
        return parse_names(names, dim), lambda theta: tree.unflatten([theta.reshape(shape)])

    def unravel(theta: Any) -> Any:
        parts = split(theta[None], parameters)
        return tree.unflatten([parts[parameter.name][0] for parameter in parameters])

    return tuple(parameters), unravel


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
