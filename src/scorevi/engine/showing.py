"""The progress bar as a watcher of a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scorevi.base.progress import Show

if TYPE_CHECKING:
    from scorevi.engine.run import Run


class Showing(NamedTuple):
    """Shows how far a run has come."""

    show: Show
    before: int = 0
    """Gradients of runs before this one."""
    next_update: float = math.inf

    def begin(self, run: Run) -> None:
        """Do nothing."""

    def look(self, run: Run) -> None:
        """Show the last record."""
        records = run.records
        self.show(self.before + run.evaluator.spent, records.elbo[-1:], records.fisher[-1:])

    def end(self, run: Run) -> None:
        """Do nothing."""
