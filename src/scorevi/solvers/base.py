"""The contract between the driver and a solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from scorevi._arrays import AnyArray
from scorevi.evaluate import Pair
from scorevi.gaussian import Gaussian


class Batch(NamedTuple):
    """Draws from the current q and what the target says there. B rows each."""

    z: AnyArray
    """Standard normal noise (B, D), the draws in whitened coordinates."""
    offset: AnyArray
    """factor @ z, (B, D)."""
    theta: AnyArray
    """The draws, mean + offset, (B, D)."""
    score: AnyArray
    """The target's scores g at theta, (B, D)."""
    whitened_score: AnyArray
    """h = factor.T @ g, (B, D). The scores of q and target agree where h + z = 0."""
    log_density: AnyArray | None
    """The target's log densities at theta, (B,), where it has them."""


class State(Protocol):
    """What the next step needs; always has the current approximation."""

    @property
    def q(self) -> Gaussian:
        """The current approximation."""


@runtime_checkable
class Solver(Protocol):
    """An algorithm: pure functions of a state and a batch, with its settings.

    The driver owns randomness, target calls, counting, timing and finiteness. A solver is handed
    finite batches only. It is written in terms of the batch's own array library, so that the same
    code runs in NumPy and inside a compiled JAX loop.
    """

    @property
    def name(self) -> str:
        """The word that selects it."""

    @property
    def compilable(self) -> bool:
        """Whether ``step`` can run inside a compiled JAX loop, with batches of one size."""

    def batch_size_for(self, dim: int) -> int:
        """Return the number of draws a step wants in ``dim`` dimensions.

        A solver whose batches vary has an entry ``batch_size`` in its state, which goes before.
        """

    def init(self, q: Gaussian) -> Any:
        """Return the state to start from."""

    def step(self, state: Any, batch: Batch) -> tuple[Any, Any]:
        """Return the next state, and what a person may want to know of the step."""


@runtime_checkable
class HasVariants(Protocol):
    """A solver with a setting of which several values may be given, to run them all."""

    def variants(self) -> Sequence[Any]:
        """Return one solver for each value."""


@runtime_checkable
class Remembers(Protocol):
    """A solver that can use pairs which others paid for, such as the search for a mode."""

    def remember(self, state: Any, pairs: Sequence[Pair]) -> Any:
        """Return the state with the pairs taken in."""
