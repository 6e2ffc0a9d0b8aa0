"""Making a target of a PyMC model."""

from __future__ import annotations

import importlib.util
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, get_args

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.progress import activity
from scorevi.base.target import Parameter
from scorevi.base.variables import Variables
from scorevi.targets.jax import JaxTarget
from scorevi.targets.observations import warn_of_nan
from scorevi.targets.pymc.draws import named_variables
from scorevi.targets.pymc.graph import Backend, Graph, constants, double_precision, without_c
from scorevi.targets.pymc.target import PymcTarget, bare


def from_pymc(
    model: Any = None, *, backend: Backend | None = None, progress: bool | None = None
) -> PymcTarget | JaxTarget:
    """Make a target of a PyMC model.

    Free variables keep their names; theta holds them on PyMC's unconstrained scale, in the order
    of ``model.free_RVs``, and the log density includes the Jacobians of the transforms. Draws are
    given back on the scale of the model, with its Deterministics, the log likelihood of every
    observation, the observed data, dims and coords.

    Parameters
    ----------
    model
        A ``pymc.Model``; left out, the model of the enclosing ``with`` block.
    backend
        What PyTensor makes of the log density: ``"numba"``, ``"c"``, ``"jax"`` or ``"numpy"``.
        Left out, numba if it is installed, which has the fastest calls, else C. With ``"jax"``
        the target is a :class:`JaxTarget`, whose fits run as compiled loops; PyTensor then
        switches JAX to 64 bits for the whole process. With ``"numpy"`` nothing is compiled:
        slow calls, but no wait for the first.
    progress
        Whether to say on standard error that the model is being compiled; None for only in a
        terminal or notebook.

    Notes
    -----
    The first compilation of a model by numba or C takes from seconds to a minute. Its results are
    kept on disk, and the next time it takes a second or two.

    Examples
    --------
    >>> import pymc as pm, scorevi
    >>> with pm.Model() as model:
    ...     tau = pm.HalfNormal("tau")
    ...     y = pm.Normal("y", 0, tau, observed=[1.0, -2.0, 0.5])
    >>> target = scorevi.from_pymc(model, backend="numpy")
    >>> target.variables.constrain(np.array([[0.0], [1.0]]))
    {'tau': array([1.        , 2.71828183])}
    """
    pymc = require("pymc")
    model = _check_model(pymc, model)
    backend = _check_backend(backend)
    with activity(f"Compiling the PyMC model with {backend}", progress):
        return _made(model, backend)


def _made(model: Any, backend: Backend) -> PymcTarget | JaxTarget:
    """Build and compile what a model that was checked says."""
    with double_precision(model):
        values = _value_variables(model)
        parameters = tuple(
            Parameter(name, np.shape(point))
            for name, point in zip(values, _initial_values(model), strict=True)
        )
        graph = Graph.of(model, parameters)
        [log_density] = graph.rebuilt([model.logp()])
        if graph.generators:
            raise ValueError(
                "`model` must have a log density that is a function of its parameters alone; "
                "this one's is random, as with pm.Minibatch or pm.Simulator. Give it all data."
            )
        score = require("pytensor").grad(log_density, graph.theta)
        with _doubles_in_jax(backend):
            compiled = graph.compile(graph.theta, [log_density, score], backend)
        variables = named_variables(graph, parameters)
        warn_of_nan(constants(model), "model", "model", stacklevel=3)
    dim = sum(parameter.size for parameter in parameters)
    if backend == "jax":
        return _jax_target(dim, parameters, variables, compiled)
    target = PymcTarget(dim, parameters, variables, bare(compiled), compiled)
    _warm_up(target, backend)
    return target


@contextmanager
def _doubles_in_jax(backend: Backend) -> Iterator[None]:
    """Compile in double precision, and leave JAX's as the user has it, which PyTensor changes."""
    if backend != "jax":
        yield
        return
    jax = require("jax")
    before = jax.config.jax_enable_x64
    try:
        with jax.enable_x64(True):
            yield
    finally:
        jax.config.update("jax_enable_x64", before)


def is_model(pymc: Any, thing: Any) -> bool:
    """Return whether a thing is a model; from PyMC 6 on there are frozen ones as well."""
    # PyMC may be there in part only, where its import failed; then there are no models.
    core = getattr(getattr(pymc, "model", None), "core", None)
    known = getattr(core, "BaseModel", getattr(pymc, "Model", ()))
    return isinstance(thing, known)


def _check_model(pymc: Any, model: Any) -> Any:
    if model is None:
        model = pymc.Model.get_context(error_if_none=False)
        if model is None:
            raise ValueError(
                "`model` must be given, or from_pymc called within a `with model:` block; "
                "there is neither."
            )
    if not is_model(pymc, model):
        raise ValueError(f"`model` must be a pymc.Model or None; got {type(model).__name__}.")
    if not model.free_RVs:
        raise ValueError("`model` must have free variables to fit; it has none.")
    return model


def _check_backend(backend: str | None) -> Backend:
    if backend is None:
        return "numba" if importlib.util.find_spec("numba") else "c"
    if backend not in get_args(Backend):
        raise ValueError(f"`backend` must be one of {get_args(Backend)}; got {backend!r}.")
    if backend == "jax":
        require("jax")
    return backend  # type: ignore[return-value]


def _value_variables(model: Any) -> dict[str, Any]:
    """Return the variables that stand for the parameters' unconstrained values, by name."""
    values = {rv.name: model.rvs_to_values[rv] for rv in model.free_RVs}
    kinds = {name: np.dtype(value.type.dtype) for name, value in values.items()}
    discrete = [name for name, kind in kinds.items() if kind.kind != "f"]
    if discrete:
        raise ValueError(
            f"`model` must have continuous free variables only; discrete: {', '.join(discrete)}. "
            "Sum them out of the model, by hand or with pymc_extras.marginalize."
        )
    single = [name for name, kind in kinds.items() if kind != np.float64]
    if single:
        raise ValueError(
            "`model` must be in double precision; "
            f"{', '.join(f'{name} is {kinds[name]}' for name in single)}. "
            'Set pytensor.config.floatX = "float64" before the model is built.'
        )
    return values


def _initial_values(model: Any) -> list[Array]:
    """Return a value for each value variable; what counts here is the shape."""
    with without_c("numpy"):
        point = model.initial_point(random_seed=0)
    return [point[value.name] for value in model.value_vars]


def _warm_up(target: PymcTarget, backend: Backend) -> None:
    """Let numba compile now, which it does on the first call, and refuse what it cannot."""
    try:
        with warnings.catch_warnings():
            # Of how PyTensor lays out its arrays, about which nobody here can do anything.
            warnings.filterwarnings("ignore", "(?s).*faster on contiguous arrays")
            target.log_density_and_score(np.zeros(target.dim))
    except Exception as error:
        if type(error).__module__.startswith("numba."):
            raise ValueError(
                f"`model` could not be compiled by {backend}; it raised "
                f'{type(error).__name__}: {str(error).strip()[:500]} Try backend="c".'
            ) from error
        # At a point like any other a model may raise; the fit will count it.


def _jax_target(
    dim: int, parameters: tuple[Parameter, ...], variables: Variables, function: Any
) -> JaxTarget:
    jax = require("jax")
    batched = jax.vmap(lambda theta: tuple(function.vm.jit_fn(theta)))
    return JaxTarget(dim, parameters, variables, batched, jax.jit(batched))
