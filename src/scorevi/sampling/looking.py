"""What is looked at before anything is drawn: whether weights may correct q, and other modes.

Weights of draws from q cannot reveal what q does not reach. So they may correct q only where

- their tail is light (k-hat at most 0.7), and so many of the draws are effective that NUTS would
  not be cheaper;
- draws from wider than q (:mod:`scorevi.trust.wider_draws`), weighted as well, have the same
  moments as the weighted draws of q: else q lacks a tail;
- of a mixture in many dimensions, it does not end abruptly (:mod:`scorevi.trust.edges`).

Other modes are looked for in any case: neither weights nor chains find those by themselves.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import WIDER, stream
from scorevi.sampling.pool import Pool
from scorevi.sampling.weighted import effective_weighted, in_units
from scorevi.trust.check import contradicting
from scorevi.trust.edges import edges
from scorevi.trust.examination import Examination
from scorevi.trust.modes import other_modes
from scorevi.trust.verdict import Reason
from scorevi.trust.weights import smooth
from scorevi.trust.wider_draws import TIMES, log_density_at, wider_than

MOST_PER_EFFECTIVE = 10.0
"""Evaluations for one effective draw, above which NUTS is cheaper."""
_DIFFERS = 0.1
"""Of means, in standard deviations, and of log standard deviations."""
_ERRORS = 2.0
_EVEN = 0.9
"""The share of effective draws from which on q is right."""


class Look(NamedTuple):
    """What was found."""

    pool: Pool
    """Draws of q, and wider ones."""
    against_weights: str
    """Why weights may not correct q; empty where they may."""
    is_right: bool
    """Whether there is next to nothing to correct."""
    reasons: tuple[Reason, ...]
    """What no draws by this q can mend: other modes, scores that are not those of the density."""


def look(exam: Examination) -> Look:
    """Look at q; raises :class:`scorevi.base.evaluate.Exhausted` where the budget is too small."""
    reasons = list(contradicting(exam))
    if reasons:
        pool, against, share = _own(exam), "the scores contradict the log density", 0.0
    else:
        pool, against, share = _against(exam)
        reasons += other_modes(exam)
    is_right = not against and not reasons and share >= _EVEN
    return Look(pool, against, is_right, tuple(reasons))


def _own(exam: Examination) -> Pool:
    fresh = exam.fresh
    assert fresh.log_ratio is not None
    return Pool(fresh.theta, fresh.log_ratio + fresh.log_q, fresh.log_q)


def _against(exam: Examination) -> tuple[Pool, str, float]:
    """Say what speaks against weights, and what share of the draws of q they leave."""
    weights, pool = exam.weights, _own(exam)
    assert weights is not None
    if not weights.reliable:
        return pool, f"k-hat of the importance weights is {weights.khat:.2f}", 0.0
    t = in_units(exam.q, pool.theta, weights.weights)
    share = float(np.min(effective_weighted(t, weights.weights))) / len(t)
    if not share * MOST_PER_EFFECTIVE >= 1.0:
        return pool, f"the importance weights leave {share:.0%} of the draws", share
    for reason in edges(exam):
        return pool, reason.text, share
    if exam.is_exact:
        return pool, "", share
    count = TIMES * pool.own
    theta = wider_than(exam.q).sample(count, stream(exam.seed, WIDER))
    pool = pool.with_wider(exam.q, theta, log_density_at(exam.evaluator, theta))
    return pool, _lacking(exam, t, weights.weights, pool), share


def _lacking(exam: Examination, t: Array, w: Array, pool: Pool) -> str:
    """Compare the moments of weighted draws of q with those that wider ones give as well."""
    wide = smooth(pool.log_ratio)
    if not wide.reliable:
        return f"draws from wider than q have a k-hat of {wide.khat:.2f}"
    own, wider = _moments(t, w), _moments(in_units(exam.q, pool.theta, wide.weights), wide.weights)
    for what, here, there in zip(("mean", "standard deviation"), own, wider, strict=True):
        off = np.abs(here[0] - there[0]) - _ERRORS * np.hypot(here[1], there[1])
        worst = int(np.argmax(off))
        if off[worst] > _DIFFERS:
            return (
                f"draws from wider than q have another {what} of {exam.labels[worst]} than draws "
                "of q, both weighted"
            )
    return ""


def _moments(t: Array, w: Array) -> tuple[tuple[Array, Array], tuple[Array, Array]]:
    """Return the means and the log standard deviations, each with its error."""
    mean = w @ t
    squares = (t - mean) ** 2
    variance = np.maximum(w @ squares, 1e-300)
    mean_error = np.sqrt(w**2 @ squares)
    sd_error = 0.5 * np.sqrt(w**2 @ (squares / variance - 1.0) ** 2)
    return (mean, mean_error), (0.5 * np.log(variance), sd_error)
