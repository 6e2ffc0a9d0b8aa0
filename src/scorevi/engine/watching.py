"""Who looks at a run while it goes on: the stop rule, a checkpoint, the progress bar, a study."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from scorevi.base.status import Status

if TYPE_CHECKING:
    from scorevi.engine.run import Run


class Watcher(Protocol):
    """Somebody who looks at a run while it goes on, and may end it."""

    @property
    def next_update(self) -> float:
        """The number of updates at which it wants to look; no chunk of updates goes beyond."""

    def begin(self, run: Run) -> Status | None:
        """Look before the first update; may restore the run from elsewhere, or end it."""

    def look(self, run: Run) -> Status | None:
        """Look when the start is made, and after each update or chunk of them; may end it."""

    def end(self, run: Run) -> None:
        """Close up when the run has ended, however that came to pass."""
