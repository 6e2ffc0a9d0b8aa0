"""The progress bar as a watcher of a run."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, NamedTuple

from scorevi.base.fitting import Look, Show
from scorevi.families import Mixture

if TYPE_CHECKING:
    from scorevi.engine.run import Run

_ENDS = ("converged", "stalled", "budget", "time")


class Showing(NamedTuple):
    """Shows how far a run has come."""

    show: Show
    before: int = 0
    """Gradients of runs before this one."""
    next_update: float = math.inf

    def begin(self, run: Run) -> None:
        """Do nothing."""

    def look(self, run: Run) -> None:
        """Show the last record, and the distance that the stop rule found last."""
        records, near = run.records, run.distance
        distance = max(near.mean, near.log_sd) if near and near.is_telling else math.inf
        self.show(
            Look(
                spent=self.before + run.evaluator.spent,
                elbo=records.elbo[-1] if records.elbo else math.nan,
                fisher=records.fisher[-1] if records.fisher else math.nan,
                distance=distance,
                components=len(run.q.components) if isinstance(run.q, Mixture) else 1,
                done=run.status in _ENDS,
            )
        )

    def end(self, run: Run) -> None:
        """Show what it came to."""
        self.look(run)
