"""When the default fit stops: how much later than it might have, how near, and what it says of it.

The limit of a fit is where a long one ends up: the average of its means and log standard deviations
over the second half of 40,000 gradients, so that its own noise is small. A fit has *arrived* when
it stays within 0.1 sd and 10 % of the limit from there on.
"""

from __future__ import annotations

import math
import multiprocessing
import os
import warnings
from concurrent.futures import ProcessPoolExecutor
from statistics import median
from typing import NamedTuple

import numpy as np

import scorevi
from scorevi.studies.trials import cases

SUITES = "hierarchies", "the eight"
SEEDS = 10
LONG, FAR = 40_000, 10_000
TOLERANCE = 0.1
NEAR = 0.15


class Ended(NamedTuple):
    """One fit, at its stop."""

    gradients: int
    oracle: float
    """Gradients after which it stays near the limit; infinite where it does not within 10,000."""
    mean: float
    """Distances from the limit: in standard deviations, and of their logarithms."""
    log_sd: float
    covered: float
    """The share of means that lie within two error bars of the limit."""
    status: str

    @property
    def is_near(self) -> bool:
        """Whether it is within 0.15 sd and 15 %."""
        return self.mean <= NEAR and self.log_sd <= math.log1p(NEAR)


def stopping() -> None:
    """Print, target by target, what the stop rule makes of it."""
    print(f"Where default fits stop, {SEEDS} seeds: gradients; over those after which a fit stays")
    print(
        f"within {TOLERANCE} sd and 10 % of its limit; distance at the stop, median and worst; the"
    )
    print("share of means within two error bars\n")
    print("| target | gradients | over the oracle's | mean off, sd | log sd off | covered |")
    print("|---|---|---|---|---|---|", flush=True)
    jobs = [(suite, name) for suite in SUITES for name in cases(suite)]
    everything: list[Ended] = []
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), mp_context=context) as pool:
        for (_, name), found in zip(jobs, pool.map(_ended, jobs), strict=True):
            print(_row(name, found), flush=True)
            everything += found
    known = [one.gradients / one.oracle for one in everything if math.isfinite(one.oracle)]
    called = [one.is_near for one in everything if one.status == "converged"]
    print(f"\nover the oracle's: median {median(known):.2f}, worst {max(known):.1f},")
    print(f"of {len(known)} that arrive within {FAR:,} gradients;")
    print(f"within {NEAR} sd and 15 % at the stop: {_share([one.is_near for one in everything])},")
    print(f"of those called converged {_share(called)};")
    print(f"means within two error bars: {np.mean([one.covered for one in everything]):.0%}\n")


def _ended(job: tuple[str, str]) -> list[Ended]:
    suite, name = job
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        target = cases(suite)[name]().target
        mean, log_sd = _limit(target)
        return [_one(target, seed, mean, log_sd) for seed in range(SEEDS)]


def _limit(target: scorevi.Target) -> tuple[np.ndarray, np.ndarray]:
    steps = scorevi.iterate(target, family="gaussian", seed=1000, max_gradients=LONG)
    late = [step.q for step in steps if step.num_gradients > LONG // 2]
    return np.mean([q.mean for q in late], axis=0), np.mean([np.log(q.sd) for q in late], axis=0)


def _one(target: scorevi.Target, seed: int, mean: np.ndarray, log_sd: np.ndarray) -> Ended:
    def away(q: scorevi.Gaussian) -> tuple[float, float]:
        off = np.abs(q.mean - mean) / np.exp(log_sd)
        return float(off.max()), float(np.abs(np.log(q.sd) - log_sd).max())

    fit = scorevi.fit(target, family="gaussian", seed=seed)
    bars = fit.error_bars().mean
    covered = float(np.mean(np.abs(fit.q.mean - mean) <= 2 * bars))
    oracle = math.inf
    for step in scorevi.iterate(target, family="gaussian", seed=seed, max_gradients=FAR):
        off, factor = away(step.q)
        if max(off, factor / math.log1p(TOLERANCE) * TOLERANCE) > TOLERANCE:
            oracle = math.inf
        elif oracle == math.inf:
            oracle = step.num_gradients
    return Ended(fit.num_gradients, oracle, *away(fit.q), covered, str(fit.status))


def _row(name: str, found: list[Ended]) -> str:
    def both(values: list[float], form: str) -> str:
        return f"{median(values):{form}}, {max(values):{form}}"

    arrived = [one.gradients / one.oracle for one in found if math.isfinite(one.oracle)]
    ratio = both(arrived, ".1f") if arrived else "–"
    if len(arrived) < len(found):
        ratio += f" ({len(found) - len(arrived)} do not stay)"
    return (
        f"| {name} | {median(one.gradients for one in found):.0f} | {ratio} | "
        f"{both([one.mean for one in found], '.2f')} | "
        f"{both([one.log_sd for one in found], '.2f')} | "
        f"{np.mean([one.covered for one in found]):.0%} |"
    )


def _share(yes: list[bool]) -> str:
    return f"{sum(yes)} of {len(yes)} ({np.mean(yes):.0%})"
