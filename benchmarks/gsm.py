"""GSM: time per gradient, growth, memory and gradient counts, against PyPI's ``gsmvi``."""

from __future__ import annotations

import contextlib
import subprocess
import sys
import time
from collections.abc import Callable
from statistics import median

import gsmvi.gsm
import gsmvi.gsm_numpy
import jax
import numpy as np
import scipy.stats

import scorevi
from scorevi.examples import gaussian, random_gaussian

ROUNDS = 5
STEPS = {16: 2000, 64: 500, 256: 30, 1024: 2}
"""Steps of the reference per round; ours are 20 times as many, so that both take a while."""


def _score(p: scorevi.Gaussian) -> Callable[[np.ndarray], np.ndarray]:
    return gaussian(p.mean, p.covariance).score


def _microseconds(work: Callable[[], object], gradients: int) -> float:
    began = time.perf_counter()
    work()
    return 1e6 * (time.perf_counter() - began) / gradients


def _reference(module: object, dim: int, score: Callable, key: object, steps: int) -> float:
    solver = module.GSM(dim, None, score)

    def work() -> None:
        solver.fit(key, niter=steps - 1, nprint=1, verbose=False)

    return _microseconds(work, 2 * steps)


def speed() -> None:
    print("Time per gradient, µs, dense Gaussians, batch size 2, one thread")
    print(f"(medians of {ROUNDS} interleaved rounds; the ratio is to the faster gsmvi)\n")
    print("    D   gsmvi NumPy   gsmvi JAX   scorevi NumPy   ratio   scorevi JAX   ratio   bars")
    bars = {16: "3, JAX 20", 64: "7", 256: "50", 1024: "100"}
    for dim, bar in bars.items():
        p = random_gaussian(dim, 40, seed=0)
        score = _score(p)
        half = np.linalg.inv(p.cholesky)
        mean = p.mean
        in_numpy = scorevi.from_function(score, dim, batched=True)
        in_jax = scorevi.from_jax(
            lambda x, half=half, mean=mean: -0.5 * ((half @ (x - mean)) ** 2).sum(), dim
        )
        key = jax.random.PRNGKey(0)
        steps = STEPS[dim]
        ours = 20 * steps

        def fit(target: object, ours: int = ours) -> Callable[[], object]:
            return lambda: scorevi.fit(
                target, "gsm", max_gradients=2 * ours, stop=False, progress=False
            )

        _reference(gsmvi.gsm, dim, score, key, 2)  # compiles
        fit(in_jax)()
        columns: list[list[float]] = [[], [], [], []]
        for _ in range(ROUNDS):
            columns[0].append(_reference(gsmvi.gsm_numpy, dim, score, 1, steps))
            columns[1].append(_reference(gsmvi.gsm, dim, score, key, steps))
            columns[2].append(_microseconds(fit(in_numpy), 2 * ours))
            columns[3].append(_microseconds(fit(in_jax), 2 * ours))
        a, b, c, d = map(median, columns)
        best = min(a, b)
        print(
            f"{dim:5}   {a:11.1f}   {b:9.1f}   {c:13.2f}   {best / c:5.1f}"
            f"   {d:11.2f}   {best / d:5.1f}   {bar}",
            flush=True,
        )
    print()


def growth() -> None:
    times = {}
    for dim in (512, 1024):
        target = scorevi.from_function(_score(random_gaussian(dim, 40, seed=0)), dim, batched=True)
        fits = [
            scorevi.fit(target, "gsm", max_gradients=100, stop=False, progress=False)
            for _ in range(ROUNDS)
        ]
        times[dim] = 1e6 * median(float(np.median(np.diff(fit.trace.seconds))) for fit in fits)
    print("Time per step, D = 512 to 1024")
    print(
        f"{times[512]:.0f} µs to {times[1024]:.0f} µs: {times[1024] / times[512]:.1f}× (bar: 6×)\n"
    )


_MEMORY = """
import pathlib, sys
import scorevi
def kilobytes(field):
    text = pathlib.Path("/proc/self/status").read_text()
    return int(text.split(field + ":")[1].split()[0])
target = scorevi.from_function(lambda x: -x, 2000, batched=True)
scorevi.fit(scorevi.Gaussian.standard(2), "gsm", max_gradients=10)
before = kilobytes("VmRSS")
scorevi.fit(target, "gsm", max_gradients=100, stop=False)
print(1024 * (kilobytes("VmHWM") - before) / (8 * 2000**2))
"""


def memory() -> None:
    command = [sys.executable, "-c", _MEMORY]
    used = float(subprocess.run(command, capture_output=True, text=True, check=True).stdout)
    print("Peak resident memory above the start, D = 2000, in units of 8·D² bytes")
    print(f"{used:.2f} (bar: 8)\n")


class _Enough(Exception):
    pass


class _Watch:
    """A monitor for gsmvi that stops it once the KL is small enough."""

    checkpoint = 1

    def __init__(self, p: scorevi.Gaussian) -> None:
        self.p = p
        self.gradients = 0

    def __call__(self, i: int, params: list, *_: object, **__: object) -> None:
        self.gradients = 2 * i
        if scorevi.Gaussian.from_moments(*params).kl(self.p) <= 1e-2:
            raise _Enough


def _reference_gradients(p: scorevi.Gaussian, seed: int) -> int:
    watch = _Watch(p)
    with contextlib.suppress(_Enough):
        gsmvi.gsm_numpy.GSM(p.dim, None, _score(p)).fit(
            seed, niter=20_000, nprint=1, verbose=False, monitor=watch
        )
    return watch.gradients


def _our_gradients(p: scorevi.Gaussian, seed: int) -> int:
    for step in scorevi.iterate(
        scorevi.from_function(_score(p), p.dim, batched=True), "gsm", seed=seed
    ):
        if step.q.kl(p) <= 1e-2:
            break
    return step.num_gradients


def gradients() -> None:
    print("Gradients to KL ≤ 1e-2 from N(0, I), dense Gaussians of condition number 40, 10 seeds")
    print("(mean ± standard error; p-value of a Mann-Whitney test that the two differ)\n")
    print("    D   gsmvi            scorevi          p-value")
    for dim in (4, 16, 64):
        problems = [random_gaussian(dim, 40, seed=seed) for seed in range(10)]
        theirs = [_reference_gradients(p, seed) for seed, p in enumerate(problems)]
        ours = [_our_gradients(p, seed) for seed, p in enumerate(problems)]
        cells = [
            f"{np.mean(counts):7.1f} ± {np.std(counts, ddof=1) / np.sqrt(10):5.1f}"
            for counts in (theirs, ours)
        ]
        p_value = scipy.stats.mannwhitneyu(theirs, ours).pvalue
        print(f"{dim:5}   {cells[0]}  {cells[1]}  {p_value:.2f}", flush=True)
    print()
