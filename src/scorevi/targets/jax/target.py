"""A compiled log density and its gradient as a target."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.target import Evaluation, Parameter, describe
from scorevi.base.variables import Variables
from scorevi.targets.jax.pieces import in_pieces, piece_sizes


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


def _rebuilt(
    dim: int,
    parameters: tuple[Parameter, ...],
    variables: Variables,
    batched: Callable[[Any], tuple[Any, Any]],
) -> JaxTarget:
    return JaxTarget(dim, parameters, variables, batched, require("jax").jit(batched))
