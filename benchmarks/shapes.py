"""Where one Gaussian is not enough: default fits, one Gaussian, and nutpie with as many gradients.

Errors are the largest over the marginals, of means in standard deviations and of log standard
deviations: of q itself, by 20,000 draws, and of 4,000 draws resampled out of 8,000.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import warnings
from collections.abc import Iterator
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import NamedTuple

import numpy as np

import scorevi
from scorevi.studies.trials import SUITES, cases

SEEDS = int(os.environ.get("SCOREVI_BENCH_SEEDS", "10"))
FEW, MANY = 30, 120


class Bar(NamedTuple):
    """What is asked of a group of targets."""

    gradients: int
    own: tuple[float, float]
    """Errors of q itself."""
    resampled: tuple[float, float]


BARS = {
    "hierarchies, D ≤ 30": Bar(6000, (0.15, 0.2), (0.1, 0.1)),
    "hierarchies, 30 < D ≤ 120": Bar(10_000, (0.15, 0.2), (0.1, 0.1)),
    "eight schools non-centered, gp, bball": Bar(4000, (0.1, 0.15), (0.06, 0.08)),
    "eight schools centered": Bar(6000, (0.3, 0.4), (0.15, 0.2)),
    "bent": Bar(4000, (0.1, 0.15), (0.06, 0.08)),
    "sinh-arcsinh": Bar(4000, (0.12, 0.25), (0.1, 0.15)),
}
NAMED = {
    "eight_schools-eight_schools_noncentered": "eight schools non-centered, gp, bball",
    "gp_pois_regr-gp_pois_regr": "eight schools non-centered, gp, bball",
    "bball_drive_event_0-hmm_drive_0": "eight schools non-centered, gp, bball",
    "eight_schools-eight_schools_centered": "eight schools centered",
    "funnel, scale 1": "bent",
    "banana": "bent",
    "ring": "bent",
    "two modes, 50 : 50": "bent",
    "two modes, 90 : 10": "bent",
    "two modes that touch, 50 : 50": "bent",
    "sinh-arcsinh, skew 1, tail 1": "sinh-arcsinh",
    "sinh-arcsinh, skew 0, tail 0.5": "sinh-arcsinh",
}


class Made(NamedTuple):
    """One fit."""

    group: str
    target: str
    gradients: int
    kind: str
    own: tuple[float, float]
    resampled: tuple[float, float]
    gaussian: tuple[float, float]


def shapes() -> None:
    """Print the errors of default fits, target by target, and how many are within the bars."""
    print(
        f"Default fits, {SEEDS} seeds: medians of the errors of q, of resampled draws, and of one"
    )
    print("Gaussian with the first seed\n")
    print("| target | gradients | q | q | resampled | within the bar | one Gaussian |")
    print("|---|---|---|---|---|---|---|", flush=True)
    jobs = [(suite, name) for suite in SUITES for name in cases(suite) if _is_asked(suite, name)]
    context = multiprocessing.get_context("spawn")
    everything: list[Made] = []
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        for found in pool.map(_made, jobs):
            if found:
                print(_row(found), flush=True)
                everything += found
    print()
    for group, bar in BARS.items():
        found = [one for one in everything if one.group == group]
        if found:
            own = [sum(_is_within(one.own, bar.own) for one in found)]
            good = sum(_is_within(one.resampled, bar.resampled) for one in found)
            cheap = sum(one.gradients <= bar.gradients for one in found)
            print(
                f"{group}: q {_middle([one.own for one in found])} in median (bar "
                f"{bar.own[0]:g} / {bar.own[1]:g}), within it {own[0]} of {len(found)}; resampled "
                f"within {bar.resampled[0]:g} / {bar.resampled[1]:g} {good} of {len(found)}; at "
                f"most {bar.gradients:,} gradients {cheap} of {len(found)}"
            )
    print()


def _is_asked(suite: str, name: str) -> bool:
    return suite == "hierarchies" or name in NAMED


def _made(job: tuple[str, str]) -> list[Made]:
    suite, name = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        case = cases(suite)[name]()
        if case.errors_of_draws is None:
            return []
        return list(_fits(suite, name, case))


def _fits(suite: str, name: str, case) -> Iterator[Made]:
    group = NAMED.get(name, "")
    if suite == "hierarchies":
        group = "hierarchies, D ≤ 30" if case.target.dim <= FEW else "hierarchies, 30 < D ≤ 120"
    one = scorevi.fit(case.target, family="gaussian", seed=0)
    gaussian = case.errors_of_draws(one.sample(20_000, seed=0))
    for seed in range(SEEDS):
        fit = scorevi.fit(case.target, seed=seed)
        own = case.errors_of_draws(fit.sample(20_000, seed=0))
        try:
            chosen = fit.resample(4000, seed=1, proposals=8000)
            resampled = case.errors_of_draws(chosen.theta)
        except scorevi.FitError:
            resampled = (math.inf, math.inf)
        kind = type(fit.q).__name__
        yield Made(group, name, fit.num_gradients, kind, own, resampled, gaussian)


def _is_within(errors: tuple[float, float], bar: tuple[float, float]) -> bool:
    """Compare an error of means and a factor of standard deviations with a bar of logarithms."""
    return errors[0] <= bar[0] and math.log(errors[1]) <= bar[1]


def _row(found: list[Made]) -> str:
    bar = BARS[found[0].group]
    within = sum(_is_within(one.resampled, bar.resampled) for one in found)
    kinds = "/".join(sorted({one.kind for one in found}))
    return (
        f"| {found[0].target} | {median(one.gradients for one in found):.0f} | {kinds} | "
        f"{_middle([one.own for one in found])} | {_middle([one.resampled for one in found])} | "
        f"{within} of {len(found)} | {_middle([found[0].gaussian])} |"
    )


def _middle(errors: list[tuple[float, float]]) -> str:
    mean, factor = (median(column) for column in zip(*errors, strict=True))
    return f"{mean:.2f} / {np.log(factor):.2f}"
