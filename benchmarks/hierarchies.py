"""The default fit where people use it: hierarchies, raw units, and posteriors that are easy."""

from __future__ import annotations

import multiprocessing
import os
import warnings
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from statistics import median

import jax
import numpy as np

import scorevi
from benchmarks.guides import flat_model, log_density_of
from scorevi.studies.best_gaussian import best_gaussian
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.best import noise_for
from scorevi.studies.hierarchies.truth import load_truth
from scorevi.studies.metrics import elbo, even_noise
from scorevi.studies.raw_units import regressions
from scorevi.studies.shapes import groups, shapes
from scorevi.studies.trials import trials
from scorevi.studies.trust import bars, confusion, details

SEEDS = 10
FEW = 1
GRADIENTS = 20_000
RATES = (1e-1, 1e-2, 1e-3)
LOST = 1000.0
"""Nats below, from which on it does not matter by how much."""


def suite() -> None:
    """Print how far default fits are from the best Gaussian, and their verdicts."""
    found = list(trials(("hierarchies",), SEEDS, processes=os.cpu_count() or 1))
    print(f"Default fits of hierarchies and their verdicts, {SEEDS} seeds each:\n")
    tables = [bars, confusion, details, groups, shapes]
    print("\n\n".join(table(found) for table in tables), "\n", flush=True)


def raw_units() -> None:
    """Print how far default fits of regressions in raw units are after 200 gradients."""
    print(f"Regressions in raw units, {SEEDS} seeds: nats below the best Gaussian\n")
    print("| regression | at 200 gradients, median (worst) | within 0.1 | gradients of the start |")
    print("|---|---|---|---|")
    for name, (target, close) in regressions().items():
        best = best_gaussian(target, close, draws=4000).q
        z = even_noise(4000, target.dim, seed=3)
        below, starts = [], []
        for seed in range(SEEDS):
            steps = list(scorevi.iterate(target, family="gaussian", seed=seed, max_gradients=200))
            below.append(elbo(best, target, z) - elbo(steps[-1].q, target, z))
            starts.append(steps[0].num_gradients)
        good = sum(one <= 0.1 for one in below)
        print(
            f"| {name} | {median(below):.3f} ({max(below):.3f}) | {good} of {SEEDS} | "
            f"{median(starts):.0f} |",
            flush=True,
        )
    print()


def starts() -> None:
    """Print what the start costs where the posterior is near Gaussian and not far."""
    print(f"Gradients before the first update, logistic regressions, {SEEDS} seeds\n")
    print("| dimension | median | most |\n|---|---|---|")
    everything = []
    for dim in (3, 5, 10, 25, 50):
        counts = []
        for seed in range(SEEDS):
            target = scorevi.examples.logistic_regression(dim, seed=seed)
            counts.append(next(scorevi.iterate(target, seed=seed)).num_gradients)
        everything += counts
        print(f"| {dim} | {median(counts):.0f} | {max(counts)} |", flush=True)
    print(f"| all | {median(everything):.0f} | {max(everything)} |\n")


def others() -> None:
    """Print how far what else there is gets on the hierarchies that are in JAX.

    Each target has a process of its own: what XLA compiles for one after another fills the memory.
    """
    print(f"Nats below the best Gaussian, {FEW} seed; {GRADIENTS:,} gradients but for")
    print("auto, which stops by itself, and Pathfinder, which takes what its L-BFGS takes\n")
    columns = _methods()
    print("| target | " + " | ".join(columns) + " |\n" + "|---" * (1 + len(columns)) + "|")
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(os.cpu_count(), context, max_tasks_per_child=1) as pool:
        for row in pool.map(_others_row, hierarchies()):
            print(row, flush=True)
    print()


def _methods() -> dict[str, Callable[..., float | None]]:
    return {
        "auto": _by("auto", 10_000),
        "gsm": _by("gsm"),
        "bam": _by("bam"),
        "bbvi, best rate": _bbvi,
        "Pathfinder (BlackJAX)": _pathfinder,
        "AutoMultivariateNormal, best rate": _numpyro_guide,
    }


def _others_row(name: str) -> str:
    target, best = hierarchies()[name](), load_truth(name).best_elbo
    z = noise_for(target.dim)
    cells = []
    for run in _methods().values():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            found = [run(target, seed, z) for seed in range(FEW)]
        known = [best - one for one in found if one is not None]
        cells.append(_nats(median(known)) if known else "–")
    return f"| {name} | " + " | ".join(cells) + " |"


def _nats(below: float) -> str:
    return f"{below:.2f}" if below < LOST else "lost"


def _by(solver: object, gradients: int = GRADIENTS):
    def run(target, seed, z):
        fit = scorevi.fit(target, solver, family="gaussian", seed=seed, max_gradients=gradients)
        return elbo(fit.q, target, z) if fit.num_updates else -np.inf

    return run


def _bbvi(target, seed, z):
    return max(_by(scorevi.BBVI(learning_rate=rate))(target, seed, z) for rate in RATES)


def _pathfinder(target, seed, z):
    """Run it from the best of four points, as it is meant to be."""
    if not isinstance(target, scorevi.targets.JaxTarget):
        return None
    import blackjax
    from blackjax.vi.pathfinder import approximate

    with jax.enable_x64(True):
        found = []
        for k in range(4):
            first, second = jax.random.split(jax.random.key(10 * seed + k))
            point = jax.random.uniform(first, (target.dim,), minval=-2.0, maxval=2.0)
            state, _ = approximate(second, log_density_of(target), point)
            draws, _ = blackjax.vi.pathfinder.sample(second, state, 4000)
            mean = np.asarray(draws).mean(axis=0)
            q = scorevi.Gaussian.from_moments(mean, np.cov(np.asarray(draws).T))
            found.append(elbo(q, target, z))
    return max(found)


def _numpyro_guide(target, seed, z):
    if not isinstance(target, scorevi.targets.JaxTarget):
        return None
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    model = flat_model(target)
    found = []
    with jax.enable_x64(True):
        for rate in RATES:
            guide = AutoMultivariateNormal(model)
            svi = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO(num_particles=8))
            result = svi.run(jax.random.key(seed), GRADIENTS // 8, progress_bar=False)
            posterior = guide.get_posterior(result.params)
            mean, covariance = posterior.mean, posterior.covariance_matrix
            try:
                q = scorevi.Gaussian.from_moments(np.asarray(mean), np.asarray(covariance))
                found.append(elbo(q, target, z))
            except ValueError:  # lost
                found.append(-np.inf)
    return max(found)
