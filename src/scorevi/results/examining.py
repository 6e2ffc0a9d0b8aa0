"""The verdict on a fit: from what is known of it to what is examined."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from scorevi.base.arrays import as_count
from scorevi.base.evaluate import Evaluator
from scorevi.base.target import Target
from scorevi.results.protected import protected
from scorevi.results.target_of import target_of
from scorevi.trust.check import check
from scorevi.trust.examination import Course, Examination
from scorevi.trust.verdict import Verdict
from scorevi.trust.weights import FEWEST

if TYPE_CHECKING:
    from scorevi.results.fit import Fit


def examine(fit: Fit, draws: int, modes: bool, seed: int) -> Verdict:
    """Say whether to believe a fit; see :meth:`scorevi.Fit.check`."""
    draws = as_count("draws", draws, least=FEWEST)
    if fit.status.ok and fit.num_updates:  # else the target is not asked
        target_of(fit, "so it cannot be checked anew", "fit.verdict is what was found before")
    with protected(fit) as safe:
        return check(_examination(safe, draws, seed), modes=modes)


def course_of(fit: Fit) -> Course:
    """Return what an examination knows of how a fit came about."""
    return Course(
        fit.status,
        fit.num_updates,
        fit.num_gradients,
        fit.bad_scores,
        fit.elbo,
        fit.restarts,
    )


def _examination(fit: Fit, draws: int, seed: int) -> Examination:
    # A fit that failed may have no target; then none is asked.
    evaluator = Evaluator(cast("Target", fit.target))
    return Examination(fit.q, course_of(fit), fit.labels, evaluator, draws, seed)
