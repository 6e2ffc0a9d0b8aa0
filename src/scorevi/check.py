"""The verdict: whether to believe a fit, why, and what to do.

It joins five kinds of evidence. Only the third and the fourth cost evaluations of the target, and
the verdict says how many.

1. *How the fit ended.*
2. *Bad scores*, in the fit and among fresh draws: a posterior with walls is not Gaussian there.
3. *Fresh draws from q.* Their importance weights, smoothed, have a tail (k-hat). Where it is light
   enough, the weights tell the moments of the posterior itself, and how far those of q are off.
   And whatever the weights: at the best Gaussian E_q[h] = 0 and E_q[h zᵀ] = −I, so the scores tell
   how far q still is from it.
4. *Other modes.* Weights cannot reveal what q does not reach. So L-BFGS climbs from points all over
   the place, and a mode far outside q is compared with it by its ELBO.
5. *Restarts*, where there were any: fits from independent starts that agree, or do not.

A pass takes all of them; a failure takes positive evidence that the moments are wrong.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from scorevi._arrays import Array, Mask
from scorevi.ascent import Ascent
from scorevi.autostart import judge_path
from scorevi.evaluate import Evaluator, Exhausted, TooManyBadScores
from scorevi.noise import CHECK, stream
from scorevi.psis import RELIABLE, Weights, smooth
from scorevi.targets.base import labels

if TYPE_CHECKING:
    from scorevi.results import Fit

DRAWS, MODE_GRADIENTS = 400, 300
_MEAN_WARN, _MEAN_FAIL = 0.15, 0.3
"""Errors of a mean, in standard deviations."""
_SD_WARN, _SD_FAIL = math.log(1.2), math.log(1.5)
"""Errors of a standard deviation, as logarithms of ratios."""
_BAD_SHARE = 0.01
_SEPARATE = 6.0
"""Standard deviations beyond the typical distance at which a mode is another one."""
_NEAR, _FAR, _WIDE, _CLIMB = 4, 6, 9.0, 20
"""How many climbs begin within (−2, 2)^D and outside q, how far outside, and their length."""
_EVEN_ENOUGH = 0.5
"""The share of effective draws below which tails may be there that no draw has seen."""
_MASS_FAIL, _MASS_WARN = 1.0, 6.0
"""Nats of ELBO below the fit's: a mode with a quarter of the mass, and one with 0.2 %."""


class Reason(NamedTuple):
    """One piece of evidence."""

    level: str
    """``warn`` or ``fail``; ``undecided`` where more draws would tell."""
    text: str
    advice: str


class Verdict(str):
    """``pass``, ``warn`` or ``fail``, with the reasons.

    Attributes
    ----------
    reasons
        What speaks against the fit, the gravest first.
    khat
        The tail of the importance weights; NaN where it could not be had.
    ess
        Effective sample size of the fresh draws, as a share of them.
    num_evaluations
        What the verdict cost.
    """

    __slots__ = ("ess", "khat", "num_evaluations", "reasons")
    reasons: tuple[Reason, ...]
    khat: float
    ess: float
    num_evaluations: int

    def __new__(
        cls,
        reasons: tuple[Reason, ...],
        khat: float = math.nan,
        ess: float = math.nan,
        num_evaluations: int = 0,
    ) -> Verdict:
        """Let the gravest reason decide."""
        ordered = tuple(sorted(reasons, key=lambda reason: reason.level != "fail"))
        verdict = super().__new__(cls, ordered[0].level if ordered else "pass")
        verdict.reasons, verdict.khat, verdict.ess = ordered, khat, ess
        verdict.num_evaluations = num_evaluations
        return verdict

    @property
    def ok(self) -> bool:
        """Whether it is not a failure."""
        return self != "fail"

    def explain(self) -> str:
        """Return the verdict and its reasons with advice, a line each."""
        figures = "" if math.isnan(self.khat) else f" (k-hat {self.khat:.2f}, ESS {self.ess:.0%})"
        lines = [f"{self}{figures}, for {self.num_evaluations} evaluations"]
        lines += [f"- {reason.text}. {reason.advice}" for reason in self.reasons]
        return "\n".join(lines)

    def __reduce__(self) -> tuple[type[Verdict], tuple[object, ...]]:
        return Verdict, (self.reasons, self.khat, self.ess, self.num_evaluations)


class Fresh(NamedTuple):
    """Draws from q that the fit has not seen, and what the target says there."""

    z: Array
    theta: Array
    score: Array
    """NaN where it is no use."""
    log_ratio: Array | None
    """log p − log q; −∞ where it is no use."""
    good: Mask


def check(fit: Fit, *, draws: int = DRAWS, modes: bool = True, seed: int = 0) -> Verdict:
    """Say whether to believe a fit; see :meth:`scorevi.Fit.check`."""
    reasons = list(_ending(fit))
    if any(reason.level == "fail" for reason in reasons):
        return Verdict(tuple(reasons))
    if fit.target is None:
        raise ValueError(
            "The fit was loaded without its model, so it cannot be checked anew. Use "
            "scorevi.load(path, target=...); fit.verdict is what was found when it was saved."
        )
    evaluator = Evaluator(fit.target)
    fresh = draw(fit, draws, seed, evaluator)
    reasons += _walls(fit, fresh)
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
            reasons += found
        except ImportError as error:
            reasons.append(Reason("warn", "the importance weights were not looked at", str(error)))
        if modes:
            reasons += _other_modes(fit, fresh, evaluator, seed)
    reasons += _unsettled(fit, fresh)
    reasons += _disagreement(fit)
    if weights is None:
        return Verdict(tuple(reasons), num_evaluations=evaluator.spent)
    return Verdict(tuple(reasons), weights.khat, weights.ess / len(fresh.z), evaluator.spent)


def draw(fit: Fit, size: int, seed: int, evaluator: Evaluator) -> Fresh:
    """Draw from q and evaluate."""
    q = fit.q
    z = stream(seed, CHECK).standard_normal((size, q.dim))
    theta = np.asarray(q.unwhiten(z))
    evaluation = evaluator(theta)
    good = evaluator.usable(evaluation)
    score = np.where(good[:, None], evaluation.score, np.nan)
    log_ratio = None
    if evaluation.log_density is not None:
        log_ratio = np.where(good, evaluation.log_density - q.log_density(theta), -np.inf)
    return Fresh(z, theta, score, log_ratio, good)


def _ending(fit: Fit) -> Iterator[Reason]:
    status = fit.status
    if not status.ok or fit.num_updates == 0:
        yield Reason("fail", f"the fit failed: {status.cause}", status.advice)
    elif status != "converged":
        yield Reason("warn", f"the fit ended with {status!s}: {status.cause}", status.advice)


def _walls(fit: Fit, fresh: Fresh) -> Iterator[Reason]:
    share = max(fit.bad_scores.total / max(fit.num_gradients, 1), 1.0 - float(fresh.good.mean()))
    if share > _BAD_SHARE:
        yield Reason(
            "warn",
            f"{share:.0%} of the draws have no usable score"
            + (f" ({fit.bad_scores.describe()})" if fit.bad_scores.total else ""),
            "The posterior ends, or the model fails, within reach of the fit; work on an "
            "unconstrained scale.",
        )


def _weigh(
    fit: Fit, fresh: Fresh, evaluator: Evaluator, seed: int
) -> tuple[Weights, Fresh, list[Reason]]:
    """Look at the weights, and at those of more draws if these do not decide."""
    assert fresh.log_ratio is not None
    weights = smooth(fresh.log_ratio)
    found = list(_tails(fit, fresh, weights))
    if any(reason.level == "undecided" for reason in found):
        fresh = draw(fit, 4 * len(fresh.z), seed, evaluator)
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
        culprits = _culprits(fit, fresh)
        yield Reason(
            "warn",
            f"k-hat is {weights.khat:.2f}, above {RELIABLE}: the posterior has tails that the fit "
            f"does not reach{': ' if culprits else ''}{'; '.join(culprits)}",
            "Means may be right and intervals too short. Reparametrise (a hierarchy in its "
            "non-centered form, scales by their logarithm), or sample.",
        )
        return
    q, w = fit.q, weights.weights
    share = weights.ess / len(w)
    if share < _EVEN_ENOUGH:
        culprits = _culprits(fit, fresh)
        yield Reason(
            "warn",
            f"the importance weights leave {share:.0%} of the draws, so that the posterior may "
            f"have tails which none has seen{': ' if culprits else ''}{'; '.join(culprits)}",
            "Intervals may be too short. Reparametrise, or use fit.resample().",
        )
    t = (fresh.theta - q.mean) / q.sd
    mean = w @ t
    log_sd = 0.5 * np.log(np.maximum(w @ (t - mean) ** 2, 1e-300))
    # The errors of self-normalised weights, a little too large because the draws of q are known.
    mean_error = np.sqrt((w**2) @ (t - mean) ** 2)
    sd_error = 0.5 * np.sqrt((w**2) @ ((t - mean) ** 2 / np.exp(2 * log_sd) - 1.0) ** 2)
    names = _names(fit)
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
    names = _names(fit)
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


def _other_modes(fit: Fit, fresh: Fresh, evaluator: Evaluator, seed: int) -> Iterator[Reason]:
    """Climb from many places, and compare what is found outside q with q."""
    assert fresh.log_ratio is not None
    q = fit.q
    rng = stream(seed, CHECK, 1)
    ours = float(np.median(fresh.log_ratio[fresh.good])) if fresh.good.any() else -math.inf
    evaluator.max_gradients = evaluator.spent + MODE_GRADIENTS
    points = [*rng.uniform(-2.0, 2.0, (_NEAR, q.dim)), *_around(fit, rng)]
    found: list[tuple[float, Array]] = []
    try:
        for point in points:
            ascent = Ascent(evaluator)
            ascent.climb(point, at_most=_CLIMB)
            if ascent.path and not ascent.converged and not _is_reached(fit, ascent.path[-1].theta):
                ascent.climb(ascent.path[-1].theta, at_most=_CLIMB)
            if not ascent.path or _is_reached(fit, ascent.path[-1].theta):
                continue
            judged = judge_path(ascent, evaluator, rng)
            if judged is not None and not _is_reached(fit, judged.q.mean):
                found.append((judged.elbo, judged.q.mean))
    except (Exhausted, TooManyBadScores):
        pass
    finally:
        evaluator.max_gradients = None
    if not found:
        return
    elbo, mean = max(found, key=lambda candidate: candidate[0])
    behind = ours - elbo
    if not behind < _MASS_WARN:
        return
    names = _names(fit)
    off = np.abs(mean - q.mean) / q.sd
    worst = int(np.argmax(off))
    weight = f"{'above' if behind < 0 else 'below'} the fit's by {abs(behind):.1f} nats"
    yield Reason(
        "fail" if behind < _MASS_FAIL else "warn",
        f"there is another mode, {off[worst]:.0f} sd away in {names[worst]}, with an ELBO {weight}",
        "Start there (initial= a point), run with restarts=, or take the posterior as the "
        "several-peaked one it is and sample.",
    )


def _around(fit: Fit, rng: np.random.Generator) -> Array:
    """Return points far outside q on all sides: both ends of random orthogonal directions."""
    dim = fit.dim
    radius = math.sqrt(dim) + _WIDE
    ends: list[Array] = []
    while len(ends) < _FAR:
        axes = np.linalg.qr(rng.standard_normal((dim, dim)))[0].T[: _FAR // 2]
        ends += [sign * radius * axis for axis in axes for sign in (1.0, -1.0)]
        radius *= 2.0
    return np.asarray(fit.q.unwhiten(np.array(ends[:_FAR])))


def _is_reached(fit: Fit, point: Array) -> bool:
    """Whether a point lies where draws from q do, or not far outside."""
    z = np.linalg.solve(fit.q.factor, point - fit.q.mean)
    return float(np.linalg.norm(z)) < math.sqrt(fit.dim) + _SEPARATE


def _disagreement(fit: Fit) -> Iterator[Reason]:
    """Compare fits from independent starts: those nearly as good should be the same."""
    if not fit.restarts:
        return
    names, sd = _names(fit), fit.q.sd
    apart = [
        (restart, float(np.max(np.abs(restart.mean - fit.q.mean) / sd)))
        for restart in fit.restarts
        if not restart.elbo < fit.elbo - _MASS_WARN
    ]
    for restart, distance in sorted(apart, key=lambda pair: -pair[1])[:1]:
        if distance > 2 * _MEAN_FAIL:
            worst = int(np.argmax(np.abs(restart.mean - fit.q.mean) / sd))
            yield Reason(
                "warn",
                f"a fit from another start, with an ELBO of {restart.elbo:.2f} against "
                f"{fit.elbo:.2f}, has the mean of {names[worst]} {distance:.2g} sd away",
                "Allow more gradients; if they still differ, the posterior has several modes.",
            )


class ErrorBars(NamedTuple):
    """How well a fit's moments are determined, per unconstrained parameter and in its units."""

    mean: Array
    """The error of the fitted means as estimates of the best Gaussian's: root mean square."""
    sd: Array
    """The same of the fitted standard deviations."""
    mean_step: Array
    """Where the scores of fresh draws say that the means should move."""
    mean_error: Array
    """The standard error of that."""
    sd_step: Array
    sd_error: Array


def error_bars(fit: Fit, fresh: Fresh) -> ErrorBars:
    r"""Estimate how far q is from the Gaussian of highest ELBO, from the scores at fresh draws.

    There :math:`a = E_q[h]` and :math:`M = I + E_q[h z^\top]` vanish; elsewhere a Newton step moves
    the mean by L a and the covariance by L M Lᵀ. Both are means over draws, with standard errors;
    h + z in the place of h has the same means, and no variance where q is exact.
    """
    q, z = fit.q, fresh.z[fresh.good]
    count = max(len(z), 2)
    mismatch = np.asarray(q.whiten_score(fresh.score[fresh.good])) + z
    shift = mismatch @ q.factor.T
    mean_step, mean_error = shift.mean(axis=0), shift.std(axis=0, ddof=1) / math.sqrt(count)
    # (L (h + z) zᵀ Lᵀ)_jj of each draw, over 2 sd: the change of the standard deviation.
    change = shift * (z @ q.factor.T) / (2 * q.sd)
    sd_step, sd_error = change.mean(axis=0), change.std(axis=0, ddof=1) / math.sqrt(count)
    return ErrorBars(
        np.sqrt(np.maximum(mean_step**2 - mean_error**2, 0) + mean_error**2),
        np.sqrt(np.maximum(sd_step**2 - sd_error**2, 0) + sd_error**2),
        mean_step,
        mean_error,
        sd_step,
        sd_error,
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
    names, t = _names(fit), (fresh.theta[good] - q.mean) / q.sd
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


def _names(fit: Fit) -> list[str]:
    return [label for name, shape in fit.parameters for label in labels(name, shape)]
