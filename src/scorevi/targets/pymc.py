"""Targets from PyMC models: compiled once by PyTensor, in double precision.

The data and the lengths of the dims are taken as they are when the target is made, and become
constants of its functions: a later ``pm.set_data`` changes the model, not the target. Apart from
that it lets PyTensor fix every shape, which makes for faster code.
"""

from __future__ import annotations

import contextlib
import functools
import importlib.util
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from scorevi._arrays import Array
from scorevi._extras import require
from scorevi.progress import activity
from scorevi.targets.base import Evaluation, Failure, Parameter, describe
from scorevi.targets.function import failure
from scorevi.targets.jax import JaxTarget
from scorevi.targets.variables import Variables

Backend: TypeAlias = Literal["numba", "c", "jax", "numpy"]

_CHUNK_ENTRIES = 2_000_000
"""Entries of one vectorised call for draws: bounds the memory of what lies between."""


@dataclass(frozen=True, eq=False, repr=False)
class PymcTarget:
    """A target made by :func:`from_pymc`."""

    dim: int
    parameters: tuple[Parameter, ...]
    variables: Variables
    log_density_and_score: Callable[[Array], tuple[Any, Any]]
    """Compiled: theta (D,) → log density, score (D,)."""
    function: Any
    """PyTensor's function around it, which can be sent to other processes."""

    has_log_density = True

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate at the rows of theta; a row on which PyTensor raises is NaN."""
        # Compiled functions are specialised to arrays like this one; any other kind, such as a
        # read-only one, would be compiled for anew.
        points = np.array(theta, dtype=np.float64, order="C")
        log_density = np.empty(len(points))
        score = np.empty(points.shape)
        failures: dict[int, Failure] = {}
        function = self.log_density_and_score
        for row, point in enumerate(points):
            try:
                log_density[row], score[row] = function(point)
            except Exception as error:
                log_density[row] = score[row] = np.nan
                why = failure(error)
                # What follows the first line is about PyTensor's graph, not about the point.
                failures[row] = why._replace(detail=why.detail.partition("\n")[0])
        return Evaluation(score, log_density, failures)

    def __reduce__(self) -> tuple[Any, ...]:
        # PyTensor compiles its function anew on the other side; what numba made cannot be sent.
        return _rebuilt, (self.dim, self.parameters, self.variables, self.function)

    def __repr__(self) -> str:
        return describe(self)


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
    with _double(model):
        values = _value_variables(model)
        parameters = tuple(
            Parameter(name, np.shape(point))
            for name, point in zip(values, _initial_values(model), strict=True)
        )
        graph = _Graph.of(model, parameters)
        [log_density] = graph.rebuilt([model.logp()])
        if graph.generators:
            raise ValueError(
                "`model` must have a log density that is a function of its parameters alone; "
                "this one's is random, as with pm.Minibatch or pm.Simulator. Give it all data."
            )
        score = require("pytensor").grad(log_density, graph.theta)
        compiled = graph.compile(graph.theta, [log_density, score], backend)
        variables = _variables(graph)
    dim = sum(parameter.size for parameter in parameters)
    if backend == "jax":
        return _jax_target(dim, parameters, variables, compiled)
    target = PymcTarget(dim, parameters, variables, _bare(compiled), compiled)
    _warm_up(target, backend)
    return target


def _rebuilt(
    dim: int, parameters: tuple[Parameter, ...], variables: Variables, function: Any
) -> PymcTarget:
    function.trust_input = True
    target = PymcTarget(dim, parameters, variables, _bare(function), function)
    with contextlib.suppress(Exception):  # numba compiles on the first call; the rest is as before
        target.log_density_and_score(np.zeros(dim))
    return target


@dataclass(frozen=True, eq=False)
class _Graph:
    """Graphs of a model as functions of the one vector theta, with the data as they are now."""

    model: Any
    theta: Any
    replacements: dict[Any, Any]
    """Value variables by stretches of theta, and shared variables by constants."""
    generators: list[Any] = field(default_factory=list)
    """Random generators that the graphs rebuilt so far draw from."""

    @classmethod
    def of(cls, model: Any, parameters: Sequence[Parameter]) -> _Graph:
        tensor = require("pytensor.tensor")
        dim = sum(parameter.size for parameter in parameters)
        theta = tensor.TensorType("float64", shape=(dim,))("theta")
        replacements = {}
        start = 0
        for value, parameter in zip(model.value_vars, parameters, strict=True):
            stretch = theta[start : start + parameter.size].reshape(parameter.shape)
            replacements[value] = value.type.filter_variable(stretch)
            start += parameter.size
        return cls(model, theta, replacements)

    def rebuilt(self, outputs: Sequence[Any]) -> list[Any]:
        """Return what the model computes from its value variables as functions of theta."""
        graph = require("pytensor.graph")
        pytensor = require("pytensor")
        for variable in graph.graph_inputs(outputs):
            if variable in self.replacements or not hasattr(variable, "get_value"):
                continue
            content = variable.get_value()
            if isinstance(content, np.random.Generator):
                # A copy: the model's own generator is not ours to advance.
                self.replacements[variable] = pytensor.shared(content)
                self.generators.append(self.replacements[variable])
            else:
                constant = require("pytensor.tensor").constant(content)
                self.replacements[variable] = variable.type.filter_variable(constant)
        # Not strict, so that the types of all that follows learn the shapes.
        cloned = graph.clone_replace(list(outputs), self.replacements, rebuild_strict=False)
        return list(cloned)

    def compile(self, argument: Any, outputs: Sequence[Any], backend: Backend) -> Any:
        """Compile with the rewrites that PyMC makes to log densities."""
        # PyMC looks in the context whether the model wants its parameters' bounds checked.
        with self.model, _without_c(backend):
            function = require("pymc.pytensorf").compile(
                [argument], list(outputs), mode=_mode(backend), on_unused_input="ignore"
            )
        function.trust_input = True
        return function


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
    with _without_c("numpy"):
        point = model.initial_point(random_seed=0)
    return [point[value.name] for value in model.value_vars]


@contextmanager
def _double(model: Any) -> Iterator[None]:
    """Build and compile in double precision whatever the user's setting is now."""
    with model, require("pytensor").config.change_flags(floatX="float64"):
        yield


def _mode(backend: Backend) -> Any:
    Mode = require("pytensor.compile").Mode
    if backend == "numpy":
        # Rewrites that bring in C would have to find a compiler and a BLAS first.
        return Mode(linker="py", optimizer="fast_compile").excluding("cxx_only", "BlasOpt")
    if backend == "c":
        return Mode(linker="cvm", optimizer="fast_run")
    return backend.upper()


@contextmanager
def _without_c(backend: Backend) -> Iterator[None]:
    """Keep graphs within graphs from being compiled to C where the outer one is not."""
    flags = {"cxx": ""} if backend == "numpy" else {}
    with require("pytensor").config.change_flags(**flags):
        yield


def _bare(function: Any) -> Callable[[Array], tuple[Any, Any]]:
    """Return what a PyTensor function runs, without what it does around it."""
    # theta is its only input, because all else is constant, so the code that numba compiled can
    # be called as it is. PyTensor's own calls cost as much again on small models.
    return getattr(function.vm, "jit_fn", function)  # type: ignore[no-any-return]


def _warm_up(target: PymcTarget, backend: Backend) -> None:
    """Let numba compile now, which it does on the first call, and refuse what it cannot."""
    try:
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


def _variables(graph: _Graph) -> Variables:
    model = graph.model
    free, deterministic, observed = model.free_RVs, model.deterministics, model.observed_RVs
    derive = log_likelihood = None
    if deterministic:
        derive = _Draws.of(graph, deterministic, model.replace_rvs_by_values(deterministic))
    if observed:
        log_likelihood = _Draws.of(graph, observed, model.logp(vars=observed, sum=False))
    return Variables(
        constrain=_Draws.of(graph, free, model.replace_rvs_by_values(free)),
        derive=derive,
        log_likelihood=log_likelihood,
        observed=_observed(graph),
        dims=_dims(model),
        coords={name: labels for name, labels in model.coords.items() if labels is not None},
    )


@dataclass(frozen=True, eq=False)
class _Draws:
    """A function from draws (n, D) to named values, each of shape (n, *shape).

    It runs on NumPy: draws are asked for rarely, so that compiling would take longer than it
    could save.
    """

    graph: _Graph
    names: tuple[str, ...]
    outputs: list[Any]

    @classmethod
    def of(cls, graph: _Graph, named: Sequence[Any], outputs: Sequence[Any]) -> _Draws:
        # Rebuilt now, with the data of now; made into a function when draws are asked for.
        return cls(graph, tuple(variable.name for variable in named), graph.rebuilt(outputs))

    def __call__(self, theta: Array, seed: int = 0) -> dict[str, Array]:
        function = self._function
        streams = np.random.SeedSequence(seed).spawn(len(self._generators))
        for generator, stream in zip(self._generators, streams, strict=True):
            generator.set_value(np.random.default_rng(stream))
        with np.errstate(all="ignore"):
            first = function(theta[:1])
            size = max(1, _CHUNK_ENTRIES // max(1, sum(value.size for value in first)))
            starts = range(1, len(theta), size)
            parts = [first, *(function(theta[start : start + size]) for start in starts)]
        return {
            name: np.concatenate(values) for name, *values in zip(self.names, *parts, strict=True)
        }

    @functools.cached_property
    def _generators(self) -> list[Any]:
        """What the outputs draw from at random."""
        inputs = set(require("pytensor.graph").graph_inputs(self.outputs))
        return [generator for generator in self.graph.generators if generator in inputs]

    @functools.cached_property
    def _function(self) -> Callable[[Array], list[Array]]:
        graph, outputs = self.graph, self.outputs
        with _double(graph.model):
            rows = require("pytensor.tensor").matrix("rows", shape=(None, *graph.theta.type.shape))
            batched = self._batched(rows)
            if batched is None:
                return _one_by_one(graph.compile(graph.theta, outputs, "numpy"))
            function = graph.compile(rows, batched, "numpy")
        # What does not depend on theta is left as it was.
        fixed = [many.ndim == one.ndim for many, one in zip(batched, outputs, strict=True)]

        def of_rows(theta: Array) -> list[Array]:
            return [
                np.broadcast_to(value, (len(theta), *np.shape(value))) if alone else value
                for value, alone in zip(function(theta), fixed, strict=True)
            ]

        return of_rows

    def _batched(self, rows: Any) -> list[Any] | None:
        """Return the outputs for rows of theta, or None where they cannot be had together."""
        if self._generators:
            return None  # what does not depend on theta would be drawn once for all rows
        vectorize = require("pytensor.graph").vectorize_graph
        try:
            return list(vectorize(self.outputs, {self.graph.theta: rows}))
        except NotImplementedError:
            return None


def _one_by_one(function: Any) -> Callable[[Array], list[Array]]:
    def of_rows(theta: Array) -> list[Array]:
        return [np.stack(values) for values in zip(*map(function, theta), strict=True)]

    return of_rows


def _observed(graph: _Graph) -> dict[str, Array]:
    variables = graph.model.observed_RVs
    data = graph.rebuilt([graph.model.rvs_to_values[variable] for variable in variables])
    function = require("pytensor").function([], data, mode=_mode("numpy"))
    return {
        variable.name: np.asarray(value)
        for variable, value in zip(variables, function(), strict=True)
    }


def _dims(model: Any) -> dict[str, list[str]]:
    """Return the names of the axes; an axis without one gets the name that ArviZ would give."""
    variables = (*model.free_RVs, *model.deterministics, *model.observed_RVs)
    all_dims = model.named_vars_to_dims
    return {
        name: [axis or f"{name}_dim_{number}" for number, axis in enumerate(all_dims[name])]
        for name in (variable.name for variable in variables)
        if name in all_dims
    }
