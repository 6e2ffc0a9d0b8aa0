"""What is asked of a fit before it is believed: its q, the draws to judge it by, and labels."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import NamedTuple

from scorevi.base.arrays import Array
from scorevi.base.evaluate import BadScores, Evaluator
from scorevi.base.status import Status
from scorevi.families import Approximation
from scorevi.trust.fresh_draws import Fresh, draw, joined
from scorevi.trust.weights import Weights, is_constant, smooth

MEAN_WARN, MEAN_FAIL = 0.15, 0.3
"""Errors of a mean, in standard deviations."""
SD_WARN, SD_FAIL = math.log(1.2), math.log(1.5)
"""Errors of a standard deviation, as logarithms of ratios."""
MORE = 4
"""Times as many more draws where the first ones do not decide."""


class Restart(NamedTuple):
    """What is kept of a fit from another start."""

    seed: int
    status: str
    elbo: float
    mean: Array
    sd: Array


class Course(NamedTuple):
    """What an examination knows of how q was reached."""

    status: Status
    num_updates: int
    num_gradients: int
    bad_scores: BadScores
    elbo: float
    restarts: Sequence[Restart] = ()


@dataclass(eq=False)
class Examination:
    """One fit under examination. A piece of evidence is a function of it."""

    q: Approximation
    course: Course
    labels: Sequence[str]
    """A name for each entry of theta."""
    evaluator: Evaluator
    """Who asks the target, and counts what that costs."""
    num_draws: int
    seed: int

    @cached_property
    def fresh(self) -> Fresh:
        """Draws from q; more of them once :meth:`draw_more` was called."""
        return draw(self.q, self.num_draws, self.seed, self.evaluator)

    @cached_property
    def weights(self) -> Weights | None:
        """The importance weights of the fresh draws; None without a log density."""
        log_ratio = self.fresh.log_ratio
        return None if log_ratio is None else smooth(log_ratio)

    @property
    def is_exact(self) -> bool:
        """Whether p/q is the same at all fresh draws, so that the posterior is q."""
        log_ratio = self.fresh.log_ratio
        return log_ratio is not None and is_constant(log_ratio)

    def draw_more(self) -> None:
        """Add four times as many draws."""
        count = len(self.fresh.z)
        more = draw(self.q, MORE * count, self.seed, self.evaluator, after=count)
        self.fresh = joined(self.fresh, more)
        self.__dict__.pop("weights", None)
