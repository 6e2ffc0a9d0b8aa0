"""The rules that decide the paper's claims, each a function of a study's table and a solver.

BBVI always counts with its best learning rate (:mod:`scorevi.studies.best_rate`). Of several
targets, a claim that is true of all holds, and of half of them holds partly.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

import numpy as np

from scorevi.studies.best_rate import best_rate, median_below
from scorevi.studies.posteriors import NEAR_GAUSSIAN
from scorevi.studies.synthetic import dimension, skew_and_tail
from scorevi.studies.table import Curve, Table, short

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


def _listed(items: Sequence[object]) -> str:
    return "; ".join(str(item) for item in items)


def fewer_gradients(least: float, below: float = math.inf) -> Decide:
    """Decide whether BBVI takes ``least`` times as many gradients, in dimensions below a limit."""

    def decide(table: Table, solver: str) -> Found:
        targets = [target for target in table.targets if dimension(target) < below]
        found = [speed(table, target, solver, KL, CONVERGED) for target in targets]
        return Found(share_verdict([one.ratio >= least for one in found]), _listed(found))

    return decide


def exponent(table: Table, solver: str) -> Found:
    """Fit the exponent of gradients to convergence in D."""
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


def worse_solution(table: Table, solver: str) -> Found:
    """Compare where the budgets end."""
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


def insensitive(table: Table, solver: str) -> Found:
    """Compare the largest condition number with the smallest."""
    first, last = table.targets[0], table.targets[-1]
    needed = [median_below(table.curves(target, solver, KL), CONVERGED) for target in table.targets]
    ratio = needed[-1] / needed[0]
    verdict = HOLDS if ratio <= 2 else PARTLY if ratio <= 5 else NOT
    numbers = ", ".join(f"{value:g}" for value in needed)
    return Found(verdict, f"{numbers} gradients from {first} to {last}: {ratio:.2g}× as many")


def bbvi_stuck(table: Table, solver: str) -> Found:
    """Count the runs of BBVI that converge at the largest condition number."""
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


def bbvi_level(table: Table, target: str) -> float:
    """Return the level that counts as BBVI's final one on a target, with a margin."""
    theirs = table.curves(target, best_rate(table, target, KL) or "", KL)
    return 1.1 * late_level(theirs) + 0.02


def late_level(curves: Sequence[Curve]) -> float:
    """Return the median over runs of a metric's mean in the last half."""
    return float(np.median([np.mean(curve.late()) for curve in curves])) if curves else math.inf


def faster_to_equal(table: Table, solver: str) -> Found:
    """Compare gradients to BBVI's late level."""
    found = [
        speed(table, target, solver, KL, bbvi_level(table, target)) for target in table.targets
    ]
    return Found(share_verdict([one.ratio >= 10 for one in found]), _listed(found))


def equally_good(table: Table, solver: str) -> Found:
    """Compare late levels."""
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


def oscillates(table: Table, solver: str) -> Found:
    """Compare how much the late forward KL swings, on mild and on extreme targets."""
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


def on_posteriors(table: Table, solver: str) -> Found:
    """Compare gradients to near the best Gaussian's ELBO."""
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


def larger_elbo(near_gaussian: bool) -> Decide:
    """Decide whether the late ELBO is as large as BBVI's, on one kind of posterior."""

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


def stable_moments(table: Table, solver: str) -> Found:
    """Look at how much errors of moments swing late in the runs."""
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


def batch_level(table: Table, target: str) -> float:
    """Return the forward KL to which batch sizes are compared on a target."""
    if target.startswith("Gaussian"):
        return CONVERGED
    return 1.5 * min(late_level(table.curves(target, solver, KL)) for solver in table.solvers)


def batches(least: int, better: bool) -> Decide:
    """Decide whether B = 2 beats B = 1, or whether larger batches, from ``least`` on, do not."""

    def decide(table: Table, solver: str) -> Found:
        del solver
        sizes = [int(label.partition("=")[2]) for label in table.solvers]
        yes, told = [], []
        for target in table.targets:
            level = batch_level(table, target)
            numbers = {
                size: median_below(table.curves(target, f"gsm B={size}", KL), level)
                for size in sizes
            }
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


def any_start(table: Table, solver: str) -> Found:
    """Compare gradients to near the best ELBO from every start."""
    found = _to_the_best(table, solver)
    return Found(share_verdict([one.ratio > 1 for one in found]), _listed(found))
