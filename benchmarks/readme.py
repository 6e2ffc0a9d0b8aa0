"""The table of the README: the default fit beside what else there is, against long runs of NUTS.

All of it in double precision on JAX models that are compiled before, one seed each. nutpie runs
with its defaults; its gradients and seconds are those to an effective sample of 400, its errors
those of all of its draws. Pathfinder is the best, by ELBO, of four runs. ADVI is NumPyro's guide
with a full covariance and the best, by ELBO, of three rates of Adam, of which only that one counts.
"""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import jax
import numpy as np

import scorevi
from benchmarks.guides import flat_model, log_density_of
from benchmarks.nuts import run_nutpie
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.best import noise_for
from scorevi.studies.hierarchies.truth import Truth, load_truth
from scorevi.studies.metrics import elbo
from scorevi.targets import JaxTarget

NAMES = "two-normals", "meta-8-centered", "hospitals-centered", "plates-centered", "cafes-centered"
RATES = 1e-1, 1e-2, 1e-3
GRADIENTS, PARTICLES = 20_000, 8
PATHS, DRAWS = 4, 4000


class Cell(NamedTuple):
    """What one of them comes to on one model."""

    gradients: float
    seconds: float
    mean_off: float
    """The worst parameter's, in its standard deviations."""
    sd_off: float
    """The worst parameter's, as a factor."""
    mark: str = ""

    def __str__(self) -> str:
        count = f"{self.gradients:,.0f}" if self.gradients < 1e4 else f"{self.gradients / 1e3:.0f}k"
        return f"{count}, {self.seconds:.1f} s, {self.mean_off:.2f}, {self.sd_off:.2f}{self.mark}"


def readme() -> None:
    """Print gradients, seconds and the largest errors, side by side."""
    jax.config.update("jax_enable_x64", True)  # of which a switch for each call would cost
    columns = {
        "scorevi": _scorevi,
        "NUTS (nutpie), to 400 effective draws": _nuts,
        "Pathfinder (BlackJAX)": _pathfinder,
        "full-rank ADVI (NumPyro)": _advi,
    }
    print("Gradients, seconds, largest error of a mean in sds, of an sd as a factor\n")
    print("| model | D | " + " | ".join(columns) + " |\n" + "|---" * (2 + len(columns)) + "|")
    for name in NAMES:
        target, truth = hierarchies()[name](), load_truth(name)
        assert isinstance(target, JaxTarget)
        for size in (1, 16):
            target.evaluate(np.zeros((size, target.dim)))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            cells = [str(run(target, truth)) for run in columns.values()]
        print(f"| {name} | {target.dim} | " + " | ".join(cells) + " |", flush=True)
    print()


def _scorevi(target: JaxTarget, truth: Truth) -> Cell:
    seconds, fit = _clocked(lambda: scorevi.fit(target, seed=0))
    q = fit.q
    return Cell(fit.num_gradients, seconds, *errors_of(q.mean, q.sd, truth), f", {fit.check()}")


def _nuts(target: JaxTarget, truth: Truth) -> Cell:
    sampled, trace = run_nutpie(target)
    draws = np.asarray(trace.posterior["theta"]).reshape(-1, target.dim)
    mark = "" if sampled.mixed else " ✗"
    off = errors_of(draws.mean(axis=0), draws.std(axis=0), truth)
    return Cell(sampled.gradients, sampled.seconds, *off, mark)


def _pathfinder(target: JaxTarget, truth: Truth) -> Cell:
    from blackjax.vi.pathfinder import approximate, sample

    def best(log_density: Callable[[Any], Any]) -> Callable[[], Any]:
        @jax.jit
        def one(key: Any) -> Any:
            first, second, third = jax.random.split(key, 3)
            point = jax.random.uniform(first, (target.dim,), minval=-2.0, maxval=2.0)
            state, _ = approximate(second, log_density, point)
            return state.elbo, sample(third, state, DRAWS)[0]

        def run() -> Any:
            found = [one(jax.random.key(number)) for number in range(PATHS)]
            return np.asarray(max(found, key=lambda each: float(each[0]))[1])

        return run

    counted, count = _counting(log_density_of(target))
    best(counted)()
    jax.effects_barrier()
    run = best(log_density_of(target))
    run()
    seconds, draws = _clocked(run)
    return Cell(len(count), seconds, *errors_of(draws.mean(axis=0), draws.std(axis=0), truth))


def _advi(target: JaxTarget, truth: Truth) -> Cell:
    import numpyro
    from numpyro.infer import SVI, Trace_ELBO
    from numpyro.infer.autoguide import AutoMultivariateNormal

    model = flat_model(target)
    found = []
    for rate in RATES:
        guide = AutoMultivariateNormal(model)
        svi = SVI(model, guide, numpyro.optim.Adam(rate), Trace_ELBO(num_particles=PARTICLES))
        run = jax.jit(
            lambda key, svi=svi: svi.run(key, GRADIENTS // PARTICLES, progress_bar=False).params
        )
        jax.block_until_ready(run(jax.random.key(0)))
        seconds, params = _clocked(lambda run=run: jax.block_until_ready(run(jax.random.key(0))))
        posterior = guide.get_posterior(params)
        mean, covariance = np.asarray(posterior.mean), np.asarray(posterior.covariance_matrix)
        try:
            q = scorevi.Gaussian.from_moments(mean, covariance)
        except ValueError:  # lost
            continue
        reached = elbo(q, target, noise_for(target.dim))
        found.append((reached, Cell(GRADIENTS, seconds, *errors_of(q.mean, q.sd, truth))))
    return max(found)[1]


def _counting(log_density: Callable[[Any], Any]) -> tuple[Callable[[Any], Any], list[int]]:
    """Return the function with a list that grows by one for each gradient."""
    count: list[int] = []

    @jax.custom_vjp
    def counted(theta: Any) -> Any:
        return log_density(theta)

    def forward(theta: Any) -> Any:
        value, gradient = jax.value_and_grad(log_density)(theta)
        jax.debug.callback(lambda: count.append(1))
        return value, gradient

    counted.defvjp(forward, lambda gradient, by: (gradient * by,))
    return counted, count


def errors_of(mean: Any, sd: Any, truth: Truth) -> tuple[float, float]:
    """Return the largest errors: of means in standard deviations, and the factor of sds."""
    mean_off = np.max(np.abs(mean - truth.mean) / truth.sd)
    return float(mean_off), float(np.exp(np.max(np.abs(np.log(sd / truth.sd)))))


def _clocked(run: Callable[[], Any]) -> tuple[float, Any]:
    begin = time.perf_counter()
    result = run()
    return time.perf_counter() - begin, result
