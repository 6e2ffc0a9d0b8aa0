"""The default fit beside NUTS, on the clock: nutpie, with and without its low-rank metric; NumPyro.

Each sampler runs once with its default numbers of warm-up steps and draws, and its time is brought
to an effective sample of 400 in every parameter: by the share of its gradients that was warm-up,
and of the rest as much as it takes. Where it would take more than it has drawn, nothing is added
for the warm-up that turned out too short. nutpie uses all cores on Stan programs, which it calls
without Python, and one on JAX functions, which is faster there; the fit uses one. What is compiled
is compiled before, and shown apart.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np

import scorevi
from benchmarks.logistic import observations
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.sampling import LOW, for_nutpie
from scorevi.studies.hierarchies.truth import load_truth
from scorevi.studies.posteriordb import EIGHT, Posterior, database
from scorevi.targets import JaxTarget, StanTarget, Target

EFFECTIVE = 400
SEEDS = 3
CHAINS, WARM_UP, DRAWS = 4, 500, 1000
"""Of NumPyro's NUTS; nutpie has defaults of its own."""
MIXED = 1.01


class Sampled(NamedTuple):
    """What it takes to sample."""

    seconds: float
    """To the effective sample."""
    gradients: float
    mixed: bool
    """Whether the chains agree: R-hat at most 1.01."""
    compiling: float

    def __str__(self) -> str:
        mark = "" if self.mixed else " ✗"
        return f"{_short(self.gradients)}, {self.seconds:.2f} s{mark}"


def against_nuts() -> None:
    """Print gradients and seconds, side by side."""
    jax.config.update("jax_enable_x64", True)  # of which a switch for each call would cost
    print(f"The default fit (median of {SEEDS} seeds) and NUTS to an effective sample of")
    print(
        f"{EFFECTIVE}: gradients and seconds, compiled; ✗: R-hat above {MIXED}. Compiling: of the"
    )
    print("target for the fit, for nutpie, for NumPyro\n")
    print(
        "| target | D | fit | verdict | check | nutpie | nutpie, low rank | NumPyro | "
        "fit / nutpie | compiling, s |\n" + "|---" * 10 + "|"
    )
    ratios, with_check = [], []
    for name, make in targets():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            row, ratio, checked = _row(name, make())
        print(row, flush=True)
        ratios.append(ratio)
        with_check.append(checked)
        jax.clear_caches()  # of forty models in one process they outgrow what it may map
    print(f"\nfit / nutpie: median {median(ratios):.2f}, most {max(ratios):.2f}; with its check:")
    print(f"median {median(with_check):.2f}, most {max(with_check):.2f}\n")


def targets() -> Iterator[tuple[str, Callable[[], Target]]]:
    """Return ways to make what is measured on, by name, the quick ones first.

    The eight need PDB_PATH. All of them take about an hour, nearly all of it NUTS in many
    dimensions.
    """
    if "PDB_PATH" in os.environ:
        folder = database()
        for name in EIGHT:
            yield name, Posterior(folder, name).target
    by_cost = sorted(hierarchies(), key=lambda name: ("-stan" not in name, _dim(name)))
    yield from ((name, hierarchies()[name]) for name in by_cost)
    for dim in (10, 50, 200):
        yield f"logistic regression, D = {dim}", lambda dim=dim: _logistic(dim)


def _dim(name: str) -> int:
    return len(load_truth(name).labels)


def _logistic(dim: int) -> Target:
    design, outcome = observations(dim, seed=dim)

    def log_density(beta: Any) -> Any:
        link = jax.numpy.asarray(design) @ beta
        return outcome @ link - jax.numpy.logaddexp(0.0, link).sum() - 0.5 * beta @ beta

    return scorevi.from_jax(log_density, dim)


def _row(name: str, target: Target) -> tuple[str, float, float]:
    compiling = [_clocked(lambda: [target.evaluate(np.zeros((n, target.dim))) for n in (1, 16)])[0]]
    runs = [_clocked(lambda seed=seed: scorevi.fit(target, seed=seed)) for seed in range(SEEDS)]
    seconds = median(one for one, _ in runs)
    gradients = median(fit.num_gradients for _, fit in runs)
    checks = [_clocked(fit.check) for _, fit in runs]
    verdicts = " ".join(str(verdict) for _, verdict in checks)
    checking = median(one for one, _ in checks)
    samplers = [
        nutpie_to_effective(target),
        nutpie_to_effective(target, low_rank_modified_mass_matrix=True),
    ]
    compiling.append(samplers[0].compiling)
    cells = [*map(str, samplers)]
    if isinstance(target, JaxTarget):
        numpyro = _numpyro(target)
        cells.append(str(numpyro))
        compiling.append(numpyro.compiling)
    else:
        cells.append("–")
    ratio = seconds / samplers[0].seconds
    row = [
        name,
        str(target.dim),
        f"{_short(gradients)}, {seconds:.2f} s",
        verdicts,
        f"{checking:.2f} s",
        *cells,
        f"{ratio:.2f}",
        ", ".join(f"{one:.1f}" for one in compiling),
    ]
    return "| " + " | ".join(row) + " |", ratio, (seconds + checking) / samplers[0].seconds


def nutpie_to_effective(target: Target, *, seed: int = 1, **options: Any) -> Sampled:
    """Run nutpie as it does by default."""
    return run_nutpie(target, seed=seed, **options)[0]


def run_nutpie(target: Target, *, seed: int = 1, **options: Any) -> tuple[Sampled, Any]:
    """Run nutpie as it does by default; the trace comes too."""
    import nutpie

    compiling, model = _clocked(lambda: compiled_for_nutpie(target))
    # Chains that call into Python fight over its lock: one after another they are faster.
    options["cores"] = os.cpu_count() if isinstance(target, StanTarget) else 1
    seconds, trace = _clocked(
        lambda: nutpie.sample(model, seed=seed, progress_bar=False, save_warmup=True, **options)
    )
    warm_up, drawn = (
        int(group["n_steps"].values.sum())
        for group in (trace.warmup_sample_stats, trace.sample_stats)
    )
    return _to_effective(trace, seconds, warm_up, drawn, compiling), trace


def compiled_for_nutpie(target: Target) -> Any:
    """Return a model that nutpie runs without a detour: our Stan library, or JAX's function."""
    if isinstance(target, StanTarget):
        return _stan(target)
    if not isinstance(target, JaxTarget):
        return _function(target)

    @jax.jit
    def compiled(theta: Any) -> Any:
        log_density, score = target.log_density_and_score(theta[None])
        return log_density[0], score[0]

    compiled(np.zeros(target.dim))

    def log_density_and_score(theta: np.ndarray) -> tuple[float, np.ndarray]:
        log_density, score = compiled(theta)
        value = float(log_density)
        if not np.isfinite(value):
            return LOW, np.zeros(len(theta))  # an exception would end nutpie's thread
        return value, np.array(score)

    return for_nutpie(target.dim, log_density_and_score)


def _function(target: Target) -> Any:
    """Return a model around a target that is computed in Python anyway."""

    def log_density_and_score(theta: np.ndarray) -> tuple[float, np.ndarray]:
        score, log_density, _ = target.evaluate(theta[None])
        assert log_density is not None
        if not (np.isfinite(log_density[0]) and np.isfinite(score).all()):
            return LOW, np.zeros(len(theta))
        return float(log_density[0]), np.array(score[0])

    return for_nutpie(target.dim, log_density_and_score)


def _stan(target: StanTarget) -> Any:
    """Return nutpie's own Stan model around the library that we have compiled."""
    import json

    from nutpie import _lib
    from nutpie.compile_stan import CompiledStanModel

    library = _lib.StanLibrary(target.model.lib_path)
    model = CompiledStanModel(
        code="", library=library, dims={}, _coords={}, model_name="model", model=None, data=None
    )
    return model.with_data(**json.loads(target.model.data or "{}"))


def _numpyro(target: JaxTarget) -> Sampled:
    import arviz
    from numpyro.infer import MCMC, NUTS

    with jax.enable_x64(True):
        mcmc = MCMC(
            NUTS(potential_fn=lambda theta: -target.log_density_and_score(theta[None])[0][0]),
            num_warmup=WARM_UP,
            num_samples=DRAWS,
            num_chains=CHAINS,
            chain_method="vectorized",
            progress_bar=False,
        )
        starts = jax.random.uniform(jax.random.key(0), (CHAINS, target.dim), minval=-2, maxval=2)

        fields: Any = {"extra_fields": ("num_steps",)}

        def run() -> int:
            mcmc.warmup(jax.random.PRNGKey(1), init_params=starts, collect_warmup=True, **fields)
            warm_up = int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
            mcmc.run(mcmc.post_warmup_state.rng_key, **fields)
            return warm_up

        first, _ = _clocked(run)
        seconds, warm_up = _clocked(run)
        drawn = int(np.asarray(mcmc.get_extra_fields()["num_steps"]).sum())
        theta = np.asarray(mcmc.get_samples(group_by_chain=True))
    return _to_effective(
        arviz.convert_to_dataset(theta), seconds, warm_up, drawn, max(0.0, first - seconds)
    )


def _to_effective(
    trace: Any, seconds: float, warm_up: int, drawn: int, compiling: float
) -> Sampled:
    """Bring a run to the effective sample."""
    import arviz

    least = min(float(np.min(v.values)) for v in arviz.ess(trace).data_vars.values())
    worst = max(float(np.max(v.values)) for v in arviz.rhat(trace).data_vars.values())
    gradients = warm_up + drawn * EFFECTIVE / least
    return Sampled(seconds * gradients / (warm_up + drawn), gradients, worst <= MIXED, compiling)


def _clocked(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result


def _short(count: float) -> str:
    return f"{count:.0f}" if count < 1e4 else f"{count / 1e3:.0f}k"
