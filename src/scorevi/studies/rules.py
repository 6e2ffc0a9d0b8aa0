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
from scorevi.studies.levels import (
    CONVERGED,
    ELBO,
    KL,
    NATS,
    Speed,
    batch_level,
    bbvi_level,
    best_elbo,
    final_level,
    late_level,
    speed,
    swing,
)
from scorevi.studies.posteriors import NEAR_GAUSSIAN
from scorevi.studies.synthetic import BATCH_SIZES, DIMENSIONS, SHAPES
from scorevi.studies.table import Table, short

HOLDS, PARTLY, NOT = "holds", "holds partly", "does not hold here"


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


def _listed(items: Sequence[object]) -> str:
    return "; ".join(str(item) for item in items)


def fewer_gradients(least: float, below: float = math.inf) -> Decide:
    """Decide whether BBVI takes ``least`` times as many gradients, in dimensions below a limit."""

    def decide(table: Table, solver: str) -> Found:
        targets = [target for target in table.targets if DIMENSIONS[target] < below]
        found = [speed(table, target, solver, KL, CONVERGED) for target in targets]
        return Found(share_verdict([one.ratio >= least for one in found]), _listed(found))

    return decide


def exponent(table: Table, solver: str) -> Found:
    """Fit the exponent of gradients to convergence in D."""
    dims = np.array([DIMENSIONS[target] for target in table.targets], dtype=float)
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
        ours, theirs = (final_level(table.curves(target, one, KL)) for one in (solver, rate or ""))
        pairs.append((short(target), ours, theirs))
    figure = _listed([f"{name}: {ours:.1e} against {theirs:.1e}" for name, ours, theirs in pairs])
    return Found(share_verdict([theirs > 2 * ours for _, ours, theirs in pairs]), figure)


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


def oscillates(table: Table, solver: str) -> Found:
    """Compare how much the late forward KL swings, on mild and on extreme targets."""
    extreme: list[bool] = []
    mild: list[bool] = []
    told = []
    for target in table.targets:
        skew, tail = SHAPES[target]
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


def batches(least: int, better: bool) -> Decide:
    """Decide whether B = 2 beats B = 1, or whether larger batches, from ``least`` on, do not."""

    def decide(table: Table, solver: str) -> Found:
        del solver
        labels = {BATCH_SIZES[label]: label for label in table.solvers}
        yes, told = [], []
        for target in table.targets:
            level = batch_level(table, target)
            numbers = {
                size: median_below(table.curves(target, label, KL), level)
                for size, label in labels.items()
            }
            if better:
                yes.append(numbers[2] < numbers[1])
                told.append(f"{target}: {numbers[2]:g} against {numbers[1]:g}")
            else:
                others = [numbers[size] for size in labels if size >= least]
                yes.append(min(others) >= 0.9 * numbers[2])
                listed = ", ".join(f"{numbers[size]:g}" for size in labels if size >= 2)
                told.append(f"{target}: {listed}")
        return Found(share_verdict(yes), _listed(told))

    return decide


def any_start(table: Table, solver: str) -> Found:
    """Compare gradients to near the best ELBO from every start."""
    found = _to_the_best(table, solver)
    return Found(share_verdict([one.ratio > 1 for one in found]), _listed(found))
