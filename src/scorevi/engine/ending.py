"""How a run ends, in words; and what is looked at once more when it has."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import numpy as np

from scorevi.base.pairs import Draws
from scorevi.base.status import Status
from scorevi.engine.contradiction import ADVICE, contradiction
from scorevi.engine.gains import FEWEST, still_moving
from scorevi.engine.quality import Quality
from scorevi.families import Family
from scorevi.targets.isolated import IsolatedTarget
from scorevi.targets.observations import blame

if TYPE_CHECKING:
    from scorevi.engine.run import Run

_NEARLY_EXACT = 0.01
"""A Fisher residual at which q has arrived, however few updates there were."""
_LOOKED_AT = ("converged", "stalled", "budget", "time")
"""Ways to end after which a few more evaluations, within the budget, are no trouble."""


def out_of_budget(run: Run) -> Status:
    """Say that no gradient, or no time, is left."""
    late = run.evaluator.late
    if run.num_updates == 0:
        bad = run.evaluator.bad
        return Status(
            "time" if late else "budget",
            f"it ended before the first update, after {run.evaluator.spent} gradients"
            + (f" with {bad.describe()}" if bad.total else ""),
            _blame(run) or "Allow more gradients or time, or choose a start that costs less.",
        )
    if late:
        return Status("time", f"the time ran out after {_so_far(run)}")
    return Status("budget", f"the budget was spent: {_so_far(run)}")


def bad_scores(run: Run, why: str) -> Status:
    """Say that there are too few usable scores."""
    return Status("bad-scores", f"{why}: {run.evaluator.bad.describe()}", _blame(run))


def interrupted(run: Run) -> Status:
    """Say that the user stopped it, and what there is to go on from."""
    go_on = "resume=True (--resume) goes on from the checkpoint."
    if run.num_updates:
        return Status(
            "interrupted",
            f"stopped by the user after {_so_far(run)}",
            f"The fit holds what was reached; {go_on}" if run.can_resume else "",
        )
    return Status(
        "interrupted",
        f"stopped by the user before the first update, after {run.evaluator.spent} gradients",
        go_on if run.can_resume else "There is nothing to go on from: begin again.",
    )


def failed(run: Run, error: np.linalg.LinAlgError) -> Status:
    """Say that the solver could not make its update."""
    return _diverged(run, f"the update failed ({error})")


def unsound(run: Run, q: Family) -> Status:
    """Say what is wrong with the q that an update led to."""
    growth = float(q.log_volume) - run.volume_at_start
    if not math.isfinite(growth + float(q.mean @ q.mean)):
        return _diverged(run, "an update was not finite")
    verb = "grown" if growth > 0 else "shrunk"
    return _diverged(run, f"the approximation has {verb} by more than 1e15 in each dimension")


def conclude(run: Run, quality: Quality, draws: Draws | None) -> str:
    """Add what is to be said at the end to the notes; returns what is worth a warning."""
    evaluator = run.evaluator
    if evaluator.retried:
        run.notes.append(
            f"batched calls of the score raised; {evaluator.retried} points were evaluated again "
            "one by one"
        )
    if evaluator.target.has_log_density and run.status in _LOOKED_AT:
        text = contradiction(draws, run.q.coordinates, evaluator)
        if text is not None:
            run.status = Status("bad-scores", text, ADVICE)
    if run.status is not None and run.status.ok and not run.q.is_full_rank():
        run.status = Status(
            "diverged", f"the approximation is singular to rounding after {_so_far(run)}"
        )
    warning = _unsettled(run, quality)
    if warning:
        run.notes.append(warning)
    return warning


def _unsettled(run: Run, quality: Quality) -> str:
    """Say that q is still on its way, or may be; empty where it is not."""
    share = still_moving(np.array(run.records.drift))
    if share is not None:
        return (
            f"NOT SETTLED: in {share:.0%} of the last updates the draws agreed on the way to go, "
            "where a settled fit has about half. q may be far from the posterior, and much too "
            "narrow. Allow more gradients, or start closer: initial='laplace', a point, or "
            "parameters rescaled to be of order one."
        )
    early = run.status in ("budget", "time") and 0 < run.num_updates < FEWEST
    if not early or quality.fisher < _NEARLY_EXACT:
        return ""
    fisher = f"{quality.fisher:.2g}" if quality.known else "not known"
    return (
        f"NOT SETTLED: {run.num_updates} updates are too few to tell, and the Fisher residual of q "
        f"is {fisher}. q may be far from the posterior. Allow more "
        f"{'time' if run.status == 'time' else 'gradients'}."
    )


def _blame(run: Run) -> str:
    """Say which data are at fault, if it can be told and no exception has told it already."""
    bad, target = run.evaluator.bad, run.evaluator.target
    if not bad.total or bad.counts["raised"]:
        return ""
    # What was to be kept out of this process is not called in it.
    return blame(target, evaluate=not isinstance(target, IsolatedTarget))


def _diverged(run: Run, why: str) -> Status:
    return Status("diverged", f"{why} after {_so_far(run)}; the last sound state is kept")


def _so_far(run: Run) -> str:
    return f"{run.evaluator.spent} gradients and {run.num_updates} updates"
