"""Chains of JAX targets in compiled code, by BlackJAX, beside nutpie's, which call Python.

The same fit is sampled by both, ``method="nuts"``, with its defaults: what was looked at before is
in the time of either. The first seed is run twice, as what is compiled is compiled in the first.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import NamedTuple
from unittest.mock import patch

import jax.numpy as jnp

import scorevi
from benchmarks.logistic import observations
from scorevi.sampling import choosing
from scorevi.studies.hierarchies import hierarchies
from scorevi.targets import Target

SEEDS = 3


class Run(NamedTuple):
    """What chains came to."""

    seconds: float
    gradients: int
    """Of the chains alone."""
    effective: float
    converged: bool


def compiled_chains() -> None:
    """Print seconds, effective draws and the time of a gradient, of both."""
    print(f"scorevi.sample(fit, method='nuts'), medians of {SEEDS} seeds: seconds, effective draws")
    print("a second, µs a gradient of the chains; ✗: seeds with fewer than 400 effective draws\n")
    print(
        "| target | D | nutpie | BlackJAX | and the first time | effective draws a second, ratio | "
        "µs a gradient, ratio |\n" + "|---" * 7 + "|"
    )
    for name, make in _targets().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = scorevi.fit(make(), seed=0)
            with patch.object(choosing, "_has_blackjax", lambda: False):
                _, *theirs = (_sample(fit, seed) for seed in (0, *range(SEEDS)))
            first, *ours = (_sample(fit, seed) for seed in (0, *range(SEEDS)))
        rates = [_rate(runs) for runs in (theirs, ours)]
        costs = [_cost(runs) for runs in (theirs, ours)]
        row = [
            name,
            str(fit.dim),
            _shown(theirs, rates[0], costs[0]),
            _shown(ours, rates[1], costs[1]),
            f"{first.seconds:.1f} s",
            f"{rates[1] / rates[0]:.1f}" if rates[0] and rates[1] else "–",
            f"{costs[0] / costs[1]:.1f}",
        ]
        print("| " + " | ".join(row) + " |", flush=True)
    print()


def _targets() -> dict[str, Callable[[], Target]]:
    names = ("crossed-noncentered", "hospitals-noncentered")
    return {"logistic regression": _logistic} | {name: hierarchies()[name] for name in names}


def _logistic() -> Target:
    design, outcomes = observations(20, 0)

    def log_density(slopes: jnp.ndarray) -> jnp.ndarray:
        logits = design @ slopes
        return jnp.sum(outcomes * logits - jnp.logaddexp(0.0, logits)) - 0.5 * slopes @ slopes

    return scorevi.from_jax(log_density, 20)


def _sample(fit: scorevi.Fit, seed: int) -> Run:
    begin = time.perf_counter()
    sample = scorevi.sample(fit, method="nuts", seed=seed)
    seconds = time.perf_counter() - begin
    gradients = sample.gradients["adaptation"] + sample.gradients["draws"]
    return Run(seconds, gradients, float(sample.ess.min()), sample.status == "converged")


def _rate(runs: list[Run]) -> float:
    return median(one.effective / one.seconds if one.converged else 0.0 for one in runs)


def _cost(runs: list[Run]) -> float:
    return median(1e6 * one.seconds / one.gradients for one in runs)


def _shown(runs: list[Run], rate: float, cost: float) -> str:
    failed = sum(not one.converged for one in runs)
    seconds = median(one.seconds for one in runs)
    return f"{seconds:.1f} s, {rate:.0f}, {cost:.0f} µs" + (f", ✗ {failed}" if failed else "")
