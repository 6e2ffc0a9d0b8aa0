"""A second fit, from a start of its own: whether there is a better Gaussian than the first found.

Draws of q cannot tell. In the neck of a funnel a fit is content, and its draws agree with it, while
the bulk of the posterior is elsewhere. So where the weights are uneven, or the posterior is not
near Gaussian around q (:func:`scorevi.starts.wide.comes_back`), another start is chosen, from
another point, and gone on with for as long as the first fit took. If its ELBO is higher, the first
fit is not what it should be.
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from scorevi.base.estimates import robust_elbo
from scorevi.base.evaluate import Evaluator, Exhausted, TooManyBadScores
from scorevi.base.noise import SECOND, stream
from scorevi.families import Approximation, LowRank
from scorevi.solvers.low_rank import LowRankReplay
from scorevi.starts.chosen import choose
from scorevi.starts.large import choose_large
from scorevi.starts.race import Racer
from scorevi.starts.wide import comes_back
from scorevi.trust.examination import Examination
from scorevi.trust.verdict import Reason

_LEAST = 2500
"""Gradients for the second fit, where the first took fewer."""
_NEARBY = 1.0
"""The second start is chosen from within this of zero."""
_PIECES = 8
_BETTER = 2.0
"""Nats of ELBO that matter."""
_EVEN = 0.8
"""The share of effective draws at which the weights are even."""


def second_fit(exam: Examination) -> Iterator[Reason]:
    """Look for a better Gaussian from another start."""
    q, fresh, evaluator = exam.q, exam.fresh, exam.evaluator
    if fresh.log_ratio is None or not fresh.good.any():
        return
    if exam.is_exact:
        return
    rng = stream(exam.seed, SECOND)
    ours, our_error = robust_elbo(fresh.log_ratio)
    length = exam.course.num_gradients
    if not isinstance(q, LowRank):
        length = max(_LEAST, length)
    racer = None
    evaluator.max_gradients = evaluator.spent + length
    try:
        if _are_even(exam) and comes_back(evaluator, q.coordinates, rng):
            return
        racer = _started(q, evaluator, rng)
        for _ in range(_PIECES):
            racer.run(rng, length // _PIECES, settled=0.0)
    except (Exhausted, TooManyBadScores, np.linalg.LinAlgError):
        pass
    finally:
        evaluator.max_gradients = None
    if racer is None or racer.is_lost:
        return
    values = racer.values
    elbo, error = robust_elbo(values[-max(len(values) // 4, 40) :])
    gain = elbo - ours
    if not gain - 2.0 * float(np.hypot(error, our_error)) > _BETTER:
        return
    off = np.abs(racer.q.mean - q.mean) / np.maximum(racer.q.sd, q.sd)
    worst = int(np.argmax(off))
    yield Reason(
        "fail",
        f"a second fit, from a start of its own, has an ELBO {gain:.1f} nats higher, and the mean "
        f"of {exam.labels[worst]} {off[worst]:.2g} sd away: this one is not the best there is",
        "Run with restarts=, or with another seed, and keep the fit with the highest ELBO.",
    )


def _started(q: Approximation, evaluator: Evaluator, rng: np.random.Generator) -> Racer:
    """Return a fit from a start of its own; of a diagonal and directions, of the same."""
    point = rng.uniform(-_NEARBY, _NEARBY, q.dim)
    if isinstance(q, LowRank):
        solver = LowRankReplay(q.rank)
        return Racer(evaluator, choose_large(evaluator, rng, point, solver)[0].q, solver=solver)
    start = choose(evaluator, rng, point)
    return Racer(evaluator, start.q, *start.pairs)


def _are_even(exam: Examination) -> bool:
    """Whether the importance weights can be relied on, and leave most of the draws."""
    weights = exam.weights
    return weights is not None and weights.reliable and weights.ess >= _EVEN * len(weights.weights)
