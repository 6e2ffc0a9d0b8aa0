"""What a PyMC model computes, as functions of the one vector theta."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any, Literal, TypeAlias

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.target import Parameter

Backend: TypeAlias = Literal["numba", "c", "jax", "numpy"]


@dataclass(frozen=True, eq=False)
class Graph:
    """Graphs of a model as functions of the one vector theta, with the data as they are now."""

    model: Any
    theta: Any
    replacements: dict[Any, Any]
    """Value variables by stretches of theta, and shared variables by constants."""
    generators: list[Any] = field(default_factory=list)
    """Random generators that the graphs rebuilt so far draw from."""

    @classmethod
    def of(cls, model: Any, parameters: Sequence[Parameter]) -> Graph:
        """Let theta stand for the value variables, one after the other."""
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
        with self.model, without_c(backend):
            function = require("pymc.pytensorf").compile(
                [argument], list(outputs), mode=mode_of(backend), on_unused_input="ignore"
            )
        function.trust_input = True
        return function


@contextmanager
def double_precision(model: Any) -> Iterator[None]:
    """Build and compile in double precision whatever the user's setting is now."""
    with model, require("pytensor").config.change_flags(floatX="float64"):
        yield


def mode_of(backend: Backend) -> Any:
    """Return how PyTensor is to compile: its mode, or the name of one."""
    Mode = require("pytensor.compile").Mode
    if backend == "numpy":
        # Rewrites that bring in C would have to find a compiler and a BLAS first.
        return Mode(linker="py", optimizer="fast_compile").excluding("cxx_only", "BlasOpt")
    if backend == "c":
        return Mode(linker="cvm", optimizer="fast_run")
    return backend.upper()


@contextmanager
def without_c(backend: Backend) -> Iterator[None]:
    """Keep graphs within graphs from being compiled to C where the outer one is not."""
    flags = {"cxx": ""} if backend == "numpy" else {}
    with require("pytensor").config.change_flags(**flags):
        yield


def constants(model: Any) -> dict[str, Array]:
    """Return the arrays that the log density is computed from: data, covariates, constants."""
    found = {}
    for variable in require("pytensor.graph").graph_inputs([model.logp()]):
        # A shared variable, such as pm.Data, or a constant; single numbers may be PyMC's own.
        value = variable.get_value() if hasattr(variable, "get_value") else None
        value = getattr(variable, "data", value)
        if isinstance(value, np.ndarray) and value.ndim and value.dtype.kind == "f":
            found[variable.name or f"an array of shape {value.shape}"] = value
    return found
