"""The columns that Stan writes, sorted into variables: names, shapes, and values at draws."""

from __future__ import annotations

import re
import warnings
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array
from scorevi.base.status import FitWarning
from scorevi.base.target import Parameter
from scorevi.base.variables import Variables
from scorevi.targets.points import Inverse

_LOG_LIKELIHOOD = "log_lik"
"""What programs call their pointwise log likelihood, by convention, or begin its name with."""


class Output(NamedTuple):
    """A variable among the columns that Stan writes."""

    name: str
    columns: NDArray[np.intp]
    """Of the variable's shape: which column holds each entry."""


def outputs_of(names: Sequence[str]) -> list[Output]:
    """Sort columns named ``beta.1.2`` into variables; indices count from 1, in any order.

    Parts of a tuple or of a complex number become variables of their own: ``pair:1``, ``z.real``.

    Examples
    --------
    >>> [(name, columns.tolist()) for name, columns in outputs_of(["a", "b.1.1", "b.2.1"])]
    [('a', 0), ('b', [[1], [2]])]
    """
    entries: dict[str, dict[tuple[int, ...], int]] = {}
    for column, name in enumerate(names):
        index = tuple(int(text) - 1 for text in re.findall(r"\.(\d+)", name))
        entries.setdefault(re.sub(r"\.\d+", "", name), {})[index] = column
    outputs = []
    for name, columns in entries.items():
        shape = tuple(np.array(list(columns)).max(axis=0) + 1)
        where = np.zeros(shape, dtype=np.intp)
        for index, column in columns.items():
            where[index] = column
        outputs.append(Output(name, where))
    return outputs


def unconstrained(model: Any) -> tuple[Parameter, ...]:
    """Return the parameters' names with their sizes on the unconstrained space."""
    return tuple(
        Parameter(name, columns.shape if columns.ndim <= 1 else (columns.size,))
        for name, columns in outputs_of(model.param_unc_names())
    )


def named_variables(model: Any, **more: Any) -> Variables:
    """Return the program's names and scales; ``more`` as in :class:`Variables`."""
    parameters = outputs_of(model.param_names())
    everything = outputs_of(model.param_names(include_tp=True, include_gq=True))
    derived = everything[len(parameters) :]
    likelihoods = [output for output in derived if output.name.startswith(_LOG_LIKELIHOOD)]

    def read(outputs: Sequence[Output], theta: Array, seed: int | None) -> dict[str, Array]:
        values = _written(model, theta, seed)
        return {name: values[:, columns] for name, columns in outputs}

    def constrain(theta: Array) -> dict[str, Array]:
        return read(parameters, theta, None)

    def unconstrain(values: dict[str, Array]) -> Array:
        flat = np.empty(model.param_num())
        for name, columns in parameters:
            flat[columns] = values[name]
        return np.asarray(model.param_unconstrain(flat))

    variables = Variables(
        constrain=constrain,
        unconstrain=Inverse(unconstrain, constrain, unconstrained(model)),
        derive=(lambda theta, seed: read(derived, theta, seed)) if derived else None,
        log_likelihood=(lambda theta: read(likelihoods, theta, 0)) if likelihoods else None,
        likelihoods=[output.name for output in likelihoods],
        **more,
    )
    variables.check_names(
        {name: columns.shape for name, columns in everything},
        {name: value.shape for name, value in variables.observed.items()},
    )
    return variables


def _written(model: Any, theta: Array, seed: int | None) -> Array:
    """Return all that Stan writes at the rows of theta: with a seed, derived quantities too."""
    everything = seed is not None
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    values = np.empty((len(theta), model.param_num(include_tp=everything, include_gq=everything)))
    rng = None
    if seed is not None:
        rng = model.new_rng(int(np.random.SeedSequence(seed).generate_state(1)[0]))
    failed = []
    for point, out in zip(theta, values, strict=True):
        try:
            model.param_constrain(
                point, include_tp=everything, include_gq=everything, out=out, rng=rng
            )
        except RuntimeError as error:
            out[:] = np.nan
            failed.append(str(error).strip())
    if failed:
        warnings.warn(
            f"At {len(failed)} of {len(theta)} draws Stan could not compute the "
            f"{'derived quantities' if everything else 'parameters'}, which are NaN there. It "
            f"says: {failed[0]}",
            FitWarning,
            stacklevel=2,
        )
    return values
