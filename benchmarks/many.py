"""Many fits: on two processes against one, and restarts against one fit."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from statistics import median
from typing import Any

import numpy as np

import scorevi
from scorevi.base.cluster import connected

FITS, TURNS, REPEATS = 1_000, 10, 3
DIM, ROWS = 5, 100


def log_density(beta: Any, data: Any) -> Any:
    """Return the log joint of a logistic regression with a standard normal prior."""
    import jax.numpy as jnp

    link = data["x"] @ beta
    return data["y"] @ link - jnp.logaddexp(0.0, link).sum() - 0.5 * beta @ beta


def factory(seed: int) -> Any:
    """Return a regression with data of its own."""
    rng = np.random.default_rng([5, seed])
    x = rng.standard_normal((ROWS, DIM))
    y = (rng.random(ROWS) < 1.0 / (1.0 + np.exp(-x @ rng.standard_normal(DIM)))).astype(float)
    return scorevi.from_jax(log_density, DIM, data={"x": x, "y": y})


def many_fits() -> None:
    """Print the rate of many fits on two processes over that on one, in turn."""
    print(f"Logistic regression in JAX, D = {DIM}, {ROWS} rows, data of its own for each fit\n")
    ratios, spent = [], [0.0, 0.0]
    with connected(None, 1) as one, connected(None, 2) as two:
        for client in (one, two):
            scorevi.fit_many(factory, seeds=range(10_000, 10_008), client=client)  # compiles
        for turn in range(TURNS):
            # Side by side in time, since others use the machine too.
            seeds = range(turn * FITS // TURNS, (turn + 1) * FITS // TURNS)
            seconds = [_seconds(client, seeds) for client in (one, two)]
            spent = [before + now for before, now in zip(spent, seconds, strict=True)]
            ratios.append(seconds[0] / seconds[1])
    print("| fits | one process, fits a second | two processes | ratio |\n|---|---|---|---|")
    rates = [FITS / seconds for seconds in spent]
    print(f"| {FITS} | {rates[0]:.1f} | {rates[1]:.1f} | {rates[1] / rates[0]:.2f} |\n")
    told = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
    print(f"of {TURNS} turns: median {median(ratios):.2f} ({told})\n")


def _seconds(client: Any, seeds: Any) -> float:
    begin = time.perf_counter()
    fits = scorevi.fit_many(factory, seeds=seeds, client=client)
    assert not fits.failures
    return time.perf_counter() - begin


def restarts() -> None:
    """Print the time of ten restarts of a JAX target, D = 10, over that of one fit."""
    print("A JAX target, D = 10, in a new process each time, with its compilation\n")
    print("| one fit, s | with ten restarts, s | ratio |\n|---|---|---|")
    ratios = []
    for _ in range(REPEATS):
        alone, all_ = _elsewhere(0), _elsewhere(10)
        ratios.append(all_ / alone)
        print(f"| {alone:.2f} | {all_:.2f} | {all_ / alone:.2f} |", flush=True)
    print(f"\nmedian {median(ratios):.2f}\n")


def _elsewhere(count: int) -> float:
    command = [sys.executable, "-m", "benchmarks.many", str(count)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    return float(json.loads(run.stdout))


def _restarted(count: int) -> float:
    target = _regression(10)
    begin = time.perf_counter()
    scorevi.fit(target, seed=0, restarts=count)
    return time.perf_counter() - begin


def _regression(dim: int) -> Any:
    rng = np.random.default_rng(0)
    x = rng.standard_normal((40 * dim, dim))
    y = (rng.random(len(x)) < 1.0 / (1.0 + np.exp(-x @ rng.standard_normal(dim)))).astype(float)
    return scorevi.from_jax(log_density, dim, data={"x": x, "y": y})


if __name__ == "__main__":
    print(json.dumps(_restarted(int(sys.argv[1]))))
