"""Where one Gaussian is not enough: the default fit beside one Gaussian, NUTS and a flow.

NUTS has as many gradients as the default fit took, in four chains: what nutpie has drawn by then,
after its warm-up or, where that has not ended, the later half. The flow is NumPyro's inverse
autoregressive one, with the best of three rates. Errors are the largest over the marginals, of
means in standard deviations and of log standard deviations, against long runs of NUTS.
"""

from __future__ import annotations

import math
import os
import warnings
from statistics import median
from typing import Any

import jax
import numpy as np

import scorevi
from benchmarks.guides import flat_model
from benchmarks.nuts import run_nutpie
from benchmarks.readme import errors_of
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.truth import Truth, load_truth
from scorevi.targets import JaxTarget

SEEDS = int(os.environ.get("SCOREVI_BENCH_SEEDS", "3"))
NAMES = (
    "two-normals",
    "meta-8-centered",
    "meta-8-noncentered",
    "hospitals-centered",
    "plates-noncentered",
    "crossed-centered",
    "cafes-centered",
    "radon-centered",
)
CHAINS = 4
PARTICLES, STEPS, RATES = 8, 2500, (3e-2, 1e-2, 3e-3)
DRAWS = 20_000


def beside() -> None:
    """Print the errors of each, medians over seeds."""
    jax.config.update("jax_enable_x64", True)  # of which a switch for each call would cost
    print(f"Errors of means, sd / of log sds, medians of {SEEDS} seeds; NUTS with as many")
    print(f"gradients as the default fit, the flow with {PARTICLES * STEPS:,}\n")
    print("| target | D | gradients | one Gaussian | default | NUTS | flow (NumPyro) |")
    print("|---|---|---|---|---|---|---|", flush=True)
    for name in NAMES:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            print(_row(name), flush=True)
    print()


def _row(name: str) -> str:
    target, truth = hierarchies()[name](), load_truth(name)
    assert isinstance(target, JaxTarget)
    ones = [scorevi.fit(target, family="gaussian", seed=seed) for seed in range(SEEDS)]
    fits = [scorevi.fit(target, seed=seed) for seed in range(SEEDS)]
    sampled = [
        _moments(_sampled(target, fit.num_gradients, seed + 1)) for seed, fit in enumerate(fits)
    ]
    columns = [
        [(one.q.mean, one.q.sd) for one in ones],
        [(fit.q.mean, fit.q.sd) for fit in fits],
        sampled,
        [_moments(drawn) for seed in range(SEEDS) if (drawn := _flow(target, seed)) is not None],
    ]
    cells = [_cell(column, truth) for column in columns]
    gradients = median(fit.num_gradients for fit in fits)
    return f"| {name} | {target.dim} | {gradients:.0f} | " + " | ".join(cells) + " |"


def _cell(moments: list[tuple[np.ndarray, np.ndarray]], truth: Truth) -> str:
    found = [errors_of(mean, sd, truth) for mean, sd in moments]
    if 2 * len(found) <= SEEDS:
        return "lost"
    mean, factor = (median(column) for column in zip(*found, strict=True))
    return f"{mean:.2f} / {math.log(factor):.2f}"


def _moments(draws: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    return draws.mean(axis=0), draws.std(axis=0)


def _sampled(target: JaxTarget, gradients: int, seed: int) -> np.ndarray:
    """Return what nutpie has drawn by so many gradients."""
    trace = run_nutpie(target, seed=seed, chains=CHAINS)[1]
    kept = []
    for chain in range(CHAINS):
        parts = [
            (group["theta"].values[chain], stats["n_steps"].values[chain])
            for group, stats in (
                (trace.warmup_posterior, trace.warmup_sample_stats),
                (trace.posterior, trace.sample_stats),
            )
        ]
        theta = np.concatenate([draws for draws, _ in parts])
        steps = np.concatenate([count for _, count in parts])
        end = max(2, int(np.searchsorted(np.cumsum(steps), gradients / CHAINS)))
        begin = len(parts[0][0])
        kept.append(theta[begin if end > begin + 1 else end // 2 : end])
    return np.concatenate(kept)


def _flow(target: JaxTarget, seed: int) -> np.ndarray | None:
    """Return draws of NumPyro's flow, with the rate that gives the highest ELBO.

    None where its loss is not finite at the end, whatever the rate.
    """
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoIAFNormal

    model = flat_model(target)
    found: list[tuple[float, Any]] = []
    with jax.enable_x64(True):
        for rate in RATES:
            guide = AutoIAFNormal(model)
            svi = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO(num_particles=PARTICLES))
            result = svi.run(jax.random.key(seed), STEPS, progress_bar=False)
            last = float(np.median(np.asarray(result.losses)[-200:]))
            if math.isfinite(last):
                drawn = guide.sample_posterior(
                    jax.random.key(seed + 1), result.params, sample_shape=(DRAWS,)
                )
                found.append((-last, np.asarray(drawn["theta"])))
    return max(found, key=lambda one: one[0])[1] if found else None
