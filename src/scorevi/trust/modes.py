"""Modes that a fit does not reach: looked for by climbing, and by fits from other starts."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import MODES, stream
from scorevi.families import Approximation
from scorevi.starts.climb import Ascent, is_within
from scorevi.starts.elsewhere import CLIMB, outside
from scorevi.trust.examination import Examination
from scorevi.trust.verdict import Reason

MODE_GRADIENTS = 300
_MASS_FAIL, _MASS_WARN = 1.0, 6.0
"""Nats of ELBO below the fit's: a mode with a quarter of the mass, and one with 0.2 %."""
_APART = 0.6
"""Standard deviations between the means of two fits that do not agree."""


def other_modes(exam: Examination) -> Iterator[Reason]:
    """Climb from many places, and compare what is found outside q with q."""
    q, fresh, evaluator = exam.q, exam.fresh, exam.evaluator
    if fresh.log_ratio is None:
        return
    rng = stream(exam.seed, MODES)
    ours = float(np.median(fresh.log_ratio[fresh.good])) if fresh.good.any() else -math.inf
    found = [(judged.elbo, judged.q.mean) for judged in outside(q, evaluator, rng, MODE_GRADIENTS)]
    if not found:
        return
    elbo, mean = max(found, key=lambda candidate: candidate[0])
    behind = ours - elbo
    if not behind < _MASS_WARN:
        return
    names = exam.labels
    off = np.abs(mean - q.mean) / q.sd
    worst = int(np.argmax(off))
    weight = f"{'above' if behind < 0 else 'below'} the fit's by {abs(behind):.1f} nats"
    level = "fail" if behind < _MASS_FAIL else "warn"
    if behind < 0 and not _is_at_rest(q, evaluator):
        yield Reason(
            level,
            f"the fit has not arrived: the way up from its mean leads out of it, and "
            f"{off[worst]:.2g} sd away in {names[worst]} there is an ELBO {weight}",
            "Allow more gradients, or start there (initial= a point).",
        )
        return
    yield Reason(
        level,
        f"there is another mode, {off[worst]:.0f} sd away in {names[worst]}, with an ELBO {weight}",
        "Start there (initial= a point), run with restarts=, or take the posterior as the "
        "several-peaked one it is and sample.",
    )


def _is_at_rest(q: Approximation, evaluator: Evaluator) -> bool:
    """Whether a climb from the mean of q stays within q, as it does where q is at a mode."""
    ascent = Ascent(evaluator)
    ascent.climb(q.mean, at_most=2 * CLIMB)
    return not ascent.path or is_within(q, ascent.path[-1].theta)


def disagreement(exam: Examination) -> Iterator[Reason]:
    """Compare fits from independent starts: those nearly as good should be the same."""
    if not exam.course.restarts:
        return
    names, sd = exam.labels, exam.q.sd
    apart = [
        (restart, float(np.max(np.abs(restart.mean - exam.q.mean) / sd)))
        for restart in exam.course.restarts
        if not restart.elbo < exam.course.elbo - _MASS_WARN
    ]
    for restart, distance in sorted(apart, key=lambda pair: -pair[1])[:1]:
        if distance > _APART:
            worst = int(np.argmax(np.abs(restart.mean - exam.q.mean) / sd))
            elbo = f", with an ELBO of {restart.elbo:.2f} against {exam.course.elbo:.2f},"
            known = math.isfinite(restart.elbo) and math.isfinite(exam.course.elbo)
            yield Reason(
                "warn",
                f"a fit from another start{elbo if known else ''} has the mean of {names[worst]} "
                f"{distance:.2g} sd away",
                "Allow more gradients; if they still differ, the posterior has several modes.",
            )
