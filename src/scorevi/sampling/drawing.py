"""From q to draws of the posterior: what is looked at, weights where they do, NUTS where not."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Literal, NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, Array
from scorevi.base.evaluate import BadScores, Exhausted, TooManyBadScores
from scorevi.base.status import Status
from scorevi.families import as_gaussian
from scorevi.sampling import importance, rounds
from scorevi.sampling.asked import Asked
from scorevi.sampling.choosing import sampler_for
from scorevi.sampling.looking import Look, look
from scorevi.sampling.pool import Pool
from scorevi.sampling.rounds import Course, Limits
from scorevi.sampling.starting import starts
from scorevi.trust.examination import Examination
from scorevi.trust.verdict import Reason
from scorevi.trust.weights import FEWEST

Method = Literal["importance", "nuts"]
METHODS: tuple[Method, ...] = ("importance", "nuts")
_ELSE = (
    "Reparametrise: of a hierarchy try the other form, centered or non-centered; or another seed=, "
    "from which chains start elsewhere, or a larger max_gradients=."
)
_INTERRUPTED = "It holds what there was; with checkpoint= it could have gone on."
_AT_ONCE = 4000
"""Draws of q that are made in one round at least, if they are needed."""
_BAD = 0.5
"""The share of bad scores from which on they are what ended it."""


class State(NamedTuple):
    """A sample under way, between two rounds: all that the next one needs to know."""

    look: Look | None = None
    """What was found before; its draws of q grow where they are weighted."""
    weighing: bool = True
    """Whether by weights; else by NUTS."""
    course: Course | None = None
    """The chains, where it is by NUTS."""
    looked: int = 0
    """Gradients of what was looked at, beside the draws of q."""
    weighed: int = 0
    """Gradients of draws of q."""

    @property
    def spent(self) -> int:
        """Gradients so far."""
        course = self.course
        more = 0 if course is None else course.adaptation_gradients + course.draws_gradients
        return self.looked + self.weighed + more


class Drawn(NamedTuple):
    """What there is in the end."""

    method: str
    """``importance`` or ``nuts``; empty where there was neither."""
    sampler: str
    """By which NUTS ran: ``nutpie`` or ``blackjax``; empty where it did not."""
    theta: Array
    """(chain, draw, D)."""
    stats: dict[str, AnyArray]
    """By ArviZ's names (chain, draw)."""
    ess: Array
    r_hat: Array
    khat: float
    """Of the weights and of weights times any parameter or its square; NaN for NUTS."""
    gradients: dict[str, int]
    """By phase."""
    bad_scores: BadScores
    reasons: tuple[Reason, ...]
    """What no draws can mend."""
    against_weights: str
    q_is_right: bool
    status: Status


class Drawing:
    """One sample under way.

    Parameters
    ----------
    exam
        The fit, as it is examined; its evaluator has the budget and the deadline of all.
    asked
        What there is to be in the end.
    method
        ``"importance"`` or ``"nuts"`` alone; None for the cheapest that is sound.
    """

    def __init__(self, exam: Examination, asked: Asked, method: Method | None = None) -> None:
        self.exam = exam
        self.asked = asked
        self.method = method
        self.state = State()
        self.status: Status | None = None

    @property
    def found(self) -> tuple[Reason, ...]:
        """What no draws by this q can mend."""
        return () if self.state.look is None else self.state.look.reasons

    @property
    def is_by_chains(self) -> bool:
        """Whether it is by NUTS, though nobody asked for that."""
        return self.method is None and self.state.look is not None and not self.state.weighing

    @property
    def _left(self) -> int:
        most = self.exam.evaluator.max_gradients
        assert most is not None
        return most - self.state.spent

    def steps(self) -> Iterator[str]:
        """Go on from the state to the end, round by round; yields what each was."""
        evaluator = self.exam.evaluator
        evaluator.spent = self.state.spent
        try:
            yield from self._phases()
        except KeyboardInterrupt:
            self.status = Status("interrupted", "the user stopped it", _INTERRUPTED)
        except Exhausted:
            self.status = self._exhausted()
        except TooManyBadScores:
            self.status = Status("bad-scores", "nearly all of the last scores were bad")

    @property
    def least(self) -> float:
        """The effective sample of the worst parameter; NaN where chains have not begun."""
        return self.state.course.least if self.state.course is not None else np.nan

    def _phases(self) -> Iterator[str]:
        """Make one round after another, and say what it was."""
        q, evaluator = self.exam.q, self.exam.evaluator
        if self.state.look is None:
            found = look(self.exam)
            by_weights = self.method == "importance" or not found.against_weights
            self.state = State(
                found,
                self.method != "nuts" and by_weights,
                looked=evaluator.spent - found.pool.own,
                weighed=found.pool.own,
            )
            yield "looking"
        while self.state.weighing:
            pool, chosen = self._pool, self._weighed()
            more = importance.more_needed(pool, chosen, self.asked)
            if not more:
                cause = f"every parameter has an effective sample of {chosen.ess.min():.0f} or more"
                self.status = Status("converged", cause)
                return
            worth_it = importance.is_worth_it(len(pool.theta) + more, self.asked)
            if self.method is None and not worth_it:
                why = "the importance weights leave too few of the draws"
                if not chosen.is_sound:
                    why = f"k-hat of the weights, for one of the parameters, is {chosen.khat:.2f}"
                self._turn_to_nuts(why)
                break
            before = evaluator.spent
            # No more at once than there are, so that limits are heeded and a checkpoint is kept.
            more = min(more, max(len(pool.theta), _AT_ONCE))
            pool = pool.with_own(q, more, self.exam.seed, evaluator)
            assert self.state.look is not None
            self.state = self.state._replace(
                look=self.state.look._replace(pool=pool),
                weighed=self.state.weighed + evaluator.spent - before,
            )
            yield "weighing"
        yield from self._chains()

    @property
    def _pool(self) -> Pool:
        assert self.state.look is not None
        return self.state.look.pool

    def _turn_to_nuts(self, why: str) -> None:
        assert self.state.look is not None
        self.state = self.state._replace(
            weighing=False, look=self.state.look._replace(against_weights=why)
        )

    def _chains(self) -> Iterator[str]:
        pool, white = self._pool, as_gaussian(self.exam.q)
        evaluator, asked = self.exam.evaluator, self.asked
        if np.isfinite(pool.log_p).sum() < self.asked.chains:
            self.status = Status("bad-scores", "hardly a draw of the fit has a usable log density")
            return
        if self.state.course is None:
            begun = rounds.begin(self._starts(0), sampler_for(evaluator.target))
            self.state = self.state._replace(course=begun)
        while True:
            course = self.state.course
            assert course is not None
            if rounds.is_enough(course, asked):
                cause = f"every parameter has an effective sample of {course.least:.0f} or more"
                self.status = Status("converged", cause)
                return
            why = rounds.why_hopeless(course, asked, self._left)
            if why:
                again = rounds.begin_again(course, self._starts(course.attempts))
                if again is None:
                    self.status = Status("stalled", why, _ELSE)
                    return
                course = again
            limits = Limits(self._left, evaluator.deadline)
            course, cut = rounds.advance(course, white, evaluator.target, asked, limits)
            self.state = self.state._replace(course=course)
            evaluator.spent = self.state.spent
            yield "adapting" if course.adapting else "drawing"
            if cut == "interrupted":
                raise KeyboardInterrupt
            if cut and not rounds.is_enough(course, asked):
                raise Exhausted

    def _starts(self, attempt: int) -> Array:
        """Return where the chains begin: draws that are far apart, others in each attempt."""
        pool, asked = self._pool, self.asked
        white = as_gaussian(self.exam.q)
        return starts(pool.theta, pool.log_ratio, white, asked.chains, asked.seed + attempt)

    def _exhausted(self) -> Status:
        evaluator = self.exam.evaluator
        if evaluator.late:
            return Status("time", "the time was over", "Raise max_seconds.")
        course = self.state.course
        bad = 0 if course is None else sum(course.bad_counts.values())
        if bad > _BAD * self.state.spent:
            return Status("bad-scores", f"{bad} of the chains' scores were bad")
        most = f"{evaluator.max_gradients} gradients, those of the fit not counted,"
        return Status("budget", f"{most} were not enough", f"Raise max_gradients. {_ELSE}")

    def _weighed(self) -> importance.Weighed:
        return importance.weigh(self.exam.q, self._pool, self.asked)

    def drawn(self) -> Drawn:
        """Return what there is."""
        state, dim = self.state, self.exam.q.dim
        found, course = state.look, state.course
        empty = Drawn(
            method="",
            sampler="",
            theta=np.empty((self.asked.chains, 0, dim)),
            stats={},
            ess=np.zeros(dim),
            r_hat=np.full(dim, np.nan),
            khat=np.nan,
            gradients={"looking": state.looked, "weights": state.weighed},
            bad_scores=BadScores(),
            reasons=self.found,
            against_weights="" if found is None else found.against_weights,
            q_is_right=found is not None and found.is_right,
            status=self.status or Status("interrupted", "the user stopped it", _INTERRUPTED),
        )
        if course is not None:
            drawn = empty._replace(
                method="nuts",
                sampler=course.sampler,
                gradients=empty.gradients
                | {"adaptation": course.adaptation_gradients, "draws": course.draws_gradients},
                bad_scores=BadScores(Counter(course.bad_counts), list(course.bad_examples)),
            )
            if not course.theta.shape[1]:
                return drawn
            return drawn._replace(
                theta=course.theta, stats=course.stats, ess=course.ess, r_hat=course.r_hat
            )
        if found is None or not state.weighing or np.isfinite(self._pool.log_p).sum() < FEWEST:
            return empty
        chosen = self._weighed()
        return empty._replace(
            method="importance",
            theta=chosen.theta,
            stats={"lp": chosen.log_density},
            ess=chosen.ess,
            r_hat=chosen.r_hat,
            khat=chosen.khat,
        )
