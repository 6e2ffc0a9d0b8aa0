"""The verdict: whether to believe a fit, why, and what to do.

It joins eight kinds of evidence. Only those by draws and climbs cost evaluations of the target, and
the verdict says how many.

1. *How the fit ended.*
2. *Bad scores*, in the fit and among fresh draws: a posterior with walls is not Gaussian there; and
   scores that are not those of the log density (:mod:`scorevi.engine.contradiction`).
3. *Fresh draws from q.* Their importance weights, smoothed, have a tail (k-hat). Where it is light
   enough, the weights tell the moments of the posterior itself, and how far those of q are off.
   And whatever the weights: at the best Gaussian E_q[h] = 0 and E_q[h zᵀ] = −I, so the scores tell
   how far q still is from it, and where q is so wide that its draws see little of the posterior,
   that it is (:mod:`scorevi.trust.width`).
4. *Wider draws* (:mod:`scorevi.trust.wider_draws`), where the weights are not all the same: they
   see tails that draws from q do not, and tell the moments once more.
   Of a mixture in many dimensions: whether it ends abruptly (:mod:`scorevi.trust.edges`).
5. *Other modes.* Weights cannot reveal what q does not reach. So L-BFGS climbs from points all over
   the place, and a mode far outside q is compared with it by its ELBO.
6. *The way from q's own mean*: where it leads out of q, the fit has not arrived.
7. *A second fit* (:mod:`scorevi.trust.second_fit`), where the posterior is not near Gaussian around
   q: if it finds a better Gaussian, the first is not what it should be.
8. *Restarts*, where there were any: fits from independent starts that agree, or do not.

A pass takes all of them; a failure takes positive evidence that the moments are wrong.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator

from scorevi.engine.contradiction import ADVICE, contradiction
from scorevi.trust.edges import edges
from scorevi.trust.error_bars import unsettled
from scorevi.trust.examination import Examination
from scorevi.trust.modes import disagreement, other_modes
from scorevi.trust.second_fit import second_fit
from scorevi.trust.tails import tails
from scorevi.trust.verdict import Reason, Verdict

_BAD_SHARE = 0.01
"""The share of draws of q without a score. What the fit has met on its way, whose start may have
looked far outside, says nothing of q."""

Evidence = Callable[[Examination], Iterator[Reason]]


def check(exam: Examination, *, modes: bool = True) -> Verdict:
    """Say whether to believe a fit; see :meth:`scorevi.Fit.check`."""
    reasons: list[Reason] = []
    for evidence in EVIDENCE:
        if evidence in SEARCHES and not modes:
            continue
        reasons += evidence(exam)
        if evidence in DECISIVE and any(reason.level == "fail" for reason in reasons):
            return Verdict(tuple(reasons), num_evaluations=exam.evaluator.spent)
    weights = exam.weights
    spent = exam.evaluator.spent
    if weights is None:
        return Verdict(tuple(reasons), num_evaluations=spent)
    return Verdict(tuple(reasons), weights.khat, weights.ess / len(exam.fresh.z), spent)


def ending(exam: Examination) -> Iterator[Reason]:
    """Ask how the fit ended."""
    status = exam.course.status
    if not status.ok or exam.course.num_updates == 0:
        yield Reason("fail", f"the fit failed: {status.cause}", status.advice)
    elif status != "converged":
        yield Reason("warn", f"the fit ended with {status!s}: {status.cause}", status.advice)


def walls(exam: Examination) -> Iterator[Reason]:
    """Count what has no score among fresh draws."""
    bad = exam.course.bad_scores
    share = 1.0 - float(exam.fresh.good.mean())
    if share > _BAD_SHARE:
        yield Reason(
            "warn",
            f"{share:.0%} of the draws have no usable score"
            + (f" (in the fit, {bad.describe()})" if bad.total else ""),
            "The posterior ends, or the model fails, within reach of the fit; work on an "
            "unconstrained scale.",
        )


def contradicting(exam: Examination) -> Iterator[Reason]:
    """Ask whether the scores belong to the log densities; if not, no other evidence counts."""
    text = contradiction(exam.fresh.draws, exam.q.coordinates, exam.evaluator)
    if text is not None:
        yield Reason("fail", text, ADVICE)


EVIDENCE: tuple[Evidence, ...] = (
    ending,
    walls,
    contradicting,
    tails,
    edges,
    other_modes,
    second_fit,
    unsettled,
    disagreement,
)
"""All pieces of evidence, in the order in which they are looked at."""
SEARCHES = (other_modes, second_fit)
"""Those that look elsewhere, which ``modes=False`` leaves out."""
DECISIVE = (ending, contradicting)
"""Those after whose failure nothing else is looked at."""
