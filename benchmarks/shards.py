"""Data on many workers: the same fit, what a lost worker changes, memory, bytes and overhead."""

from __future__ import annotations

import functools
import json
import os
import resource
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import scorevi
from scorevi.base.cluster import connected

ROWS, DIM, SHARDS, WORKERS = 2_000_000, 20, 8, 2
BLOCK = 8_192
"""Rows whose links are computed at a time, which fit the cache."""
SHARD_SECONDS = 0.05
STEPS = 60
REPEATS = 5


def observations(number: int, rows: int) -> tuple[np.ndarray, np.ndarray]:
    """Return the part of the data that a shard has: a design and outcomes."""
    rng = np.random.default_rng([16, number])
    design = rng.standard_normal((rows, DIM))
    slopes = np.linspace(-1.0, 1.0, DIM)
    chance = 1.0 / (1.0 + np.exp(-design @ slopes))
    return design, (rng.random(rows) < chance).astype(float)


def likelihood(parts: list[tuple[np.ndarray, np.ndarray]]) -> Any:
    """Return the log likelihood of a logistic regression, block by block."""

    def blocks() -> Any:
        for design, outcome in parts:
            for begin in range(0, len(design), BLOCK):
                yield design[begin : begin + BLOCK], outcome[begin : begin + BLOCK]

    def score(beta: np.ndarray) -> np.ndarray:
        return sum((y - 1.0 / (1.0 + np.exp(-beta @ x.T))) @ x for x, y in blocks())

    def log_density(beta: np.ndarray) -> np.ndarray:
        total = np.zeros(len(beta))
        for x, y in blocks():
            link = beta @ x.T
            total += link @ y - np.logaddexp(0.0, link).sum(axis=1)
        return total

    return scorevi.from_function(score, DIM, log_density, batched=True)


def load(number: int, rows: int) -> Any:
    """Build a shard on its worker."""
    return likelihood([observations(number, rows)])


class Prior:
    """A standard normal that does something at its n-th evaluation in this process."""

    has_log_density = True

    def __init__(self, at: int = 0, action: Callable[[], None] | None = None) -> None:
        inside = scorevi.targets.as_target(scorevi.Gaussian.standard(DIM))
        self.dim, self.parameters, self.variables = DIM, inside.parameters, inside.variables
        self._inside, self._at, self._action = inside, at, action
        self.count = 0

    def evaluate(self, theta: np.ndarray) -> Any:
        """Count, act, and evaluate."""
        self.count += 1
        if self.count == self._at and self._action is not None:
            self._action()
        return self._inside.evaluate(theta)


def sharded(rows: int, shards: int = SHARDS, **options: Any) -> Any:
    builders = [functools.partial(load, number, rows // shards) for number in range(shards)]
    return scorevi.from_shards(builders, DIM, **{"prior": Prior()} | options)


def shards() -> None:
    """Print all that is claimed of shards."""
    print(f"Logistic regression, {ROWS:,} x {DIM}, {SHARDS} shards on {WORKERS} worker processes\n")
    equal()
    memory()
    moved()
    overhead()


def equal() -> None:
    """Print the difference to the fit in one process, and to that with a worker killed.

    In one process the sum is taken in the order of the shards, and over all rows at once: to round
    otherwise may lead a search for a start, and with it the draws, another way.
    """
    print("| fit | gradients | steps | seconds | largest difference of mean, covariance |")
    print("|---|---|---|---|---|")
    alone = _elsewhere("alone", ROWS, SHARDS)
    print(f"| one process | {alone['gradients']} | | {alone['seconds']:.0f} | |", flush=True)
    fits = {}
    with connected(None, WORKERS) as client:

        def kill() -> None:
            os.kill(sorted(client.run(os.getpid).values())[0], signal.SIGKILL)

        for name, prior in {"shards": Prior(), "a worker killed": Prior(20, kill)}.items():
            begin = time.perf_counter()
            fit = fits[name] = scorevi.fit(sharded(ROWS, prior=prior, client=client), seed=1)
            seconds = time.perf_counter() - begin
            _compared(name, fit.num_gradients, prior.count, seconds, fit, alone)
    other = _elsewhere("alone", ROWS, 1)
    _compared("one process, one sum", other["gradients"], "", other["seconds"], other, alone)
    first, second = (np.concatenate([fit.q.mean, *fit.q.factor]) for fit in fits.values())
    print(f"\nto the last bit the same with a worker killed: {np.array_equal(first, second)}\n")


def _compared(name: str, gradients: int, steps: Any, seconds: float, fit: Any, alone: Any) -> None:
    found = fit if isinstance(fit, dict) else {"mean": fit.mean, "covariance": fit.covariance}
    off = [np.abs(np.array(found[key]) - alone[key]).max() for key in ("mean", "covariance")]
    told = name, gradients, steps, seconds, *off
    print("| {} | {} | {} | {:.0f} | {:.1e}, {:.1e} |".format(*told), flush=True)


def memory() -> None:
    """Print the peak memory of the process that has client and scheduler, by rows of data."""
    print("| rows | data, MB | client and scheduler, MB | largest worker, MB |\n|---|---|---|---|")
    for rows in (ROWS // 100, ROWS):
        found = _elsewhere("memory", rows)
        data = rows * (DIM + 1) * 8 / 1e6
        print(
            f"| {rows:,} | {data:.0f} | {found['here']:.0f} | {found['worker']:.0f} |", flush=True
        )
    print()


def moved() -> None:
    """Print the bytes that a step moves, by points in its batch and by shards."""
    print("| points | shards | points and answers, kB | moved in all, kB | per task beside, kB |")
    print("|---|---|---|---|---|")
    for count in (4, 16, 64):
        for shards_ in (SHARDS, 4 * SHARDS):
            found = _elsewhere("moved", count, shards_)
            points, answers = 8 * count * DIM, 8 * count * (DIM + 1)
            # Points go to the scheduler once; answers come by way of it.
            payload = points * (1 + shards_) + 2 * answers * shards_
            beside = (found["bytes"] - payload) / shards_
            told = count, shards_, payload / 1e3, found["bytes"] / 1e3, beside / 1e3
            print("| {} | {} | {:.1f} | {:.1f} | {:.1f} |".format(*told), flush=True)
    print()


def overhead() -> None:
    """Print the time of a step over that of its slowest shard, and what a task costs by itself."""
    with connected(None, WORKERS) as client:
        rows = _rows_of(SHARD_SECONDS, client)
        ratios, own = [], []
        for _ in range(REPEATS):
            found = _step(sharded(rows * WORKERS, WORKERS, client=client))
            ratios.append(median(step / slowest for step, slowest in found))
            own.append(median(slowest for _, slowest in found))
        told = ", ".join(f"{ratio:.2f}" for ratio in sorted(ratios))
        print(f"A step over its slowest shard's own time ({median(own) * 1e3:.0f} ms), {WORKERS}")
        print(f"shards on {WORKERS} workers: {median(ratios):.2f} (of {REPEATS} runs: {told})\n")
        print("| shards | a step without work, ms | of client and scheduler, ms of a core |")
        print("|---|---|---|")
        for count in (2, 8, 32, 128):
            target = scorevi.from_shards([_nothing] * count, DIM, client=client)
            with target:
                _step(target)
                began = time.process_time()
                steps = [step for step, _ in _step(target)]
                own_time = (time.process_time() - began) / STEPS
            print(f"| {count} | {median(steps) * 1e3:.1f} | {own_time * 1e3:.1f} |", flush=True)
    print()


def _step(target: Any) -> list[tuple[float, float]]:
    """Return the time of steps, and that of the slowest shard of each."""
    points = np.random.default_rng(0).standard_normal((8, DIM)) * 0.1
    found = []
    with target:
        for _ in range(STEPS):
            begin = time.perf_counter()
            parts = target.parts(points)
            seconds = time.perf_counter() - begin
            found.append((seconds, max(part.seconds for part in parts)))
    return found[STEPS // 10 :]


def _nothing() -> Any:
    return scorevi.from_function(
        lambda x: -x, DIM, lambda x: -0.5 * (x * x).sum(axis=1), batched=True
    )


def _rows_of(seconds: float, client: Any) -> int:
    """Return how many rows a shard has that takes so long, on workers that are all at work."""
    rows = 4_000
    for _ in range(3):
        found = _step(sharded(rows * WORKERS, WORKERS, client=client))
        rows = max(500, int(rows * seconds / median(slowest for _, slowest in found)))
    return rows


def _elsewhere(what: str, *numbers: int) -> dict[str, Any]:
    """Measure in a process of its own."""
    command = [sys.executable, "-m", "benchmarks.shards", what, *map(str, numbers)]
    run = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True)
    found: dict[str, Any] = json.loads(run.stdout.splitlines()[-1])
    return found


def _alone(rows: int, sums: int) -> dict[str, Any]:
    """Fit in this process, with the data in so many sums."""
    parts = [observations(number, rows // SHARDS) for number in range(SHARDS)]
    size = SHARDS // sums
    terms: list[Any] = [scorevi.Gaussian.standard(DIM)]
    terms += [likelihood(parts[first : first + size]) for first in range(0, SHARDS, size)]
    target = scorevi.from_function(
        lambda beta: functools.reduce(np.add, [term.score(beta) for term in terms]),
        DIM,
        lambda beta: functools.reduce(np.add, [term.log_density(beta) for term in terms]),
        batched=True,
    )
    begin = time.perf_counter()
    fit = scorevi.fit(target, seed=1)
    return {
        "seconds": time.perf_counter() - begin,
        "gradients": fit.num_gradients,
        "mean": fit.mean.tolist(),
        "covariance": fit.covariance.tolist(),
    }


def _peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1e3


def _memory(rows: int) -> dict[str, Any]:
    with connected(None, WORKERS) as client:
        scorevi.fit(sharded(rows, client=client), seed=1, max_gradients=120, stop=False)
        return {"here": _peak(), "worker": max(client.run(_peak).values())}


_WRITTEN = [0]


def _count_bytes() -> None:
    """Count what this process sends."""
    from distributed.comm.tcp import TCP

    plain = TCP.write

    async def write(self: Any, *arguments: Any, **options: Any) -> int:
        size: int = await plain(self, *arguments, **options)
        _WRITTEN[0] += size
        return size

    TCP.write = write


def _written() -> int:
    from benchmarks.shards import _WRITTEN as counted

    return counted[0]


def _moved(count: int, shards_: int) -> dict[str, Any]:
    from benchmarks import shards as module  # the one that workers import too

    with connected(None, WORKERS) as client:
        target = scorevi.from_shards([_nothing] * shards_, DIM, client=client)
        points = np.random.default_rng(0).standard_normal((count, DIM))

        def total() -> int:
            return module._written() + sum(client.run(module._written).values())

        with target:
            target.evaluate(points)
            module._count_bytes()
            client.run(module._count_bytes)
            before = total()
            for _ in range(STEPS):
                target.evaluate(points)
            # What asking itself moves, and the workers' heartbeats, is of the order of a kB.
            return {"bytes": (total() - before) / STEPS}


if __name__ == "__main__":
    _, what, *numbers = sys.argv
    measure = {"alone": _alone, "memory": _memory, "moved": _moved}[what]
    print(json.dumps(measure(*map(int, numbers))))
