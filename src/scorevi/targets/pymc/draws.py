"""Draws of a PyMC model by name: variables on their own scale, log likelihood, data, axes."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.target import Parameter
from scorevi.base.variables import Variables
from scorevi.targets.points import Inverse, joined
from scorevi.targets.pymc.graph import Graph, double_precision, mode_of, without_c

_CHUNK_ENTRIES = 2_000_000
"""Entries of one vectorised call for draws: bounds the memory of what lies between."""


def named_variables(graph: Graph, parameters: tuple[Parameter, ...]) -> Variables:
    """Return the model's names and scales: its variables, log likelihood, data, dims and coords."""
    model = graph.model
    free, deterministic, observed = model.free_RVs, model.deterministics, model.observed_RVs
    derive = log_likelihood = predict = None
    if deterministic:
        derive = _Draws.of(graph, deterministic, model.replace_rvs_by_values(deterministic))
    if observed:
        log_likelihood = _Draws.of(graph, observed, model.logp(vars=observed, sum=False))
        predict = _Draws.of(graph, observed, _given_parameters(model))
    constrain = _Draws.of(graph, free, model.replace_rvs_by_values(free))
    return Variables(
        constrain=constrain,
        unconstrain=Inverse(_Unconstrain(model), constrain, parameters),
        derive=derive,
        log_likelihood=log_likelihood,
        predict=predict,
        observed=_observed(graph),
        dims=_dims(model),
        coords={name: labels for name, labels in model.coords.items() if labels is not None},
        source=_formulas(model),
    )


def _given_parameters(model: Any) -> list[Any]:
    """Return the observed variables as they are drawn, with the free ones at their values."""
    values = model.replace_rvs_by_values(model.free_RVs)
    replacements = dict(zip(model.free_RVs, values, strict=True))
    graph = require("pytensor.graph")
    return list(graph.clone_replace(model.observed_RVs, replacements, rebuild_strict=False))


def _formulas(model: Any) -> str:
    """Return the model as PyMC writes it, a line a variable; empty where it cannot."""
    try:
        return str(model.str_repr())
    except Exception:  # of distributions of the user's own, for one
        return ""


@dataclass(frozen=True, eq=False)
class _Unconstrain:
    """A function from values of the free variables, by name, to theta."""

    model: Any

    def __call__(self, values: dict[str, Array]) -> Array:
        make = require("pymc.initial_point").make_initial_point_fn
        with double_precision(self.model), without_c("numpy"):
            point = make(model=self.model, overrides=values, return_transformed=True)(0)
        return joined({value.name: point[value.name] for value in self.model.value_vars})


@dataclass(frozen=True, eq=False)
class _Draws:
    """A function from draws (n, D) to named values, each of shape (n, *shape).

    It runs on NumPy: draws are asked for rarely, so that compiling would take longer than it
    could save.
    """

    graph: Graph
    names: tuple[str, ...]
    outputs: list[Any]

    @classmethod
    def of(cls, graph: Graph, named: Sequence[Any], outputs: Sequence[Any]) -> _Draws:
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
        with double_precision(graph.model):
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


def _observed(graph: Graph) -> dict[str, Array]:
    variables = graph.model.observed_RVs
    data = graph.rebuilt([graph.model.rvs_to_values[variable] for variable in variables])
    function = require("pytensor").function([], data, mode=mode_of("numpy"))
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
