"""Making a target of a log density in JAX, and of what else is computed from its argument."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scorevi.base.extras import require
from scorevi.base.source import source_of
from scorevi.base.target import Names, check_early
from scorevi.base.variables import Variables, check_arguments
from scorevi.targets.jax.model import check_scalar, make_model, shared_model
from scorevi.targets.jax.pytrees import Ravel, structure_of
from scorevi.targets.jax.target import JaxTarget


def from_jax(
    log_density: Callable[..., Any],
    dim_or_example: Any,
    *,
    data: Any = None,
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
    data
        A second argument of the log density, ``log_density(point, data)``: any pytree of arrays.
        Targets of one function whose data have the same shapes share what is compiled, so that
        only the first of a thousand data sets waits for it. The function, and ``constrain`` and
        the two below it, must then depend on nothing but their arguments.
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
    >>> import numpy as np
    >>> import scorevi
    >>> def log_density(p):
    ...     return -0.5 * p["mu"] ** 2 - 0.5 * (p["eta"] ** 2).sum()
    >>> target = scorevi.from_jax(log_density, {"mu": 0.0, "eta": np.zeros(3)})
    >>> target.dim, [parameter.name for parameter in target.parameters]
    (4, ['eta', 'mu'])
    >>> def with_data(theta, data):
    ...     return -0.5 * ((theta - data) ** 2).sum()
    >>> target = scorevi.from_jax(with_data, 2, data=np.array([1.0, 2.0]))
    >>> target.evaluate(np.zeros((1, 2))).score
    array([[1., 2.]])
    """
    jax = require("jax")
    check_arguments(from_jax, variables)
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
        structure = structure_of(jax, dim_or_example, names)
        check_early(unwrapped, structure.parameters)
        given: tuple[Any, ...] = ()
        if data is not None:
            given = (jax.tree.map(jax.numpy.asarray, data),)
        dim = sum(parameter.size for parameter in structure.parameters)
        check_scalar(jax, lambda theta: log_density(structure.unravel(theta), *given), dim)
        make = shared_model if given else make_model
        model = make(log_density, tuple(functions.values()), structure)
        batched, compiled = model.batched, model.compiled
        variables.setdefault("unconstrain", Ravel(structure.parameters))
        return JaxTarget(
            dim=dim,
            parameters=structure.parameters,
            variables=Variables(
                constrain=model.constrain,
                derive=model.derive,
                log_likelihood=model.log_likelihood,
                **variables,
            ),
            log_density_and_score=_with(batched, *given),
            compiled=_with(compiled, *given),
        )


def _with(function: Callable[..., Any], *given: Any) -> Callable[[Any], Any]:
    """Return a function of theta alone; the same where there is nothing else."""
    return (lambda theta: function(theta, *given)) if given else function
