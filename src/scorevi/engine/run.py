"""The only loop.

It owns what solvers do not: randomness, target calls, counting, timing, finiteness, and the ways
to end. Whoever wants to look on the way, or to end the run, is a :class:`Watcher`: the stop rule,
a checkpoint, the progress bar, a study.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted, Interrupted, TooManyBadScores
from scorevi.base.noise import RESTART, SEARCH, Noise, stream
from scorevi.base.status import Status
from scorevi.base.target import Evaluation, Target
from scorevi.base.threads import one_thread
from scorevi.engine import ending
from scorevi.engine.arrival import Arrival, Distance
from scorevi.engine.arrival_pairs import ArrivalOfPairs
from scorevi.engine.batches import Batches, NothingGood, Taken
from scorevi.engine.closing import closing
from scorevi.engine.growing import larger
from scorevi.engine.quality import Drawn, Quality, Recent
from scorevi.engine.records import Snapshot, Updates
from scorevi.engine.ridge import improper
from scorevi.engine.settings import Settings
from scorevi.engine.sign import SignCheck
from scorevi.engine.stepping import Stepping, stepping
from scorevi.engine.watching import Watcher
from scorevi.families import Family, is_sound
from scorevi.solvers.base import Batch, Grows, Remembers, Solver, family_of
from scorevi.solvers.low_rank import LowRankReplay
from scorevi.starts.start import Initial, Near, NoFinitePoint, search, start

_LATER = 1.1
"""By how much the gradients must grow, to the power of how often that was in vain, until a solver
is asked again for more than q: to find nothing takes as long as many gradients."""
_FIRST_LOOK = 8
"""Updates before the scores are asked for a direction along which the posterior has no end."""


class Run:
    """One fit under way.

    Attributes
    ----------
    q
        The current approximation.
    status
        How the run ended; None while it goes on.
    records
        ELBO, Fisher residual and the like of every update.
    notes
        What else the user should know.
    info
        What the solver had to say of the last step.
    """

    def __init__(self, target: Target, solver: Solver, settings: Settings) -> None:
        self.solver, self.settings = solver, settings
        self.evaluator = Evaluator(target, settings.max_gradients)
        self.records = Updates.none()
        self.notes: list[str] = []
        self.num_updates = 0
        self.batch_size = solver.batch_size_for(target.dim)
        self.info: Any = None
        self.status: Status | None = None
        self.compiling = 0.0
        """Seconds that went into compiling, which do not count towards the limit."""
        self.state: Any = None
        """The solver's; None before the start is made."""
        self.q: Family = family_of(solver).standard(target.dim)
        self.volume_at_start = 0.0
        self.noise = Noise(settings.entropy, self.q.noise_width)
        self._batches = Batches(self.evaluator, self.noise)
        self.can_resume = False
        """Whether there is a file to go on from; what is advised at the end depends on it."""
        self.ahead = math.inf
        """Updates until somebody wants to look."""
        self._stepping: Stepping = stepping(self)
        self._began: float | None = None
        self._seconds_before = 0.0
        self._rng = stream(settings.entropy, SEARCH)
        self._elsewhere: tuple[Array, ...] = ()  # points at which the start has seen other modes
        self._sign = SignCheck()
        self._recent = Recent()
        self._next_look = _FIRST_LOOK
        self._in_vain = 0, 0
        """How often the solver had nothing more than q, and the gradients when it last had not."""
        # Compiled loops do not show their batches.
        self._arrival: Any = None if solver.compilable else _arrival_of(solver)
        self.distance: Distance | None = None
        """How far q was from the best Gaussian when somebody asked last; None if nobody did."""

    @property
    def seconds(self) -> float:
        """The time since the run began to go forward, that of earlier processes included."""
        here = 0.0 if self._began is None else time.perf_counter() - self._began
        return self._seconds_before + here

    def from_elsewhere(self, index: int) -> Run:
        """Return a run like this one, with a seed and a start of its own."""
        target = self.evaluator.target
        rng = stream(self.settings.entropy, RESTART, index)
        point = rng.uniform(-2.0, 2.0, target.dim)
        initial: Initial = Near(point) if target.has_log_density else point
        entropy = int(rng.integers(2**63))
        return Run(target, self.solver, self.settings._replace(entropy=entropy, initial=initial))

    def complete(self, *watchers: Watcher) -> None:
        """Go forward to the end; ``self.status`` then says how it ended."""
        try:
            for _ in self.updates(*watchers):
                pass
        except KeyboardInterrupt:
            self.status = ending.interrupted(self)
        finally:
            for watcher in watchers:
                watcher.end(self)

    def updates(self, *watchers: Watcher) -> Iterator[Updates]:
        """Go forward until the run ends, and yield the records of what was done.

        The first of a run that was not restored has no records: it says that the start is made.
        The clock starts here: a run may have to wait for its turn.
        """
        self._began = time.perf_counter()
        try:
            for watcher in watchers:
                self.status = self.status or watcher.begin(self)
            self.set_deadline()
            if self.state is None:
                # What is not finite is looked for and counted; it need not be warned of as well.
                with one_thread(self.q.dim), np.errstate(all="ignore"):
                    self._start()
                yield Updates.none()
            self._let_look(watchers)
            self._stepping.prepare(self)
            while self.status is None:
                with one_thread(self.q.dim), np.errstate(all="ignore"):
                    updates = self._stepping.advance(self)
                self.records.extend(updates)
                self._let_look(watchers)
                yield updates
        except Exhausted:
            self.status = ending.out_of_budget(self)
        except NoFinitePoint:
            self.status = ending.bad_scores(self, "no point with a finite score was found")
        except TooManyBadScores:
            self.status = ending.bad_scores(self, "more than 90 % of the last 100 scores were bad")
        except (Interrupted, KeyboardInterrupt):
            self.status = ending.interrupted(self)

    def grow(self, *, early: bool = False, surely: bool = False) -> bool:
        """Let a solver that can go on with more than its family began with do so, if it will.

        That begins a stage of its own: how far q is from the best one of its kind is not known.
        """
        if not isinstance(self.solver, Grows):
            return False
        draws = self._recent.draws
        if draws is None or not self.evaluator.target.has_log_density:
            return False
        if surely and not self.solver.may_know(self.q.dim, self.evaluator.remaining):
            return False
        times, spent = self._in_vain
        if early and self.evaluator.spent < spent * _LATER**times:
            return False
        sources = self.evaluator, self._rng
        points = self._elsewhere
        state = larger(self.solver, self.state, draws, *sources, points, early=early, surely=surely)
        if state is None:
            if not surely:
                self._in_vain = times + 1, self.evaluator.spent
            return False
        self._go_on_with(state)
        self._size_batch()
        return True

    def near(self) -> Distance | None:
        """Return how far q is from the best Gaussian, where batches are seen."""
        self.distance = None if self._arrival is None else self._arrival.near(self.q)
        return self.distance

    def notice(self, batch: Batch) -> None:
        """Keep what a batch says of the q that it was drawn from."""
        if self._arrival is not None:
            self._arrival.add(self.q, batch)

    def conclude(self) -> tuple[Quality, str]:
        """Look once more at what was reached; returns what q is worth, and what to warn of."""
        ended = self.status in ("interrupted", "bad-scores")
        may_draw = not (self.num_updates == 0 or ended)
        with one_thread(self.q.dim):
            quality = closing(self.q, self._recent, self._batches if may_draw else None)
            return quality, ending.conclude(self, quality, self._recent.draws)

    def interrupt(self) -> None:
        """Ask the run to end; any thread may, and it does before the next evaluation."""
        self.evaluator.interrupted.set()

    def snapshot(self) -> Snapshot:
        """Return what :meth:`restore` needs, by reference: no array of a run is ever changed."""
        return Snapshot(
            state=self.state,
            position=self.noise.position,
            search=dict(self._rng.bit_generator.state),
            account=self.evaluator.account,
            num_updates=self.num_updates,
            volume_at_start=self.volume_at_start,
            slopes=tuple(self._sign.slopes),
            notes=tuple(self.notes),
            seconds=self.seconds,
            compiling=self.compiling,
            stepping=self._stepping.snapshot(),
            recent=self._recent.batches,
            fresh=() if self._arrival is None else self._arrival.batches,
            drawn=0 if self._arrival is None else self._arrival.total,
            elsewhere=self._elsewhere,
            in_vain=self._in_vain,
        )

    def restore(self, snapshot: Snapshot, records: Updates) -> None:
        """Become the run that the snapshot was taken of; limits and solver stay as they are."""
        self.state, self.q = snapshot.state, snapshot.state.q
        self.noise.position = snapshot.position
        self._rng.bit_generator.state = snapshot.search
        self.evaluator.restore(snapshot.account)
        self.num_updates = snapshot.num_updates
        self.volume_at_start = snapshot.volume_at_start
        self._elsewhere = snapshot.elsewhere
        self._in_vain = snapshot.in_vain
        self._sign = SignCheck(snapshot.slopes)
        self.notes = list(snapshot.notes)
        self._seconds_before = snapshot.seconds
        self.compiling = snapshot.compiling
        self._stepping.restore(snapshot.stepping)
        self._recent = Recent(snapshot.recent)
        self._next_look = _next_look(self.num_updates)
        if hasattr(self.state, "ending"):
            self._arrival = None
        elif self._arrival is not None:
            self._arrival = _arrival_of(self.solver, snapshot.fresh, snapshot.drawn)
        self.records = Updates.none()
        self.records.extend(records)
        self._size_batch()

    def set_deadline(self) -> None:
        """Put the end of the time to where the limit and what does not count put it."""
        if self.settings.max_seconds is not None:
            left = self.settings.max_seconds + self.compiling - self.seconds
            self.evaluator.deadline = time.perf_counter() + left

    def take_batch(self, evaluation: Evaluation | None) -> Taken:
        """Return a full batch with good scores and what it says of q, moving q if need be.

        ``evaluation`` is the batch's if it is already known and paid for.
        """
        try:
            taken = self._batches.take(
                self._drawn_from, self.batch_size, evaluation, first=self.num_updates == 0
            )
        except NothingGood:
            q, note = search(self.evaluator, self.q.coordinates, self._rng)
            self.notes.append(note)
            self._begin(q)
            return self.take_batch(None)
        batch = taken.batch
        if batch.log_density is not None and not self._sign.done:
            self.status = self._sign.add_rows(batch.theta, batch.score, batch.log_density)
        return taken

    def accept(self, state: Any, updates: int, draws: Drawn) -> None:
        """Make the new state the current one, or end the run if it cannot be."""
        if not is_sound(state.q, self.volume_at_start):
            self.status = ending.unsound(self, state.q)
            return
        self.state, self.q = state, state.q
        self.num_updates += updates
        self._recent.add(draws)
        if self.num_updates >= self._next_look:
            self._look_for_ridge()
        self._size_batch()

    @property
    def _drawn_from(self) -> Family:
        """What the next batch is drawn from: q, unless the solver wants to see more."""
        proposal: Family | None = getattr(self.state, "proposal", None)
        return self.q if proposal is None else proposal

    def _let_look(self, watchers: tuple[Watcher, ...]) -> None:
        if watchers:
            with one_thread(self.q.dim):
                for watcher in watchers:
                    said = watcher.look(self)
                    self.status = self.status or said
            self.ahead = min(watcher.next_update for watcher in watchers) - self.num_updates

    def _start(self) -> None:
        begin = start(self.settings.initial, self.evaluator, self._rng, self.solver)
        self.notes += begin.notes
        self._elsewhere = begin.elsewhere
        self._begin(begin.q)
        if self.evaluator.target.has_log_density:
            self.status = self._sign.add(*begin.seen)
        if begin.state is not None:
            self._go_on_with(begin.state)
        elif begin.pairs and isinstance(self.solver, Remembers):
            self.state = self.solver.remember(self.state, begin.pairs)
        self._size_batch()

    def _go_on_with(self, state: Any) -> None:
        """Take a state that something is known by already, perhaps of a larger family."""
        self.state, self.q = state, state.q
        if hasattr(state, "ending"):
            self._arrival = self.distance = None

    def _begin(self, q: Family) -> None:
        self.state = self.solver.init(q)
        # Its q, not ours: a solver may want another square root of the same covariance.
        self.q = self.state.q
        self.volume_at_start = float(q.log_volume)

    def _size_batch(self) -> None:
        """Heed a state that says how large a batch it wants; the last one may be what is left."""
        wanted = getattr(self.state, "batch_size", None)
        if wanted is not None:
            self.batch_size = int(max(1, min(wanted, self.evaluator.remaining)))

    def _look_for_ridge(self) -> None:
        """Look, whenever the number of updates doubles, for a direction without an end."""
        self._next_look = _next_look(self.num_updates)
        self.status = improper(self._recent.draws, self.q.coordinates, self.evaluator)


def _arrival_of(solver: Solver, fresh: Any = (), drawn: int = 0) -> Arrival | ArrivalOfPairs:
    """Return what tells how far q is from the best of its family, given what was taken in."""
    if isinstance(solver, LowRankReplay):
        return ArrivalOfPairs(fresh, drawn, least=solver.pairs_to_tell())
    return Arrival(fresh, drawn)


def _next_look(num_updates: int) -> int:
    """Return the next power of two from the first look on."""
    return max(_FIRST_LOOK, 1 << num_updates.bit_length())
