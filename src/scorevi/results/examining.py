"""The verdict on a fit: from what is known of it to what is examined."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from scorevi.base.arrays import as_count
from scorevi.base.evaluate import Evaluator
from scorevi.base.target import Target
from scorevi.base.threads import one_thread
from scorevi.results.protected import protected
from scorevi.results.target_of import target_of
from scorevi.trust.check import check
from scorevi.trust.examination import Course, Examination
from scorevi.trust.fresh_draws import DRAWS, Fresh, first
from scorevi.trust.verdict import Verdict
from scorevi.trust.weights import FEWEST

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_MOST_NUMBERS = 2_000_000
"""Entries of the draws that are kept, 16 megabytes."""


def examine(fit: Fit, draws: int, modes: bool, seed: int) -> tuple[Verdict, Fresh | None]:
    """Say whether to believe a fit; see :meth:`scorevi.Fit.check`. Also returns its fresh draws."""
    draws = as_count("draws", draws, least=FEWEST)
    if fit.status.ok and fit.num_updates:  # else the target is not asked
        target_of(fit, "so it cannot be checked anew", "fit.verdict is what was found before")
    with protected(fit) as safe, one_thread(fit.q.dim):
        exam = _examination(safe, draws, seed)
        verdict = check(exam, modes=modes)
    return verdict, exam.__dict__.get("fresh")  # a fit that failed was not drawn from


def kept(fresh: Fresh | None) -> Fresh | None:
    """Return as many of the draws as a fit keeps, by which the errors of its means are known."""
    return (
        None if fresh is None else first(fresh, max(DRAWS, _MOST_NUMBERS // fresh.theta.shape[1]))
    )


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
