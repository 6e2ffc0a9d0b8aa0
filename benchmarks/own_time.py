"""What the solver spends on itself: next to its gradients, in few dimensions and in many."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
import warnings
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import scorevi
from benchmarks.logistic import observations
from scorevi.studies.trials import cases

GRADIENT = 50e-6
"""Seconds: what a gradient of a small model may cost."""
SEEDS = 5
FEW = 20
MANY = 200, 500, 1000
THREADS = "OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "XLA_FLAGS"


def few_dimensions() -> None:
    """Print the own time of default fits, D ≤ 20, over that of their gradients at 50 µs each."""
    print(f"Own time of the default fit over its gradients at 50 µs, D ≤ {FEW}, {SEEDS} seeds\n")
    print(
        "| target | D | gradients | own time, s | over gradients at 50 µs |\n|---|---|---|---|---|"
    )
    everything = []
    for suite in ("hierarchies", "the eight"):
        for name, make in cases(suite).items():
            target = make().target
            if target.dim > FEW:
                continue
            rows = [_own(target, seed) for seed in range(-1, SEEDS)][1:]  # the first one compiles
            ratio = median(own / (GRADIENT * count) for own, count in rows)
            everything.append(ratio)
            print(
                f"| {name} | {target.dim} | {median(count for _, count in rows):.0f} | "
                f"{median(own for own, _ in rows):.2f} | {ratio:.1f} |",
                flush=True,
            )
    print(f"\nmedian {median(everything):.1f}, most {max(everything):.1f}\n")


def many_dimensions() -> None:
    """Print the wall time of logistic regressions with default threads and with one."""
    print("Logistic regression, 10 observations a dimension, NumPy: wall time of the default fit")
    print("with the default number of BLAS threads, over that with one thread, and over the time")
    print("of the target's own evaluations in that run\n")
    print("| D | gradients | seconds | over one thread | over the target's own |")
    print("|---|---|---|---|---|")
    for dim in MANY:
        free, bound = (_elsewhere(dim, one_thread=one) for one in (False, True))
        print(
            f"| {dim} | {free['gradients']} | {free['seconds']:.1f} | "
            f"{free['seconds'] / bound['seconds']:.2f} | {free['seconds'] / free['target']:.1f} |",
            flush=True,
        )
    print()


class _Timed:
    """A target that knows how long it took."""

    def __init__(self, function: Callable[[Any], Any]) -> None:
        self._function = function
        self.seconds = 0.0

    def __call__(self, theta: Any) -> Any:
        begin = time.perf_counter()
        try:
            return self._function(theta)
        finally:
            self.seconds += time.perf_counter() - begin


def _own(target: Any, seed: int) -> tuple[float, int]:
    timed = _Timed(target.evaluate)
    object.__setattr__(target, "evaluate", timed)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            begin = time.perf_counter()
            fit = scorevi.fit(target, seed=max(seed, 0))
            return time.perf_counter() - begin - timed.seconds, fit.num_gradients
    finally:
        object.__delattr__(target, "evaluate")


def _elsewhere(dim: int, *, one_thread: bool) -> dict[str, float]:
    """Fit in a process of its own, where the number of threads can be another."""
    environment = {name: value for name, value in os.environ.items() if name not in THREADS}
    if one_thread:
        environment |= dict.fromkeys(THREADS[:3], "1")
    command = [sys.executable, "-m", "benchmarks.own_time", str(dim)]
    run = subprocess.run(command, env=environment, capture_output=True, text=True, check=True)
    found: dict[str, float] = json.loads(run.stdout)
    return found


def _logistic(dim: int) -> dict[str, float]:
    design, outcome = observations(dim, seed=0)

    def score(beta: np.ndarray) -> np.ndarray:
        link = beta @ design.T
        return (outcome - 1.0 / (1.0 + np.exp(-link))) @ design - beta

    def log_density(beta: np.ndarray) -> np.ndarray:
        link = beta @ design.T
        likelihood = link @ outcome - np.logaddexp(0.0, link).sum(axis=1)
        return likelihood - 0.5 * np.vecdot(beta, beta)

    parts = _Timed(score), _Timed(log_density)
    begin = time.perf_counter()
    fit = scorevi.fit(scorevi.from_function(parts[0], dim, parts[1]), seed=1)
    seconds = time.perf_counter() - begin
    own = sum(part.seconds for part in parts)
    return {"seconds": seconds, "target": own, "gradients": fit.num_gradients}


if __name__ == "__main__":
    print(json.dumps(_logistic(int(sys.argv[1]))))
