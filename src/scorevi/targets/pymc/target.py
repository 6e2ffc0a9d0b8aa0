"""A compiled PyTensor function, from theta to log density and score, as a target."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Evaluation, Failure, Parameter, describe, failure
from scorevi.base.variables import Variables


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
    thread_safe = False
    """PyTensor's functions compute in memory of their own, which two threads would share."""

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


def _rebuilt(
    dim: int, parameters: tuple[Parameter, ...], variables: Variables, function: Any
) -> PymcTarget:
    function.trust_input = True
    target = PymcTarget(dim, parameters, variables, bare(function), function)
    with contextlib.suppress(Exception):  # numba compiles on the first call; the rest is as before
        target.log_density_and_score(np.zeros(dim))
    return target


def bare(function: Any) -> Callable[[Array], tuple[Any, Any]]:
    """Return what a PyTensor function runs, without what it does around it."""
    # theta is its only input, because all else is constant, so the code that numba compiled can
    # be called as it is. PyTensor's own calls cost as much again on small models.
    return getattr(function.vm, "jit_fn", function)  # type: ignore[no-any-return]
