"""The paper's empirical claims, each with the rule that decides it.

The rules were written before the studies were run. Nothing is decided by hand: a claim *holds*,
*holds partly* or *does not hold here*, as its rule says of the results on disk. BBVI always counts
with its best learning rate (:mod:`scorevi.studies.best_rate`), and the same rule is applied to
``auto`` in the place of GSM.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from scorevi.studies.best_rate import best_rate, median_below
from scorevi.studies.posteriors import NEAR_GAUSSIAN
from scorevi.studies.synthetic import dimension, skew_and_tail
from scorevi.studies.table import Curve, Table

HOLDS, PARTLY, NOT = "holds", "holds partly", "does not hold here"
KL, ELBO = "forward KL", "negative ELBO"
CONVERGED = 0.01
"""The forward KL, in nats, at which a fit of a Gaussian target counts as converged."""
NATS = 1.0
"""The distance from the best Gaussian's ELBO at which a fit of a posterior counts as arrived."""


class Found(NamedTuple):
    """What the results say of a claim."""

    verdict: str
    figure: str


Decide = Callable[[Table, str], Found]
"""Decides a claim about a solver, ``gsm`` or ``auto``."""


class Claim(NamedTuple):
    """A claim of the paper, in our words."""

    study: str
    says: str
    rule: str
    decide: Decide


def share_verdict(yes: Sequence[bool]) -> str:
    """Return the verdict of a claim about several targets: on all, on half of them, on fewer."""
    if all(yes):
        return HOLDS
    return PARTLY if sum(yes) >= len(yes) / 2 else NOT


class Speed(NamedTuple):
    """Gradients to a level on one target, medians over runs."""

    target: str
    ours: float
    bbvi: float
    budget: int
    """What BBVI was given."""

    @property
    def ratio(self) -> float:
        """How many times as many BBVI takes, at least; 0 where we do not arrive."""
        return min(self.bbvi, self.budget) / self.ours if math.isfinite(self.ours) else 0.0

    def __str__(self) -> str:
        if not math.isfinite(self.ours):
            return f"{short(self.target)}: not reached"
        return f"{short(self.target)}: {'' if math.isfinite(self.bbvi) else '> '}{self.ratio:.3g}×"


def speed(table: Table, target: str, solver: str, metric: str, level: float) -> Speed:
    """Compare a solver with BBVI on a target."""
    rate = best_rate(table, target, metric, level)
    theirs = table.curves(target, rate, metric) if rate else []
    ours = median_below(table.curves(target, solver, metric), level)
    budget = int(theirs[0].gradients[-1]) if theirs else 0
    return Speed(target, ours, median_below(theirs, level), budget)


def short(target: str) -> str:
    """Return a posterior's model without its data."""
    return target.partition("-")[2] or target


def _listed(items: Sequence[object]) -> str:
    return "; ".join(str(item) for item in items)


def _fewer(least: float, below: float = math.inf) -> Decide:
    def decide(table: Table, solver: str) -> Found:
        targets = [target for target in table.targets if dimension(target) < below]
        found = [speed(table, target, solver, KL, CONVERGED) for target in targets]
        return Found(share_verdict([one.ratio >= least for one in found]), _listed(found))

    return decide


def _exponent(table: Table, solver: str) -> Found:
    dims = np.array([dimension(target) for target in table.targets], dtype=float)
    by_run = np.array(
        [
            [curve.first_below(CONVERGED) for curve in table.curves(target, solver, KL)]
            for target in table.targets
        ]
    )
    reached = np.isfinite(by_run).all(axis=0)
    if not reached.any():
        return Found(NOT, "no run converged in all dimensions")
    slopes = np.polyfit(np.log(dims), np.log(by_run[:, reached]), 1)[0]
    middle = float(np.median(slopes))
    verdict = HOLDS if middle <= 1.2 else PARTLY if middle <= 1.5 else NOT
    return Found(
        verdict,
        f"gradients ∝ D^{middle:.2f} (from {slopes.min():.2f} to {slopes.max():.2f} over "
        f"{reached.sum()} runs)",
    )


def _worse_solution(table: Table, solver: str) -> Found:
    pairs = []
    for target in table.targets:
        rate = best_rate(table, target, KL)
        ours, theirs = (_final(table.curves(target, one, KL)) for one in (solver, rate or ""))
        pairs.append((short(target), ours, theirs))
    figure = _listed([f"{name}: {ours:.1e} against {theirs:.1e}" for name, ours, theirs in pairs])
    return Found(share_verdict([theirs > 2 * ours for _, ours, theirs in pairs]), figure)


def _final(curves: Sequence[Curve]) -> float:
    """Return the median over runs of a metric at the end; of zero, what rounding leaves."""
    return max(float(np.median([curve.last for curve in curves])), 1e-16) if curves else math.inf


def _insensitive(table: Table, solver: str) -> Found:
    first, last = table.targets[0], table.targets[-1]
    needed = [median_below(table.curves(target, solver, KL), CONVERGED) for target in table.targets]
    ratio = needed[-1] / needed[0]
    verdict = HOLDS if ratio <= 2 else PARTLY if ratio <= 5 else NOT
    numbers = ", ".join(f"{value:g}" for value in needed)
    return Found(verdict, f"{numbers} gradients from {first} to {last}: {ratio:.2g}× as many")


def _bbvi_stuck(table: Table, solver: str) -> Found:
    target = table.targets[-1]
    limit = 100 * median_below(table.curves(target, solver, KL), CONVERGED)
    rate = best_rate(table, target, KL, CONVERGED)
    theirs = table.curves(target, rate or "", KL)
    reached = sum(curve.first_below(CONVERGED) <= limit for curve in theirs)
    verdict = HOLDS if not reached else PARTLY if reached < len(theirs) / 2 else NOT
    figure = f"{target}: {reached} of {len(theirs)} runs of BBVI within {limit:,.0f} gradients"
    if reached:
        figure += f", in the median after {median_below(theirs, CONVERGED):,.0f}"
    return Found(verdict, f"{figure} ({rate})")


def _level(table: Table, target: str) -> float:
    """Return the level that counts as BBVI's final one on a target, with a margin."""
    theirs = table.curves(target, best_rate(table, target, KL) or "", KL)
    return 1.1 * late_level(theirs) + 0.02


def late_level(curves: Sequence[Curve]) -> float:
    """Return the median over runs of a metric's mean in the last half."""
    return float(np.median([np.mean(curve.late()) for curve in curves])) if curves else math.inf


def _faster_to_equal(table: Table, solver: str) -> Found:
    found = [speed(table, target, solver, KL, _level(table, target)) for target in table.targets]
    return Found(share_verdict([one.ratio >= 10 for one in found]), _listed(found))


def _equally_good(table: Table, solver: str) -> Found:
    same, told = [], []
    for target in table.targets:
        rate = best_rate(table, target, KL) or ""
        ours = late_level(table.curves(target, solver, KL))
        theirs = late_level(table.curves(target, rate, KL))
        same.append(ours <= theirs + max(0.1, 0.2 * abs(theirs)))
        told.append(f"{target}: {ours:.3g} against {theirs:.3g}")
    return Found(share_verdict(same), _listed(told))


def swing(curves: Sequence[Curve]) -> float:
    """Return the range, 10 to 90 %, of a metric in the last half, median over runs; ∞ if lost."""
    ranges = [
        np.subtract(*np.quantile(late, [0.9, 0.1])) if np.isfinite(late).all() else np.inf
        for late in (curve.late() for curve in curves)
    ]
    return float(np.median(ranges)) if ranges else math.nan


def _oscillates(table: Table, solver: str) -> Found:
    extreme: list[bool] = []
    mild: list[bool] = []
    told = []
    for target in table.targets:
        skew, tail = skew_and_tail(target)
        ours = swing(table.curves(target, solver, KL))
        theirs = swing(table.curves(target, best_rate(table, target, KL) or "", KL))
        yes = ours > 0.5 and ours > theirs
        (extreme if skew >= 1 or abs(tail - 1) >= 0.8 else mild).append(yes)
        told.append(f"{target}: {ours:.2g} against {theirs:.2g}")
    if not extreme or not mild:
        return Found(PARTLY, "needs mild and extreme targets")
    if all(extreme) and not any(mild):
        verdict = HOLDS
    else:
        verdict = PARTLY if np.mean(extreme) > np.mean(mild) else NOT
    return Found(verdict, _listed(told))


def _on_posteriors(table: Table, solver: str) -> Found:
    found = _to_the_best(table, solver)
    return Found(share_verdict([one.ratio >= 10 for one in found]), _listed(found))


def _to_the_best(table: Table, solver: str) -> list[Speed]:
    return [
        speed(table, target, solver, ELBO, best_elbo(table, target) + NATS)
        for target in table.targets
    ]


def best_elbo(table: Table, target: str) -> float:
    """Return the negative ELBO of the best Gaussian."""
    best = table.curves(target, "best", ELBO)
    return best[0].last if best else math.nan


def _larger_elbo(near_gaussian: bool) -> Decide:
    def decide(table: Table, solver: str) -> Found:
        yes, told = [], []
        for target in table.targets:
            if (target in NEAR_GAUSSIAN) is not near_gaussian:
                continue
            rate = best_rate(table, target, ELBO) or ""
            best = best_elbo(table, target)
            ours = late_level(table.curves(target, solver, ELBO)) - best
            theirs = late_level(table.curves(target, rate, ELBO)) - best
            yes.append(ours <= theirs + (0.1 if near_gaussian else 0.5))
            told.append(f"{short(target)}: {ours:.2g} against {theirs:.2g}")
        return Found(share_verdict(yes) if yes else PARTLY, _listed(told))

    return decide


def _stable_moments(table: Table, solver: str) -> Found:
    yes, told = [], []
    for target in table.targets:
        curves = [table.curves(target, solver, name) for name in ("mean error", "log sd error")]
        if not all(curves):
            continue
        mean, sd = (swing(some) for some in curves)
        noise = swing(table.curves(target, solver, ELBO))
        yes.append(mean <= 0.1 and sd <= 0.1)
        told.append(f"{short(target)}: ELBO {noise:.2g}, means {mean:.2g}, sds {sd:.2g}")
    return Found(share_verdict(yes) if yes else PARTLY, _listed(told))


def _batches(least: int, better: bool) -> Decide:
    def needed(table: Table, target: str, size: int) -> float:
        level = CONVERGED
        if not target.startswith("Gaussian"):
            all_ends = [late_level(table.curves(target, solver, KL)) for solver in table.solvers]
            level = 1.5 * min(all_ends)
        return median_below(table.curves(target, f"gsm B={size}", KL), level)

    def decide(table: Table, solver: str) -> Found:
        del solver
        sizes = [int(label.partition("=")[2]) for label in table.solvers]
        yes, told = [], []
        for target in table.targets:
            numbers = {size: needed(table, target, size) for size in sizes}
            if better:
                yes.append(numbers[2] < numbers[1])
                told.append(f"{target}: {numbers[2]:g} against {numbers[1]:g}")
            else:
                others = [numbers[size] for size in sizes if size >= least]
                yes.append(min(others) >= 0.9 * numbers[2])
                listed = ", ".join(f"{numbers[size]:g}" for size in sizes if size >= 2)
                told.append(f"{target}: {listed}")
        return Found(share_verdict(yes), _listed(told))

    return decide


def _any_start(table: Table, solver: str) -> Found:
    found = _to_the_best(table, solver)
    return Found(share_verdict([one.ratio > 1 for one in found]), _listed(found))


CLAIMS = (
    Claim(
        "dimensions",
        "GSM takes 10 to 100 times fewer gradients than BBVI.",
        f"Gradients to a forward KL of {CONVERGED}, medians over runs: at least 10× in every "
        "dimension holds, in half of them holds partly.",
        _fewer(10),
    ),
    Claim(
        "dimensions",
        "BBVI takes 100 times more even for small problems, D < 64.",
        "The same, at least 100× in every dimension below 64; in half of them partly.",
        _fewer(100, below=64),
    ),
    Claim(
        "dimensions",
        "GSM's gradients to convergence grow almost linearly with D.",
        "Exponent fitted on the log scale, median over runs: up to 1.2 holds, up to 1.5 partly.",
        _exponent,
    ),
    Claim(
        "dimensions",
        "BBVI ends in a worse solution.",
        "Median forward KL at the end of the budget more than twice GSM's in every dimension; in "
        "half of them partly.",
        _worse_solution,
    ),
    Claim(
        "condition",
        "GSM is largely insensitive to the condition number.",
        "Gradients at the largest over those at the smallest: up to 2× holds, up to 5× partly.",
        _insensitive,
    ),
    Claim(
        "condition",
        "BBVI does not converge for c > 100, with 100 times the gradients of GSM.",
        "Runs of BBVI that do at the largest c: none holds, fewer than half partly.",
        _bbvi_stuck,
    ),
    Claim(
        "nongaussian",
        "GSM is at least 10 times faster on non-Gaussian targets.",
        "Gradients to 1.1 times BBVI's late forward KL + 0.02: at least 10× on every target holds, "
        "on half of them partly.",
        _faster_to_equal,
    ),
    Claim(
        "nongaussian",
        "GSM converges to an equally good fit.",
        "Mean forward KL of the last half, median over runs, above BBVI's by at most 20 % or 0.1 "
        "nats on every target; on half of them partly.",
        _equally_good,
    ),
    Claim(
        "nongaussian",
        "GSM oscillates, more than BBVI, for s ≥ 1 or |t − 1| ≥ 0.8.",
        "Oscillates: the forward KL of the last half swings (10 to 90 %) by more than 0.5 nats and "
        "more than BBVI's. On all such targets and no other holds; on a larger share of them than "
        "of the others partly.",
        _oscillates,
    ),
    Claim(
        "posteriordb",
        "10 to 100 times fewer gradients on real posteriors.",
        f"Gradients to within {NATS:g} nat of the best Gaussian's ELBO, medians: at least 10× on "
        "every posterior holds, on half of them partly.",
        _on_posteriors,
    ),
    Claim(
        "posteriordb",
        "On near-Gaussian posteriors GSM ends with a larger ELBO, and stably.",
        "Nats below the best in the last half of each budget, median over runs: at most BBVI's + "
        "0.1 on all four; on two partly.",
        _larger_elbo(near_gaussian=True),
    ),
    Claim(
        "posteriordb",
        "On non-Gaussian posteriors it ends with the same quality as BBVI.",
        "The same, at most BBVI's + 0.5.",
        _larger_elbo(near_gaussian=False),
    ),
    Claim(
        "posteriordb",
        "Where the ELBO stays noisy, moments are stable.",
        "Swing (10 to 90 %) over the last half of the worst error of a mean, in sds, and of a log "
        "sd: at most 0.1 on every posterior; on half of them partly.",
        _stable_moments,
    ),
    Claim(
        "batch-size",
        "B = 2 is better than B = 1.",
        "Fewer gradients, in the median, to a forward KL of 0.01, or on non-Gaussian targets to "
        "1.5 times the lowest late level of any B: on every target holds, on half partly.",
        _batches(2, better=True),
    ),
    Claim(
        "batch-size",
        "Beyond B = 2 there is no improvement.",
        "No larger B takes less than 0.9 of the gradients of B = 2; on half of the targets partly.",
        _batches(4, better=False),
    ),
    Claim(
        "initialization",
        "Other starts do not change the conclusion.",
        f"GSM takes fewer gradients than BBVI to within {NATS:g} nat of the best ELBO, those of "
        "the start included, from every start on every target; from half partly.",
        _any_start,
    ),
)
