"""Many dimensions: a diagonal and a few directions, against what is known and against NumPyro."""

from __future__ import annotations

import math
import resource
import subprocess
import sys
import time
import warnings
from statistics import median
from typing import Any

import numpy as np

import scorevi
from scorevi import LowRank

HUGE, RANK = 100_000, 16
STEPS, ROUNDS = 10, 5
GRADIENTS, RATES = 20_000, (1e-2, 1e-3, 3e-4)
OURS = 2_000
PARTICLES = 512
GROUPS, FIXED, ROWS = 9_990, 9, 50_000


def large() -> None:
    """Print all figures for many dimensions."""
    print("Many dimensions: family='low-rank' and 'diagonal'\n", flush=True)
    for section in (known, growth, small, walk, hierarchy):
        section()
        print(flush=True)


def factor_model(dim: int, rank: int, seed: int = 0) -> LowRank:
    """Return a target with a diagonal and directions that are known, all of different sizes."""
    rng = np.random.default_rng(seed)
    scale = np.exp(rng.uniform(-2.0, 2.0, dim))
    directions = np.linalg.qr(rng.standard_normal((dim, rank)))[0]
    return LowRank(
        scale * rng.standard_normal(dim), scale, directions, np.linspace(3.0, 30.0, rank)
    )


def known() -> None:
    """Fit 100,000 dimensions in a process of its own, whose memory is then its own."""
    code = "from benchmarks.large import in_a_process; in_a_process()"
    print(subprocess.run([sys.executable, "-c", code], capture_output=True, text=True).stdout)


def in_a_process() -> None:
    """Fit the known target, and print how near it came and what that took."""
    p = factor_model(HUGE, RANK)
    fit = scorevi.fit(p, family="low-rank", rank=RANK, progress=False)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    error = float(np.median(np.abs(fit.q.sd / p.sd - 1.0)))
    # Leading directions of the covariance, in units of the diagonal of the target.
    ours = np.linalg.qr(fit.q.directions * (fit.q.scale / p.scale)[:, None])[0]
    cosines = np.linalg.svd(ours.T @ p.directions, compute_uv=False)
    angle = math.degrees(math.acos(min(1.0, float(cosines.min()))))
    print(f"D = {HUGE}, K = {RANK}, known covariance: median error of sds {error:.1e} (bar 5e-2),")
    print(
        f"largest angle between the directions {angle:.1e} degrees (bar 10), KL {fit.q.kl(p):.1e},"
    )
    print(
        f"{fit.num_gradients} gradients (bar {50 * RANK}), {fit.seconds:.1f} s, {fit.status}; "
        f"peak memory of the process {peak:.2f} GiB (bar 2)"
    )


def growth() -> None:
    """Compare the time of a step in 10,000 and in 100,000 dimensions."""
    targets = {dim: factor_model(dim, RANK) for dim in (10_000, HUGE)}
    times: dict[int, list[float]] = {dim: [] for dim in targets}
    for _ in range(ROUNDS):
        for dim, p in targets.items():
            ends = [0.0]
            for step in scorevi.iterate(p, scorevi.LowRankReplay(RANK)):
                ends.append(step.seconds)
                if len(ends) > STEPS:
                    break
            times[dim].append(median(np.diff(ends)))
    few, many = (median(times[dim]) for dim in targets)
    ratios = sorted(b / a for a, b in zip(*times.values(), strict=True))
    print(
        f"Seconds a step, median of the first {STEPS}, target included: {few:.3f} in 10,000 "
        f"dimensions, {many:.3f} in {HUGE}: {median(ratios):.1f} times (bar 12), in {ROUNDS} "
        f"rounds {ratios[0]:.1f} to {ratios[-1]:.1f}"
    )


def small() -> None:
    """Compare with the full family in 200 dimensions, on targets of the smaller one."""
    print("D = 200, a target of the family: gradients, KL to the target")
    print("| K | full | KL | low-rank | KL | gradients, ratio (bar 1.5) |")
    print("|---|---|---|---|---|---|")
    for rank in (4, 16):
        for seed in range(3):
            p = factor_model(200, rank, seed)
            full = scorevi.fit(p, family="gaussian", seed=seed, progress=False)
            ours = scorevi.fit(p, family="low-rank", rank=rank, seed=seed, progress=False)
            print(
                f"| {rank} | {full.num_gradients} | {full.q.kl(p.dense()):.1e} | "
                f"{ours.num_gradients} | {ours.q.kl(p):.1e} | "
                f"{ours.num_gradients / full.num_gradients:.2f} |",
                flush=True,
            )


def random_walk(steps: int) -> Any:
    """Return one of standard normal steps from zero: its precision has three diagonals."""

    def score(theta: np.ndarray) -> np.ndarray:
        return np.diff(np.diff(theta, axis=1, prepend=0.0), axis=1, append=0.0)

    def log_density(theta: np.ndarray) -> np.ndarray:
        return -0.5 * (np.diff(theta, axis=1, prepend=0.0) ** 2).sum(axis=1)

    return scorevi.from_function(score, steps, log_density)


def walk() -> None:
    """Print the verdict on fits of a random walk, whose covariance is not of the family."""
    print("A random walk of 5,000 steps: the verdict, which must not be a pass")
    for family in ("low-rank", "diagonal"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scorevi.FitWarning)
            fit = scorevi.fit(random_walk(5_000), family=family, max_gradients=1_000)
        verdict = fit.check(draws=100, modes=False)
        print(f"{family}: {verdict.explain().splitlines()[0]}; {verdict.reasons[0].text[:90]}")


def data(seed: int = 0) -> tuple[Any, ...]:
    """Draw 50,000 yes or no answers in 9,990 groups, with 9 covariates."""
    rng = np.random.default_rng(seed)
    x, group = rng.standard_normal((ROWS, FIXED)), rng.integers(GROUPS, size=ROWS)
    slopes, effects = 0.5 * rng.standard_normal(FIXED), 0.8 * rng.standard_normal(GROUPS)
    chance = 1.0 / (1.0 + np.exp(0.5 - x @ slopes - effects[group]))
    y = rng.random(ROWS) < chance
    return x.astype(np.float32), group, y.astype(np.float32)


def model(x: Any, group: Any, y: Any) -> None:
    """Hierarchical logistic regression, 10,000 parameters."""
    import numpyro
    import numpyro.distributions as dist

    slopes = numpyro.sample("slopes", dist.Normal(0, 5).expand([FIXED]).to_event(1))
    scale = numpyro.sample("scale", dist.HalfNormal(1.0))
    effects = numpyro.sample("effects", dist.Normal(0, 1).expand([GROUPS]).to_event(1))
    numpyro.sample("y", dist.Bernoulli(logits=x @ slopes + scale * effects[group]), obs=y)


def hierarchy() -> None:
    """Compare ELBO and time with NumPyro's guides on a hierarchical logistic regression."""
    print(f"Hierarchical logistic regression, D = {GROUPS + FIXED + 1}, {ROWS} observations")
    print("(compiling included; NumPyro in single precision, Adam, one draw a step)\n")
    print("| q | gradients | ELBO | ± | s |\n|---|---|---|---|---|")
    arrays = data()
    target = scorevi.from_numpyro(model, *arrays)
    ours: dict[str, tuple[float, float]] = {}
    for family in ("diagonal", "low-rank"):
        began = time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scorevi.FitWarning)
            fit = scorevi.fit(target, family=family, max_gradients=OURS, progress=False)
        seconds = time.perf_counter() - began
        theta = fit.sample(PARTICLES, seed=1)
        values = target.evaluate(theta).log_density - fit.q.log_density(theta)
        ours[family] = float(values.mean()), seconds
        error = values.std() / math.sqrt(PARTICLES)
        print(
            f"| scorevi, {family}, {fit.status} | {fit.num_gradients} | {values.mean():.2f} | "
            f"{error:.2f} | {seconds:.1f} |",
            flush=True,
        )
    for name, family in (("AutoDiagonalNormal", "diagonal"), ("AutoLowRank", "low-rank")):
        best = max(_numpyro(name, rate, arrays) for rate in RATES)
        elbo, seconds = ours[family]
        print(
            f"\n{family}: {elbo - best[0]:+.2f} nats above the best of {name} (bar 0), in "
            f"{seconds / best[1]:.2f} of its time (bar 0.5)\n",
            flush=True,
        )


def _numpyro(name: str, rate: float, arrays: tuple[Any, ...]) -> tuple[float, float]:
    """Fit by one of NumPyro's guides; returns its ELBO and seconds."""
    import jax
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoDiagonalNormal, AutoLowRankMultivariateNormal

    guide = AutoDiagonalNormal(model)
    if name != "AutoDiagonalNormal":
        guide = AutoLowRankMultivariateNormal(model, rank=RANK)
    began = time.perf_counter()
    fitter = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO())
    found = fitter.run(jax.random.key(0), GRADIENTS, *arrays, progress_bar=False)
    jax.block_until_ready(found.params)
    seconds = time.perf_counter() - began
    loss = Trace_ELBO(num_particles=PARTICLES)
    elbo = -float(loss.loss(jax.random.key(1), found.params, model, guide, *arrays))
    print(f"| {name}, rate {rate:g} | {GRADIENTS} | {elbo:.2f} | | {seconds:.1f} |", flush=True)
    return elbo, seconds
