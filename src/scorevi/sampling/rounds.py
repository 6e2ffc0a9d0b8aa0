"""NUTS in rounds: a step size first, then as many draws as it takes.

*The step size.* With the metric right from the start, it is all there is to adapt. The share of
trajectories that is not accepted grows with the square of the step size, so each short round of all
chains tells by how much to change it, and four or five do.

*Divergences* tell that the step size is too long somewhere: it is adapted again, to a higher rate
of acceptance, and what was drawn before is dropped, where as much can be drawn again.

*Draws* are added until every parameter has the effective sample that was asked for, in the bulk
and in the tails, and the chains agree. Where that would take much more than is left, they end.
"""

from __future__ import annotations

import math
from collections import Counter
from typing import Literal, NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, Array
from scorevi.base.evaluate import BadScore, BadScores, Evaluator
from scorevi.base.noise import CHAINS, stream
from scorevi.base.target import Target, is_thread_safe
from scorevi.families import Gaussian
from scorevi.sampling import compiled_chains
from scorevi.sampling.asked import MIXED, Asked
from scorevi.sampling.choosing import Sampler
from scorevi.sampling.diagnostics import effective, r_hat
from scorevi.sampling.gathering import Gathering, Place
from scorevi.sampling.running import Chain, Stretch, run
from scorevi.targets.isolated import IsolatedTarget

_ACCEPTANCE = (0.8, 0.95, 0.99)
"""The rate of acceptance to aim at: the next one after divergences."""
DIVERGENT = 0.002
"""The share of draws that may diverge, and one of them whatever their number."""
_ADAPTATION = (3, 4, 6, 8, 10)
"""Draws of each chain in the rounds of the adaptation."""
_COUNTED = 3
"""The last of them, from which the step size comes."""
_MOST_CHANGE = 3.0
_FIRST, _LEAST = 50, 25
"""Draws of each chain in the first round, and in any."""
_SPARE = 1.1
_HOPELESS = 2.0
"""Times what is left that it would take, for chains to be given up."""
_MIXING = 0.1
"""The share of effective draws from which on chains mix, and only the budget is small."""
_MOST_OF_ADAPTATION, _FOR_ADAPTATION = 0.2, 10_000
"""The share of the gradients that may go into the step size, and what may in any case."""
_ATTEMPTS = 3
_SEEN = 200
"""Draws of each chain that are needed to tell."""
_EXAMPLES = 5


Cut = Literal["", "interrupted", "exhausted"]
"""By what a round was cut short, if it was."""


class Course(NamedTuple):
    """Chains between two rounds: all that the next one needs to know."""

    last: Array
    """Where each chain is (chain, D)."""
    step_size: float
    level: int = 0
    """Which rate of acceptance is aimed at."""
    number: int = 0
    """Rounds made."""
    adapted: int = 0
    """Rounds of adaptation made for this rate."""
    estimates: tuple[float, ...] = ()
    """Logarithms of the step size that each of them asks for."""
    theta: Array = np.empty((0, 0, 0))
    """Draws (chain, draw, D)."""
    stats: dict[str, AnyArray] = {}  # noqa: RUF012  (never changed)
    """By ArviZ's names (chain, draw)."""
    adaptation_gradients: int = 0
    draws_gradients: int = 0
    bad_counts: dict[str, int] = {}  # noqa: RUF012  (never changed)
    bad_examples: tuple[BadScore, ...] = ()
    ess: Array = np.empty(0)
    """Of each parameter (D,)."""
    r_hat: Array = np.empty(0)
    """Of each parameter (D,)."""
    sampler: Sampler = "nutpie"
    """By which the chains run, from their first draw to the last."""
    attempts: int = 1
    """How often they began, each time elsewhere."""
    gradients_before: int = 0
    """Those of the adaptation that earlier ones took."""

    @property
    def adapting(self) -> bool:
        """Whether the step size is not known yet."""
        return self.adapted < len(_ADAPTATION)

    @property
    def divergences(self) -> int:
        """How many of the draws diverged."""
        return int(self.stats["diverging"].sum()) if self.stats else 0

    @property
    def least(self) -> float:
        """The effective sample of the worst parameter."""
        return float(self.ess.min()) if self.ess.size else 0.0


class Limits(NamedTuple):
    """What may be spent."""

    gradients: int
    deadline: float | None


def begin(at: Array, sampler: Sampler = "nutpie") -> Course:
    """Return chains that are to begin at the rows of ``at``."""
    chains, dim = at.shape
    return Course(at, 1.6 * dim**-0.25, theta=np.empty((chains, 0, dim)), sampler=sampler)


def begin_again(course: Course, at: Array) -> Course | None:
    """Return chains that begin elsewhere, where no step size was found; None after a few times.

    A chain that begins in the neck of a funnel asks for steps that are too short for all others.
    """
    if not course.adapting or course.attempts >= _ATTEMPTS:
        return None
    return begin(at, course.sampler)._replace(
        number=course.number,
        adaptation_gradients=course.adaptation_gradients,
        bad_counts=course.bad_counts,
        bad_examples=course.bad_examples,
        attempts=course.attempts + 1,
        gradients_before=course.adaptation_gradients,
    )


def is_enough(course: Course, asked: Asked) -> bool:
    """Whether there is what was asked for."""
    drawn = course.theta.shape[0] * course.theta.shape[1]
    return (
        drawn >= asked.draws
        and course.least >= asked.ess
        and bool(np.max(course.r_hat, initial=0.0) <= MIXED)
    )


def why_hopeless(course: Course, asked: Asked, left: int) -> str:
    """Say why chains are given up: what they would take is much more than is left."""
    if course.adapting:
        spent = course.adaptation_gradients - course.gradients_before
        if spent <= max(_MOST_OF_ADAPTATION * (spent + left), _FOR_ADAPTATION):
            return ""
        return (
            f"no step size was found within {spent} gradients: trajectories that are accepted are "
            "too long"
        )
    chains, count, _ = course.theta.shape
    if count < _SEEN or course.least >= min(asked.ess, _MIXING * chains * count):
        return ""
    needed = course.draws_gradients * (asked.ess / max(course.least, 1e-9) - 1.0)
    if needed <= _HOPELESS * left:
        return ""
    return (
        f"the chains do not mix: {count} draws of each have an effective sample of "
        f"{course.least:.0f}, and {asked.ess:g} would take many times what is left"
    )


def advance(
    course: Course, white: Gaussian, target: Target, asked: Asked, limits: Limits
) -> tuple[Course, Cut]:
    """Make one round; returns also whether it was cut short."""
    draws = _ADAPTATION[course.adapted] if course.adapting else _next_length(course, asked)
    stretches, spent, bad, stopped = _round(course, draws, white, target, asked, limits)
    course = course._replace(
        number=course.number + 1,
        bad_counts=dict(bad.counts),
        bad_examples=tuple(bad.examples),
    )
    least = min(len(stretch.theta) for stretch in stretches)
    cut: Cut = "interrupted" if stopped else "exhausted" if least < draws else ""
    if course.adapting:
        course = course._replace(adaptation_gradients=course.adaptation_gradients + spent)
        if cut:
            return course, cut
        return _with_step_size(course, stretches), cut
    course = course._replace(draws_gradients=course.draws_gradients + spent)
    if least == 0:
        return course, cut
    course = _with_draws(course, stretches, least)
    # What there is, is dropped only where as much can be drawn again.
    if not cut and limits.gradients - spent > course.draws_gradients and _is_too_long(course):
        course = course._replace(
            level=course.level + 1,
            adapted=len(_ADAPTATION) - _COUNTED,
            estimates=(),
            step_size=course.step_size * _shorter(course.level),
            theta=course.theta[:, :0],
            stats={},
            ess=np.empty(0),
            adaptation_gradients=course.adaptation_gradients + course.draws_gradients,
            draws_gradients=0,
        )
    return course, cut


def _round(
    course: Course, draws: int, white: Gaussian, target: Target, asked: Asked, limits: Limits
) -> tuple[list[Stretch], int, BadScores, bool]:
    count = len(course.last)
    # Each chain has a share of its own, so that no chain's draws depend on which is faster.
    share = limits.gradients // count
    gathering = None
    asked_by_chains: list[Target] = [target] * count
    if not is_thread_safe(target) or isinstance(target, IsolatedTarget):
        gathering = Gathering(target, count)
        asked_by_chains = [Place(gathering, chain) for chain in range(count)]
    evaluators = [Evaluator(one, share, limits.deadline) for one in asked_by_chains]
    seeds = stream(asked.seed, CHAINS, 1 + course.number).integers(2**62, size=count).tolist()
    at, step_size = course.last, course.step_size
    if course.sampler == "blackjax":
        stretches, stopped = compiled_chains.run(evaluators, white, at, draws, step_size, seeds)
    else:
        chains = [Chain(white, *one, draws) for one in zip(evaluators, at, strict=True)]
        stretches, stopped = run(chains, step_size, seeds)
    bad = BadScores(Counter(course.bad_counts), list(course.bad_examples))
    for evaluator in evaluators:
        bad.counts.update(evaluator.bad.counts)
        bad.examples += evaluator.bad.examples
    del bad.examples[_EXAMPLES:]
    spent = sum(evaluator.spent for evaluator in evaluators)
    return stretches, spent + (0 if gathering is None else gathering.retried), bad, stopped


def _with_step_size(course: Course, stretches: list[Stretch]) -> Course:
    """Take in a round of the adaptation."""
    accepted = float(np.mean([stretch.stats["acceptance_rate"] for stretch in stretches]))
    wanted = 1.0 - _ACCEPTANCE[course.level]
    change = math.sqrt(wanted / max(1.0 - accepted, 1e-3))
    change = min(max(change, 1.0 / _MOST_CHANGE), _MOST_CHANGE)
    estimates = (*course.estimates, math.log(course.step_size * change))
    # The first ones tell how far to go, those after them where to stay.
    counted = estimates[-_COUNTED:] if len(estimates) >= _COUNTED else estimates[-1:]
    return course._replace(
        adapted=course.adapted + 1,
        estimates=estimates,
        step_size=math.exp(sum(counted) / len(counted)),
        last=np.array([stretch.theta[-1] for stretch in stretches]),
    )


def _with_draws(course: Course, stretches: list[Stretch], count: int) -> Course:
    """Add draws, so many of each chain."""
    theta = np.array([stretch.theta[:count] for stretch in stretches])
    theta = np.concatenate([course.theta, theta], axis=1)
    stats = {
        name: np.array([stretch.stats[name][:count] for stretch in stretches])
        for name in stretches[0].stats
    }
    if course.stats:
        stats = {name: np.concatenate([course.stats[name], stats[name]], axis=1) for name in stats}
    return course._replace(
        theta=theta,
        stats=stats,
        last=np.array(theta[:, -1]),
        ess=effective(theta),
        r_hat=r_hat(theta),
    )


def _is_too_long(course: Course) -> bool:
    """Whether so many draws diverged that the step size should be shorter."""
    too_many = course.divergences > max(1.0, DIVERGENT * course.stats["diverging"].size)
    return too_many and course.level + 1 < len(_ACCEPTANCE)


def _shorter(level: int) -> float:
    """Return by how much, to begin with, the next rate of acceptance asks the step size to be."""
    return math.sqrt((1.0 - _ACCEPTANCE[level + 1]) / (1.0 - _ACCEPTANCE[level]))


def _next_length(course: Course, asked: Asked) -> int:
    """Return how many draws of each chain to add."""
    chains, count, _ = course.theta.shape
    if not count:
        return _FIRST
    wanted = -(-asked.draws // int(chains))
    if course.least < asked.ess:
        wanted = max(wanted, int(_SPARE * count * asked.ess / max(course.least, 1.0)))
    elif np.max(course.r_hat) > MIXED:
        wanted = max(wanted, int(1.5 * count))
    return max(_LEAST, min(wanted - int(count), int(count)))
