"""The contract between the engine and a solver."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple, Protocol, runtime_checkable

from scorevi.base.arrays import AnyArray
from scorevi.base.pairs import Draws, Pair
from scorevi.families import Family, Gaussian, Points


class Batch(NamedTuple):
    """Draws from the current q and what the target says there. B rows each."""

    z: AnyArray
    """The draws in whitened coordinates, (B, D); for a Gaussian the noise itself.

    See :class:`scorevi.families.Points`.
    """
    offset: AnyArray
    """factor @ z, (B, D), for families with one factor."""
    theta: AnyArray
    """The draws, (B, D)."""
    score: AnyArray
    """The target's scores g at theta, (B, D)."""
    whitened_score: AnyArray
    """h = factor.T @ g, (B, D). The scores of q and target agree where h + z = 0."""
    log_density: AnyArray | None
    """The target's log densities at theta, (B,), where it has them."""
    log_q: AnyArray
    """Those of q, normalised, (B,)."""

    @classmethod
    def of(cls, q: Family, points: Points, score: AnyArray, log_density: AnyArray | None) -> Batch:
        """Put together what q and what the target say of the same draws."""
        white = q.pull(points, score)
        return cls(points.z, points.offset, points.theta, score, white, log_density, points.log_q)


class State(Protocol):
    """What the next step needs; always has the current approximation."""

    @property
    def q(self) -> Any:
        """The current approximation, of the solver's family."""


@runtime_checkable
class Solver(Protocol):
    """An algorithm: pure functions of a state and a batch, with its settings.

    The engine owns randomness, target calls, counting, timing and finiteness. A solver is handed
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

    def init(self, q: Any) -> Any:
        """Return the state to start from; q is of the solver's family."""

    def step(self, state: Any, batch: Batch) -> tuple[Any, Any]:
        """Return the next state, and what a person may want to know of the step."""


def family_of(solver: Solver) -> type[Family]:
    """Return the family whose q a solver moves: its attribute ``family``, else the Gaussian."""
    family: type[Family] = getattr(solver, "family", Gaussian)
    return family


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


class Elsewhere(Protocol):
    """A Gaussian at another mode."""

    @property
    def q(self) -> Gaussian:
        """Which."""

    @property
    def elbo(self) -> float:
        """What it holds."""

    @property
    def pairs(self) -> Sequence[Pair]:
        """What it was found by."""


@runtime_checkable
class Grows(Protocol):
    """A solver that may go on, where q has arrived and is not enough, with more than it began."""

    @property
    def searches(self) -> bool:
        """Whether other modes are looked for even where q explains its draws."""

    def may_know(self, dim: int, remaining: float) -> bool:
        """Whether it pays to ask what is :meth:`known`, with so many gradients left."""

    def known(self, state: Any) -> Any | None:
        """Return the state to go on with where pairs say beyond doubt what the posterior is.

        However far q may still be. None where they do not.
        """

    def grown(
        self,
        state: Any,
        draws: Draws,
        modes: Sequence[Elsewhere] = (),
        *,
        early: bool,
        surely: bool = False,
    ) -> Any | None:
        """Return the state to go on with, given the last draws of the run and other modes; or None.

        ``early`` says that q may still gain, and ``surely`` that nothing but what is known beyond
        doubt will do.

        Such a state has ``ending``: why nothing is left to gain, empty while something is; and
        ``cut``, whether that is because a ceiling was reached. It may
        have ``proposal``, what the next batch is drawn from; and its steps say, as ``elbo`` and
        ``fisher``, what the batch tells of q.
        """
