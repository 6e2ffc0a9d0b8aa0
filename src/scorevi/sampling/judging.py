"""The verdict on a sample, from what it says of itself: ``pass``, ``warn`` or ``fail``.

Nothing is evaluated for it. A pass takes chains that agree (R-hat at most 1.01), an effective
sample of every parameter, bulk and tail, as large as was asked for, next to no divergences,
energies that momenta can reach, weights with light tails where there are weights, no other mode in
sight, and agreement with q where q was right.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, Array
from scorevi.base.status import Status
from scorevi.sampling.asked import MIXED
from scorevi.sampling.diagnostics import energy_information
from scorevi.sampling.rounds import DIVERGENT
from scorevi.sampling.weighted import surely
from scorevi.trust.verdict import Reason, Verdict
from scorevi.trust.weights import RELIABLE, smooth

_APART = 1.05
"""The R-hat above which the chains are in different places."""
_FEW = 100.0
"""Effective draws below which there is nothing to rely on."""
_MANY_DIVERGED = 0.05
_DEEP = 0.01
"""The share of trajectories that may be cut at their greatest length."""
_ENERGY = 0.3
_BAD = 0.1
_TOLD = 0.5
"""The k-hat of a square from which on its mean has an error without bounds."""
_OFF, _ERRORS = 0.15, 4.0
"""By how much moments may differ from those of q where q was right, and how many errors more."""
_SAMPLE_LONGER = "Sample longer, with larger ess= and max_gradients=, or reparametrise."


class Judged(NamedTuple):
    """What the verdict on a sample is by."""

    method: str
    theta: Array
    """(chain, draw, D)."""
    stats: Mapping[str, AnyArray]
    ess: Array
    r_hat: Array
    khat: float
    asked: float
    """The effective sample that was asked for."""
    status: Status
    found: Sequence[Reason]
    """What no draws can mend."""
    bad: int
    """Bad scores among the gradients of chains."""
    labels: Sequence[str]
    right: tuple[Array, Array] | None
    """Mean and standard deviations of a q that was right; None where it was not."""


def judge(sample: Judged) -> Verdict:
    """Say whether to believe a sample."""
    return Verdict(tuple(_reasons(sample)), sample.khat, _share(sample))


def _share(sample: Judged) -> float:
    chains, count, _ = sample.theta.shape
    return float(np.min(sample.ess)) / (chains * count) if count else math.nan


def _reasons(sample: Judged) -> Iterator[Reason]:
    status = sample.status
    if not sample.theta.shape[1]:
        yield Reason("fail", f"nothing was drawn: {status.cause}", status.advice)
        return
    yield from sample.found
    if status not in ("converged", "interrupted"):
        yield Reason("fail", f"it ended with {status!s}: {status.cause}", status.advice)
    elif status == "interrupted":
        yield Reason("warn", f"it ended with {status!s}: {status.cause}", status.advice)
    yield from _mixing(sample)
    if sample.method == "nuts":
        yield from _trajectories(sample)
    elif not sample.khat <= RELIABLE:
        yield Reason(
            "fail",
            f"k-hat is {sample.khat:.2f}, above {RELIABLE}: the weights have too long a tail",
            "Sample with method='nuts'.",
        )
    yield from _long_tails(sample)
    yield from _disagreement(sample)


def _long_tails(sample: Judged) -> Iterator[Reason]:
    """Ask whether draws tell the standard deviation: not of tails like those of a funnel."""
    flat = sample.theta.reshape(-1, sample.theta.shape[2])
    with np.errstate(divide="ignore"):
        log_squares = 2.0 * np.log(np.abs(flat - flat.mean(axis=0)))
    khats = [surely(smooth(column).khat, len(flat)) for column in log_squares.T]
    worst = int(np.argmax(khats))
    if khats[worst] > _TOLD:
        yield Reason(
            "warn",
            f"{sample.labels[worst]} has tails so long that these draws do not tell its standard "
            f"deviation (k-hat of its square is {khats[worst]:.2f} or more)",
            "Use quantiles; or reparametrise.",
        )


def _mixing(sample: Judged) -> Iterator[Reason]:
    """Ask whether the chains agree, and how much they are worth."""
    known = np.isfinite(sample.r_hat).any()  # not of a few draws, of which the next reason tells
    worst = int(np.nanargmax(sample.r_hat)) if known else 0
    r_hat = float(sample.r_hat[worst])
    if r_hat > MIXED:
        yield Reason(
            "warn" if r_hat <= _APART else "fail",
            f"R-hat of {sample.labels[worst]} is {r_hat:.3f}, above {MIXED}: the chains do not "
            "agree",
            _SAMPLE_LONGER,
        )
    least = int(np.argmin(sample.ess))
    ess = float(sample.ess[least])
    if not ess >= min(sample.asked, _FEW):
        yield Reason(
            "fail",
            f"the effective sample of {sample.labels[least]} is {ess:.0f}, fewer than "
            f"{min(sample.asked, _FEW):.0f}",
            _SAMPLE_LONGER,
        )
    elif not ess >= sample.asked:
        yield Reason(
            "warn",
            f"the effective sample of {sample.labels[least]} is {ess:.0f}, of {sample.asked:g} "
            "that were asked for",
            _SAMPLE_LONGER,
        )


def _trajectories(sample: Judged) -> Iterator[Reason]:
    """Ask what the trajectories met."""
    diverging = sample.stats["diverging"]
    count, size = int(diverging.sum()), diverging.size
    if count > max(1.0, DIVERGENT * size):
        yield Reason(
            "fail" if count > _MANY_DIVERGED * size else "warn",
            f"{count} of {size} trajectories diverged: there is a part of the posterior, such as "
            "the neck of a funnel, that they do not enter",
            "Reparametrise: of a hierarchy try the other form, centered or non-centered.",
        )
    cut = float(np.mean(sample.stats["reached_max_treedepth"]))
    if cut > _DEEP:
        yield Reason(
            "warn",
            f"{cut:.0%} of the trajectories were cut at their greatest length",
            "Fit with more gradients, so that its coordinates suit it better, or reparametrise.",
        )
    energy = energy_information(sample.stats["energy"])
    if energy < _ENERGY:
        yield Reason(
            "warn",
            f"the fraction of missing information is {energy:.2f}, below {_ENERGY}: the chains "
            "creep along a direction in which the posterior's width changes",
            "Reparametrise, or sample longer.",
        )
    share = sample.bad / max(float(sample.stats["n_steps"].sum()), 1.0)
    if share > _BAD:
        yield Reason(
            "warn",
            f"{share:.0%} of the scores were no use",
            "The posterior ends, or the model fails, within reach; work on an unconstrained scale.",
        )


def _disagreement(sample: Judged) -> Iterator[Reason]:
    """Compare with a q that was right."""
    if sample.right is None:
        return
    mean, sd = sample.right
    flat = sample.theta.reshape(-1, len(mean))
    error = _ERRORS / np.sqrt(np.maximum(sample.ess, 1.0))
    off = np.maximum(np.abs(flat.mean(axis=0) - mean) / sd, np.abs(np.log(flat.std(axis=0) / sd)))
    worst = int(np.argmax(off - error))
    if off[worst] - error[worst] > _OFF:
        yield Reason(
            "warn",
            f"the moments of {sample.labels[worst]} differ by {off[worst]:.2g} from those of the "
            "fit, which seemed to be right",
            "Sample with another seed; look at fit.check().",
        )
