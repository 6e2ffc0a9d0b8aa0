"""The verdict: whether to believe a fit, why, and what to do.

It joins seven kinds of evidence. Only those by draws and climbs cost evaluations of the target, and
the verdict says how many.

1. *How the fit ended.*
2. *Bad scores*, in the fit and among fresh draws: a posterior with walls is not Gaussian there; and
   scores that are not those of the log density (:mod:`scorevi.contradiction`).
3. *Fresh draws from q.* Their importance weights, smoothed, have a tail (k-hat). Where it is light
   enough, the weights tell the moments of the posterior itself, and how far those of q are off.
   And whatever the weights: at the best Gaussian E_q[h] = 0 and E_q[h zᵀ] = −I, so the scores tell
   how far q still is from it, and where q is so wide that its draws see little of the posterior,
   that it is (:mod:`scorevi.width`).
4. *Wider draws* (:mod:`scorevi.wide`), where the weights are not all the same: they see tails that
   draws from q do not, and tell the moments once more.
5. *Other modes.* Weights cannot reveal what q does not reach. So L-BFGS climbs from points all over
   the place, and a mode far outside q is compared with it by its ELBO.
6. *The way from q's own mean*: where it leads out of q, the fit has not arrived.
7. *Restarts*, where there were any: fits from independent starts that agree, or do not.

A pass takes all of them; a failure takes positive evidence that the moments are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING

import numpy as np

from scorevi._arrays import Array
from scorevi.contradiction import ADVICE, contradiction
from scorevi.evaluate import Evaluator
from scorevi.fresh import DRAWS, ErrorBars, Fresh, draw, error_bars, joined
from scorevi.modes import MODE_GRADIENTS, disagreement, other_modes
from scorevi.psis import RELIABLE, Weights, smooth
from scorevi.recent import Draws
from scorevi.verdict import Reason, Verdict
from scorevi.wide import look_wider
from scorevi.width import too_wide

if TYPE_CHECKING:
    from scorevi.results import Fit

__all__ = [
    "DRAWS",
    "MODE_GRADIENTS",
    "ErrorBars",
    "Fresh",
    "Reason",
    "Verdict",
    "check",
    "draw",
    "error_bars",
]

_MEAN_WARN, _MEAN_FAIL = 0.15, 0.3
"""Errors of a mean, in standard deviations."""
_SD_WARN, _SD_FAIL = math.log(1.2), math.log(1.5)
"""Errors of a standard deviation, as logarithms of ratios."""
_BAD_SHARE, _BAD_SHARE_ON_THE_WAY = 0.01, 0.1
"""Shares of draws without a score, of q itself and in the fit, whose start may have looked far."""
_SAME = 1e-3
"""Log weights that differ by less are those of a Gaussian posterior."""
_EVEN_ENOUGH = 0.5
"""The share of effective draws below which tails may be there that no draw has seen."""


def check(fit: Fit, *, draws: int = DRAWS, modes: bool = True, seed: int = 0) -> Verdict:
    """Say whether to believe a fit; see :meth:`scorevi.Fit.check`."""
    reasons = list(_ending(fit))
    if any(reason.level == "fail" for reason in reasons):
        return Verdict(tuple(reasons))
    if fit.target is None:
        raise ValueError(
            "The fit was pickled or loaded without its model, so it cannot be checked anew. Use "
            "scorevi.load(path, target=...); fit.verdict is what was found when it was saved."
        )
    evaluator = Evaluator(fit.target)
    fresh = draw(fit, draws, seed, evaluator)
    reasons += _walls(fit, fresh)
    reasons += _contradiction(fit, fresh, evaluator)
    if any(reason.level == "fail" for reason in reasons):
        return Verdict(tuple(reasons), num_evaluations=evaluator.spent)
    weights = None
    if fresh.log_ratio is None:
        reasons.append(
            Reason(
                "warn",
                "the target has no log density, so weights and other modes cannot be looked at",
                "Pass log_density= when making the target.",
            )
        )
    else:
        try:
            weights, fresh, found = _weigh(fit, fresh, evaluator, seed)
            reasons += found or _beyond(fit, fresh, seed, evaluator)
        except ImportError as error:
            reasons.append(Reason("warn", "the importance weights were not looked at", str(error)))
        if modes:
            reasons += other_modes(fit, fresh, evaluator, seed)
    reasons += _unsettled(fit, fresh)
    reasons += disagreement(fit)
    if weights is None:
        return Verdict(tuple(reasons), num_evaluations=evaluator.spent)
    return Verdict(tuple(reasons), weights.khat, weights.ess / len(fresh.z), evaluator.spent)


def _ending(fit: Fit) -> Iterator[Reason]:
    status = fit.status
    if not status.ok or fit.num_updates == 0:
        yield Reason("fail", f"the fit failed: {status.cause}", status.advice)
    elif status != "converged":
        yield Reason("warn", f"the fit ended with {status!s}: {status.cause}", status.advice)


def _walls(fit: Fit, fresh: Fresh) -> Iterator[Reason]:
    share = 1.0 - float(fresh.good.mean())
    on_the_way = fit.bad_scores.total / max(fit.num_gradients, 1)
    if share > _BAD_SHARE or on_the_way > _BAD_SHARE_ON_THE_WAY:
        share = max(share, on_the_way)
        yield Reason(
            "warn",
            f"{share:.0%} of the draws have no usable score"
            + (f" ({fit.bad_scores.describe()})" if fit.bad_scores.total else ""),
            "The posterior ends, or the model fails, within reach of the fit; work on an "
            "unconstrained scale.",
        )


def _contradiction(fit: Fit, fresh: Fresh, evaluator: Evaluator) -> Iterator[Reason]:
    """Ask whether the scores belong to the log densities; if not, no other evidence counts."""
    if fresh.log_ratio is None:
        return
    log_q = fit.q.log_density(fresh.theta)
    text = contradiction(
        Draws(fresh.theta, fresh.score, fresh.log_ratio + log_q, log_q), fit.q, evaluator
    )
    if text is not None:
        yield Reason("fail", text, ADVICE)


def _weigh(
    fit: Fit, fresh: Fresh, evaluator: Evaluator, seed: int
) -> tuple[Weights, Fresh, list[Reason]]:
    """Look at the weights, and at those of more draws if these do not decide."""
    assert fresh.log_ratio is not None
    weights = smooth(fresh.log_ratio)
    found = list(_tails(fit, fresh, weights))
    if any(reason.level == "undecided" for reason in found):
        more = draw(fit, 4 * len(fresh.z), seed, evaluator, after=len(fresh.z))
        fresh = joined(fresh, more)
        assert fresh.log_ratio is not None
        weights = smooth(fresh.log_ratio)
        found = [
            reason._replace(level="warn") if reason.level == "undecided" else reason
            for reason in _tails(fit, fresh, weights)
        ]
    return weights, fresh, found


def _tails(fit: Fit, fresh: Fresh, weights: Weights) -> Iterator[Reason]:
    """Look at the weights; and where they are reliable, at the moments that they give."""
    assert fresh.log_ratio is not None
    if not weights.reliable:
        wide = too_wide(fit.q, fresh)
        if wide is not None:
            yield Reason(
                "fail",
                f"k-hat is {weights.khat:.2f}, above {RELIABLE}: most of the fit lies where the "
                f"posterior has nothing; the scores put the standard deviation of "
                f"{fit.labels[wide.parameter]} at {1 / wide.factor:.2g} of the fit's",
                "Allow more gradients, or try another solver or start: solver='auto', "
                "initial='laplace'.",
            )
            return
        culprits = _culprits(fit, fresh)
        yield Reason(
            "warn",
            f"k-hat is {weights.khat:.2f}, above {RELIABLE}: the posterior has tails that the fit "
            f"does not reach{': ' if culprits else ''}{'; '.join(culprits)}",
            "Means may be right and intervals too short. Reparametrise (a hierarchy in its "
            "non-centered form, scales by their logarithm), or sample.",
        )
        return
    share = weights.ess / len(weights.weights)
    if share < _EVEN_ENOUGH:
        culprits = _culprits(fit, fresh)
        yield Reason(
            "warn",
            f"the importance weights leave {share:.0%} of the draws, so that the posterior may "
            f"have tails which none has seen{': ' if culprits else ''}{'; '.join(culprits)}",
            "Intervals may be too short. Reparametrise, or use fit.resample().",
        )
    yield from _moments(fit, fresh.theta, weights.weights)


def _beyond(fit: Fit, fresh: Fresh, seed: int, evaluator: Evaluator) -> Iterator[Reason]:
    """Ask draws from wider than q for the moments; at most a warning, as they may be few.

    They have seen what q has not, so where they cannot tell, nothing can: that is a warning too.
    """
    assert fresh.log_ratio is not None
    if np.ptp(fresh.log_ratio[fresh.good]) < _SAME:
        return
    theta, log_ratio = look_wider(fit, fresh, seed, evaluator)
    weights = smooth(log_ratio)
    for reason in _moments(fit, theta, weights.weights):
        text = reason.text.replace("the importance weights", "draws from wider than the fit")
        yield Reason("warn", text, "Intervals may be too short. Reparametrise, or sample.")


def _moments(fit: Fit, theta: Array, w: Array) -> Iterator[Reason]:
    """Compare the moments of weighted draws with those of q."""
    q = fit.q
    t = (theta - q.mean) / q.sd
    t[w == 0.0] = 0.0
    mean = w @ t
    log_sd = 0.5 * np.log(np.maximum(w @ (t - mean) ** 2, 1e-300))
    # The errors of self-normalised weights, a little too large because the draws of q are known.
    mean_error = np.sqrt((w**2) @ (t - mean) ** 2)
    sd_error = 0.5 * np.sqrt((w**2) @ ((t - mean) ** 2 / np.exp(2 * log_sd) - 1.0) ** 2)
    names = fit.labels
    for what, off, error, warn, fail in (
        ("mean", np.abs(mean), mean_error, _MEAN_WARN, _MEAN_FAIL),
        ("standard deviation", np.abs(log_sd), sd_error, _SD_WARN, _SD_FAIL),
    ):
        worst = int(np.argmax(off - 2 * error))
        if off[worst] - 2 * error[worst] > warn:
            level = "fail" if off[worst] - 2 * error[worst] > fail else "warn"
            size = (
                f"{off[worst]:.2g} sd"
                if what == "mean"
                else f"a factor of {math.exp(off[worst]):.2g}"
            )
            yield Reason(
                level,
                f"the importance weights put the {what} of {names[worst]} off by {size}",
                "Use fit.resample(), whose draws are corrected by the weights.",
            )
        elif (off + 2 * error > fail).any():
            worst = int(np.argmax(off + 2 * error))
            yield Reason(
                "undecided",
                f"{len(t)} draws are too few, with weights as uneven as these, to tell whether the "
                f"{what} of {names[worst]} is right",
                f"Check again with more draws: fit.check(draws={10 * len(t)}).",
            )


def _unsettled(fit: Fit, fresh: Fresh) -> Iterator[Reason]:
    """Ask the scores how far the best Gaussian is, by a Newton step and its standard error."""
    bars = error_bars(fit, fresh)
    names = fit.labels
    sd = fit.q.sd
    for what, off, error, limit in (
        ("mean", np.abs(bars.mean_step) / sd, bars.mean_error / sd, _MEAN_WARN),
        ("standard deviation", np.abs(bars.sd_step) / sd, bars.sd_error / sd, math.expm1(_SD_WARN)),
    ):
        worst = int(np.nanargmax(off - 3 * error))
        if off[worst] - 3 * error[worst] > limit:
            yield Reason(
                "warn",
                f"the scores say that the {what} of {names[worst]} should still move by "
                f"{off[worst]:.2g} sd",
                "Allow more gradients, or try solver='auto'.",
            )


def _culprits(fit: Fit, fresh: Fresh) -> list[str]:
    """Name the parameters whose scores differ most from those of q, and the tails they have."""
    assert fresh.log_ratio is not None
    good = fresh.good
    if good.sum() < 25:
        return []
    q = fit.q
    mismatch = (fresh.score[good] - q.score(fresh.theta[good])) * q.sd
    size = np.median(mismatch**2, axis=0) + np.minimum((mismatch**2).mean(axis=0), 1e6)
    names, t = fit.labels, (fresh.theta[good] - q.mean) / q.sd
    told = []
    for index in np.argsort(-size)[:3]:
        if size[index] < 0.5 * size.max():
            break
        told.append(f"{names[index]} ({_shape(t[:, index], fresh.log_ratio[good])})")
    return told


def _shape(t: Array, log_ratio: Array) -> str:
    """Say on which side a marginal has more, or less, than q."""
    middle = np.median(log_ratio[np.abs(t) < 1.0])
    sides = {"left": log_ratio[t < -1.2], "right": log_ratio[t > 1.2]}
    heavy = [side for side, values in sides.items() if np.median(values) > middle + 0.3]
    light = [side for side, values in sides.items() if np.median(values) < middle - 0.3]
    words = []
    if heavy:
        words.append(f"a long {' and a long '.join(heavy)} tail")
    if light:
        words.append(f"nothing far to the {' and the '.join(light)}")
    return ", ".join(words) or "another shape"
