"""The tails of the posterior, by importance weights: of draws from q, and from wider than q."""

from __future__ import annotations

import math
from collections.abc import Iterator

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Gaussian, LowRank, Nested
from scorevi.trust.examination import (
    MEAN_FAIL,
    MEAN_WARN,
    MORE,
    SD_FAIL,
    SD_WARN,
    Examination,
)
from scorevi.trust.verdict import Reason
from scorevi.trust.weights import RELIABLE, Weights, are_bounded, normalised, smooth
from scorevi.trust.wider_draws import TIMES, is_affordable, look_again, look_wider
from scorevi.trust.width import too_wide

_CEILING = 12_000
"""Evaluations that a look may take; one that would take more is not made."""
_SHORTER = 0.05
"""Of log standard deviations, by which the intervals of q are too short or too long."""
_ELSE = (
    "Reparametrise (of a hierarchy try the other form: centered where each group has many "
    "observations, non-centered where it has few); or draw from the posterior itself: "
    "scorevi.sample(fit)."
)
_CORRELATIONS = (
    "Its correlations may be more than a diagonal and so many directions can hold: allow a larger "
    "rank, or where it fits into memory a full Gaussian, family='gaussian'."
)
_MIXTURE = "Leave family= at 'auto', or fit a mixture, with family='mixture'."
_AGREES = 0.1
"""Of log standard deviations, by which wider draws may differ for there to be no second look."""
_MANY = 100
"""Parameters of which the largest error is mostly chance."""
_NO_MEAN = 1.0
"""The k-hat from which on a distribution of weights has no mean."""
_EVEN_ENOUGH, _FEW_DIMENSIONS = 0.5, 10
"""The share of effective draws, in so many dimensions, below which tails may be there that no draw
has seen; in more a little misfit in each of them adds up."""


def tails(exam: Examination) -> Iterator[Reason]:
    """Weigh the fresh draws, and wider ones; more of them, up to a limit, until it is decided."""
    if exam.fresh.log_ratio is None:
        yield Reason(
            "warn",
            "the target has no log density, so weights and other modes cannot be looked at",
            "Pass log_density= when making the target.",
        )
        return
    found, needed = _looked(exam)
    while any(reason.level == "undecided" for reason in found) and needed <= _CEILING:
        exam.draw_more()
        found, needed = _looked(exam)
    for reason in found:
        yield reason._replace(level="warn") if reason.level == "undecided" else reason


def _looked(exam: Examination) -> tuple[list[Reason], int]:
    """Return what the draws so far say, and how many evaluations the next look would take."""
    weights, count = exam.weights, MORE * len(exam.fresh.z)
    assert weights is not None
    looks = not exam.is_exact and is_affordable(exam.q)
    if not weights.reliable:
        # One stray draw has a k-hat of any size. What is wider than q knows better, if it is sure.
        wider = look_wider(exam) if looks else None
        if wider is not None and are_bounded(normalised(wider[1])):
            return list(_beyond(exam, *wider)), (1 + TIMES) * count
        return list(_unreliable(exam)), count
    found = list(_within(exam))
    if found or not looks:
        return found, count
    return list(_beyond(exam, *look_wider(exam))), (1 + TIMES) * count


def _unreliable(exam: Examination) -> Iterator[Reason]:
    """Say what it means that the weights cannot be relied on."""
    weights, fresh = exam.weights, exam.fresh
    assert weights is not None
    wide = too_wide(exam.q.coordinates, fresh)
    if wide is not None:
        yield Reason(
            "fail",
            f"k-hat is {weights.khat:.2f}, above {RELIABLE}: most of the fit lies where the "
            f"posterior has nothing; the scores put the standard deviation of "
            f"{exam.labels[wide.parameter]} at {1 / wide.factor:.2g} of the fit's",
            "Allow more gradients, or try another solver or start: solver='auto', "
            "initial='laplace'.",
        )
        return
    culprits = _culprits(exam)
    # Neither arrived, nor to be mended by weights, which have no mean.
    is_lost = exam.course.status != "converged" and weights.khat > _NO_MEAN
    yield Reason(
        "fail" if is_lost else "warn",
        f"k-hat is {weights.khat:.2f}, above {RELIABLE}: the posterior has tails that the fit "
        f"does not reach{': ' if culprits else ''}{'; '.join(culprits)}",
        f"Means may be right and intervals too short. {_instead(exam)}",
    )


def _within(exam: Examination) -> Iterator[Reason]:
    """Look at weights that are reliable, and at the moments that they give."""
    weights, fresh = exam.weights, exam.fresh
    assert weights is not None
    share = weights.ess / len(weights.weights)
    if share < _EVEN_ENOUGH * math.sqrt(_FEW_DIMENSIONS / max(_FEW_DIMENSIONS, exam.q.dim)):
        culprits = _culprits(exam)
        yield Reason(
            "warn",
            f"the importance weights leave {share:.0%} of the draws, so that the posterior may "
            f"have tails which none has seen{': ' if culprits else ''}{'; '.join(culprits)}",
            f"{_intervals(exam, fresh.theta, weights.weights)} Use fit.resample(). "
            f"{_instead(exam)}",
        )
    yield from _moments(exam, fresh.theta, weights.weights, "the importance weights", are_of_q=True)


def _beyond(exam: Examination, theta: Array, log_ratio: Array) -> Iterator[Reason]:
    """Ask draws from wider than q for the moments; no more than a warning, as they may be few.

    They have seen what q has not, so where they cannot tell, nothing can: that is a warning too.
    """
    weights = _pooled(log_ratio)
    t, mean = _weighted(exam, theta, weights.weights)
    variance = weights.weights @ (t - mean) ** 2
    agrees = np.abs(0.5 * np.log(variance)).max() < _AGREES
    # A Gaussian with other moments sees little of what is one only given its scales.
    if not agrees and not isinstance(exam.q, Nested):
        sd = exam.q.sd
        spread = variance * sd**2
        if not isinstance(exam.q, LowRank):
            spread = (weights.weights * (t - mean).T) @ (t - mean) * sd * sd[:, None]
        theta, log_ratio = look_again(exam, exam.q.mean + sd * mean, spread)
        weights = _pooled(log_ratio)
    advice = f"{_intervals(exam, theta, weights.weights)} {_instead(exam)}"
    found = list(_moments(exam, theta, weights.weights, "draws from wider than the fit"))
    for reason in found:
        level = "undecided" if reason.level == "undecided" else "warn"
        yield Reason(level, reason.text, advice)
    if not found and not weights.reliable:
        yield Reason(
            "warn",
            f"draws from wider than the fit have a k-hat of {weights.khat:.2f}, above {RELIABLE}: "
            "the posterior has tails that the fit does not reach",
            advice,
        )


def _pooled(log_ratio: Array) -> Weights:
    """Weigh draws of q and wider ones: as they are where no weight is large, else smoothed."""
    raw = normalised(log_ratio)
    return Weights(raw, 0.0) if are_bounded(raw) else smooth(log_ratio)


def _instead(exam: Examination) -> str:
    """Say what to do where this q will not do."""
    if isinstance(exam.q, LowRank):
        return f"{_CORRELATIONS} {_ELSE}"
    return f"{_MIXTURE} {_ELSE}" if isinstance(exam.q, Gaussian) else _ELSE


def _weighted(exam: Examination, theta: Array, w: Array) -> tuple[Array, Array]:
    """Return draws in standard deviations of q from its mean, and their weighted mean."""
    t = (theta - exam.q.mean) / exam.q.sd
    t[w == 0.0] = 0.0
    return t, w @ t


def _intervals(exam: Examination, theta: Array, w: Array) -> str:
    """Say what is wrong with the intervals of q, as far as weighted draws can tell."""
    t, mean = _weighted(exam, theta, w)
    log_sd = 0.5 * np.log(np.maximum(w @ (t - mean) ** 2, 1e-300))
    worst = log_sd[np.argmax(np.abs(log_sd))]
    if abs(worst) < _SHORTER:
        return "Intervals may be a little off."
    return f"Intervals may be too {'short' if worst > 0 else 'long'}."


def _moments(
    exam: Examination, theta: Array, w: Array, source: str, *, are_of_q: bool = False
) -> Iterator[Reason]:
    """Compare the moments of weighted draws with those of q; ``source`` says whose they are.

    What q's own draws show of themselves, without weights, is no failure of q: of tails as long as
    those of a funnel they have too little.
    """
    t, mean = _weighted(exam, theta, w)
    log_sd = 0.5 * np.log(np.maximum(w @ (t - mean) ** 2, 1e-300))
    # The errors of self-normalised weights, a little too large because the draws of q are known.
    mean_error = np.sqrt((w**2) @ (t - mean) ** 2)
    sd_error = 0.5 * np.sqrt((w**2) @ ((t - mean) ** 2 / np.exp(2 * log_sd) - 1.0) ** 2)
    names, many = exam.labels, _errors_of_the_largest(exam)
    own_mean, own_log_sd = np.zeros_like(mean), np.zeros_like(log_sd)
    if are_of_q:
        seen = t[w > 0.0]
        own_mean, own_log_sd = seen.mean(axis=0), np.log(np.maximum(seen.std(axis=0), 1e-300))
    for what, figure, own, error, warn, fail in (
        ("mean", mean, own_mean, mean_error, MEAN_WARN, MEAN_FAIL),
        ("standard deviation", log_sd, own_log_sd, sd_error, SD_WARN, SD_FAIL),
    ):
        off = np.abs(figure)
        # Of a tail that draws seldom reach, they see too little: to warn one error is enough.
        worst = int(np.argmax(off - (1 + many) * error))
        if off[worst] - (1 + many) * error[worst] > warn:
            surely = min(off[worst], abs(figure[worst] - own[worst]))
            level = "fail" if surely - (2 + many) * error[worst] > fail else "warn"
            size = (
                f"{off[worst]:.2g} sd"
                if what == "mean"
                else f"a factor of {math.exp(off[worst]):.2g}"
            )
            yield Reason(
                level,
                f"{source} put the {what} of {names[worst]} off by {size}",
                "Use fit.resample(), whose draws are corrected by the weights.",
            )
        elif _is_open(off, error, (warn, fail), exam):
            worst = int(np.argmax(off + 2 * error))
            yield Reason(
                "undecided",
                f"{len(t)} draws are too few, with weights as uneven as these, to tell whether the "
                f"{what} of {names[worst]} is right",
                "The posterior has tails that draws seldom reach; sample to be sure.",
            )


def _is_open(off: Array, error: Array, bounds: tuple[float, float], exam: Examination) -> bool:
    """Whether more draws might tell; of a diagonal and directions, whether of most figures."""
    warn, fail = bounds
    upper = off + 2 * error
    if exam.q.dim <= _MANY:
        return bool((upper > fail).any())
    if isinstance(exam.q, LowRank):
        return bool(np.median(upper) > fail)
    return bool((upper > fail).any() or (off - error > warn).any())


def _errors_of_the_largest(exam: Examination) -> float:
    """Return by how many standard errors the largest of very many figures is off by chance."""
    return math.sqrt(2.0 * math.log(exam.q.dim)) if exam.q.dim > _MANY else 0.0


def _culprits(exam: Examination) -> list[str]:
    """Name the parameters whose scores differ most from those of q, and the tails they have."""
    q, fresh = exam.q, exam.fresh
    assert fresh.log_ratio is not None
    good = fresh.good
    if good.sum() < 25:
        return []
    mismatch = (fresh.score[good] - q.score(fresh.theta[good])) * q.sd
    size = np.median(mismatch**2, axis=0) + np.minimum((mismatch**2).mean(axis=0), 1e6)
    names, t = exam.labels, (fresh.theta[good] - q.mean) / q.sd
    told = []
    for index in np.argsort(-size)[:3]:
        if size[index] < 0.5 * size.max():
            break
        shape = _shape(t[:, index], fresh.log_ratio[good])
        told.append(f"{names[index]} ({shape})" if shape else names[index])
    return told


def _shape(t: Array, log_ratio: Array) -> str:
    """Say on which side a marginal has more, or less, than q; empty where on neither."""
    inner = log_ratio[np.abs(t) < 1.0]
    middle = np.median(inner) if len(inner) else np.median(log_ratio)
    sides = {"left": log_ratio[t < -1.2], "right": log_ratio[t > 1.2]}
    sides = {side: values for side, values in sides.items() if len(values)}
    heavy = [side for side, values in sides.items() if np.median(values) > middle + 0.3]
    light = [side for side, values in sides.items() if np.median(values) < middle - 0.3]
    words = []
    if heavy:
        words.append(f"a long {' and a long '.join(heavy)} tail")
    if light:
        words.append(f"nothing far to the {' and the '.join(light)}")
    return ", ".join(words)
