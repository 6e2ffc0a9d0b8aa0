"""When to stop: q is near enough to the best Gaussian, or nothing more is gained.

Near enough is a matter of :mod:`scorevi.engine.arrival`, where that can tell. Where it cannot, or
noise hides it, the last part of the effort must have gained nothing, as far as noise lets one tell.

A fit is *level* when neither the ELBO nor the Fisher residual, both of which every batch estimates
for nothing, was better in the last quarter of the gradients than in the quarter before. Windows
that grow with the effort, so that slow progress is not taken for none: what a solver gains while
its effort grows by a third must show. For each of the two quantities the gain between the windows
is estimated with its standard error, and the upper end of its confidence interval is compared with
what is worth waiting for: of the ELBO half of the spread of a single draw, below which a difference
does not matter to anything that is done with draws, but at least a twentieth of a nat and at most
one; of the log Fisher residual a quarter of its spread, or a tenth. Two looks in a row must agree.
Where the noise is so large that it hides gains of many nats, nothing is known to be level.

A fit that is level while independent draws still agree on the way to go
(:func:`scorevi.engine.gains.still_moving`) has not arrived: its steps have become too short. It is
given twice the effort to prove otherwise, and has *stalled* then. So has a fit that is no better
than when it had spent a quarter of its effort, though never level: q wanders, as it does where no
Gaussian comes near.

Where a solver can go on from there with a larger family (:class:`scorevi.solvers.base.Grows`), it
is asked to first; and then says itself when nothing is left to gain.
"""

from __future__ import annotations

import math
from typing import Any, Protocol

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.base.evaluate import Evaluator
from scorevi.base.status import Status
from scorevi.engine.arrival import Distance
from scorevi.engine.gains import gain_between, still_moving
from scorevi.engine.records import Updates
from scorevi.solvers import LowRankReplay, Solver
from scorevi.solvers.base import Grows

TOLERANCE = 0.1
"""In standard deviations, and of their logarithms."""
_EXACT = 1e-7
"""D times the Fisher residual, about four times the KL divergence, of a fit that is exact."""
_ELBO, _LOG_FISHER = (0.5, 0.05, 1.0), (0.25, 0.1, math.inf)
"""What is worth waiting for: in spreads of a single draw, at least, and at most."""
_UNRELATED = 0.9
"""A Fisher residual near 1, that of a score which knows nothing of q."""
_EARLY, _OLDER = (0.125, 0.25), (0.5, 0.75)
"""Windows before the last quarter, in parts of the effort."""
_LEAST_UPDATES, _LEAST_GRADIENTS, _LEAST_IN_WINDOW = 16, 64, 3
_CONFIRMED = 1.05
"""By how much the effort must grow while the fit stays level, so that there are two looks."""
_TWICE = 2.0
"""By how much it must grow where it is level, and yet not known to be within the tolerance."""
_FURTHER = 2.0
"""The same once more where it is known not to be: along a valley much is to be gone for little."""
_NEARLY = 3.0
"""Tolerances from the best Gaussian, at which a larger family may begin."""
_TO_KNOW, _RARELY = 6, 3.0
"""Gradients for each dimension from which on it is asked what the posterior is, and by how much
they must grow until it is asked again."""
_PATIENCE = 1.1
"""By how much the effort must grow before the next look."""


class Watched(Protocol):
    """What the rule sees of a run."""

    @property
    def records(self) -> Updates:
        """Those of all updates so far."""

    @property
    def evaluator(self) -> Evaluator:
        """Who has counted the bad scores."""

    @property
    def state(self) -> Any:
        """The solver's."""

    def grow(self, *, early: bool = False, surely: bool = False) -> bool:
        """Go on with a larger family, if the solver can and will.

        Early, if it clearly should; surely, if it knows beyond doubt what the posterior is.
        """

    def near(self) -> Distance | None:
        """Return how far q is from the best Gaussian, if that is known."""


class StopRule:
    """Looks at the records of a run, and says when to end it."""

    def __init__(
        self,
        dim: int,
        tolerance: float = TOLERANCE,
        *,
        ends: bool = True,
        determined: int | None = None,
    ) -> None:
        self._ends = ends
        self._dim = dim
        self._tolerance = tolerance
        self.next_update = 1.0
        """How many updates there must be for the next look; fixed, not a matter of timing."""
        # ``determined``: the pairs that determine a q, D + 1 of them for a Gaussian.
        pairs = (dim if determined is None else determined - 1) + 2
        self._least_effort = float(max(_LEAST_GRADIENTS, 4 * pairs))
        self._next_ask = float(_TO_KNOW * (dim + 1))
        self._asks = False
        self._level_since = math.inf
        self._wandering_since = math.inf

    def begin(self, run: Watched) -> Status | None:
        """Look at the records of a run that is resumed, as if it had never been interrupted."""
        records, bad_scores = run.records, run.evaluator.bad.total
        if hasattr(run.state, "ending"):
            return self.look(run)
        while self.next_update < len(records.fisher):
            self.judge(records.first(int(self.next_update)), bad_scores)
        return self.look(run)

    def look(self, run: Watched) -> Status | None:
        """Return how to end, or None to go on."""
        if hasattr(run.state, "ending"):
            self.next_update = len(run.records.fisher) + 1
            ending = run.state.ending
            word = "stalled" if run.state.cut else "converged"
            return Status(word, ending) if ending and self._ends else None
        if len(run.records.fisher) < self.next_update:
            return None
        near = run.near()
        status = self.judge(run.records, run.evaluator.bad.total, near)
        if status is not None:
            return None if run.grow() or not self._ends else status
        # What is not the posterior need not be found to the last digit.
        is_level = self._level_since < math.inf
        if is_level or (near is not None and near.is_within(_NEARLY * self._tolerance)):
            run.grow(early=True)
        elif self._asks:
            # What a hierarchy is may be known long before q has arrived.
            run.grow(early=True, surely=True)
        return None

    def end(self, run: Watched) -> None:
        """Do nothing."""

    def judge(
        self, records: Updates, bad_scores: int = 0, near: Distance | None = None
    ) -> Status | None:
        """Return how to end, or None to go on.

        Where there were bad scores a fit that agrees with all good ones need not be exact.
        ``near`` is how far the best Gaussian still is, where that is known.
        """
        count = len(records.fisher)
        if count < self.next_update:
            return None
        self.next_update = max(count + 1, math.ceil(_PATIENCE * count))
        effort = records.num_gradients[-1] - records.num_gradients[0] if count else 0
        self._asks = effort >= self._next_ask
        self._next_ask *= _RARELY if self._asks else 1.0
        if self._dim * records.fisher[-1] < _EXACT and not bad_scores:
            return Status(
                "converged", f"the Fisher residual is {records.fisher[-1]:.1g}: q is exact"
            )
        if near is not None and near.is_within(self._tolerance):
            return Status("converged", str(near))
        spent = np.array(records.num_gradients, dtype=np.float64)
        if count < _LEAST_UPDATES or effort < self._least_effort:
            return None
        elbo, fisher, drift = map(np.array, (records.elbo, records.fisher, records.drift))
        # Where q is known to be near, it is at rest, however noisy its draws are.
        is_near = near is not None and near.is_telling and not near.is_beyond(self._tolerance)
        level = self._judge(spent, elbo, fisher, drift, may_wander=not is_near)
        if near is None or level is None or level != "converged":
            return level
        is_off = near.is_beyond(self._tolerance)
        if effort < (_FURTHER if is_off else 1.0) * _TWICE * self._level_since:
            return None
        if is_off:
            return Status("stalled", f"{level.cause}, yet the scores say that it is off: {near}")
        return Status("converged", f"{level.cause}; {near}, as far as the noise of the draws tells")

    def _judge(
        self, spent: Array, elbo: Array, fisher: Array, drift: Array, *, may_wander: bool
    ) -> Status | None:
        sizes = np.diff(spent, prepend=2.0 * spent[0] - spent[1])
        effort = float(sizes.sum())
        done = np.cumsum(sizes) / effort
        early, older = ((done > begin) & (done <= end) for begin, end in (_EARLY, _OLDER))
        newer = done > _OLDER[1]
        if min(older.sum(), newer.sum()) < _LEAST_IN_WINDOW:
            return None
        if not np.isfinite(elbo).any() and np.median(fisher[newer]) > _UNRELATED:
            return None  # q may grow without end, which only the ELBO would show
        watched = {
            "Fisher residual": (-np.log(np.maximum(fisher, _EXACT / self._dim)), _LOG_FISHER)
        }
        if np.isfinite(elbo).any():
            watched = {"ELBO": (elbo, _ELBO)} | watched

        def nothing(before: Mask, *, nor_lost: bool) -> str:
            """Return what the last quarter gained upon a window before, if it is nothing."""
            gains = {
                name: gain_between(values, sizes, before, newer)
                for name, (values, _) in watched.items()
            }
            if not all(gain.is_below(*watched[name][1]) for name, gain in gains.items()):
                return ""
            # What has become much worse is on its way as well, or was luck before.
            if nor_lost and next(iter(gains.values())).is_loss:
                return ""
            return ", ".join(f"{name} {gain}" for name, gain in gains.items())

        said = nothing(older, nor_lost=True)
        if not said:
            level_since, self._level_since = self._level_since, math.inf
            may_wander = may_wander and early.sum() >= _LEAST_IN_WINDOW
            if not may_wander or not (said := nothing(early, nor_lost=False)):
                self._wandering_since = math.inf
                return None
            # While it was level nothing was gained either.
            self._wandering_since = min(self._wandering_since, level_since, effort)
            if effort < _TWICE * self._wandering_since:
                return None
            return Status("stalled", f"q wanders: four times the gradients gained nothing ({said})")
        self._level_since = min(self._level_since, effort)
        share = still_moving(drift)
        if share is None and effort < _CONFIRMED * self._level_since:
            return None
        if share is None:
            return Status("converged", f"the last quarter of the gradients gained nothing ({said})")
        if effort < _TWICE * self._level_since:
            return None
        return Status(
            "stalled",
            f"nothing is gained any more ({said}), yet in {share:.0%} of the last updates the "
            "draws agreed on the way to go",
        )


def stop_rules(dim: int, tolerance: float, solver: Solver, *, ends: bool) -> list[StopRule]:
    """Return a stop rule for one run, if there is to be any, or a solver must be told to go on."""
    if not (ends or isinstance(solver, Grows)):
        return []
    determined = None
    if isinstance(solver, LowRankReplay):
        determined = solver.pairs_to_determine(dim)
    return [StopRule(dim, tolerance, ends=ends, determined=determined)]
