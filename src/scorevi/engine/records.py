"""What a run leaves behind while it goes on: its records, and what it could go on from."""

from __future__ import annotations

from array import array
from collections.abc import MutableSequence
from typing import Any, NamedTuple

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Account
from scorevi.engine.arrival import Fresh
from scorevi.engine.arrival_pairs import FreshPairs
from scorevi.engine.quality import Drawn


class Updates(NamedTuple):
    """The records of one or more updates, in order."""

    num_gradients: MutableSequence[int]
    seconds: MutableSequence[float]
    elbo: MutableSequence[float]
    fisher: MutableSequence[float]
    drift: MutableSequence[float]

    @classmethod
    def none(cls) -> Updates:
        """Return no records, with room for millions: eight bytes an entry."""
        return cls(array("q"), array("d"), array("d"), array("d"), array("d"))

    def first(self, count: int) -> Updates:
        """Return the records of the first updates."""
        return Updates(
            self.num_gradients[:count],
            self.seconds[:count],
            self.elbo[:count],
            self.fisher[:count],
            self.drift[:count],
        )

    @property
    def length(self) -> int:
        """How many updates; Ctrl-C may have come between one column and the next."""
        return min(len(column) for column in self)

    def extend(self, more: Updates) -> None:
        """Append the records of later updates."""
        self.num_gradients.extend(more.num_gradients)
        self.seconds.extend(more.seconds)
        self.elbo.extend(more.elbo)
        self.fisher.extend(more.fisher)
        self.drift.extend(more.drift)


class ChunksSnapshot(NamedTuple):
    """What compiled chunks of updates depend on."""

    smooth: int
    """Updates of the compiled loop since a bad score interrupted it."""
    stepwise: int
    """Updates to be done step by step before the compiled loop is used again."""
    raised: bool
    """Whether the compiled loop was given up."""


class Snapshot(NamedTuple):
    """All that the rest of a run depends on, between two updates."""

    state: Any
    """The solver's."""
    position: int
    """Rows of noise that were used."""
    search: dict[str, Any]
    """State of the generator that starts and searches draw from."""
    account: Account
    """Gradients spent, and the bad scores among them."""
    num_updates: int
    volume_at_start: float
    slopes: tuple[tuple[float, float], ...]
    """What the check of the score against the log density has seen."""
    notes: tuple[str, ...]
    seconds: float
    """The time so far, that of earlier processes included."""
    compiling: float
    """How much of it does not count towards the limit."""
    stepping: ChunksSnapshot | None
    """Of the way it goes forward, where that remembers anything."""
    recent: tuple[Drawn, ...]
    """The last draws, by which the q that a run ends with is judged."""
    fresh: tuple[Fresh, ...] | tuple[FreshPairs, ...] = ()
    """The last batches, by which its distance from the best Gaussian is."""
    drawn: int = 0
    """Draws of all updates."""
    elsewhere: tuple[Array, ...] = ()
    """Points at which the start has seen other modes."""
    in_vain: tuple[int, int] = (0, 0)
    """How often a solver had no larger family to go on with, and the gradients when it was asked
    last."""
