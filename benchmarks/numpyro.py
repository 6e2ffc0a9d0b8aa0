"""NumPyro: what a gradient costs through a target, against NumPyro's own compiled gradient."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median

import jax
import numpy as np
import numpyro
import numpyro.distributions as dist

import scorevi
from scorevi.base.target import split
from scorevi.targets.synthetic import EIGHT_SCHOOLS

ROUNDS = 9
CALLS = 2000


def eight_schools(y: np.ndarray, sigma: np.ndarray) -> None:
    mu = numpyro.sample("mu", dist.Normal(0, 5))
    tau = numpyro.sample("tau", dist.HalfCauchy(5))
    with numpyro.plate("school", 8):
        theta_trans = numpyro.sample("theta_trans", dist.Normal(0, 1))
        theta = numpyro.deterministic("theta", mu + tau * theta_trans)
        numpyro.sample("y", dist.Normal(theta, sigma), obs=y)


def _microseconds(call: Callable[[], object], gradients: int) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        call()
    return 1e6 * (time.perf_counter() - began) / (CALLS * gradients)


def overhead() -> None:
    data = [np.array(EIGHT_SCHOOLS[name]) for name in ("effect", "standard_error")]
    target = scorevi.from_numpyro(eight_schools, *data)
    print("NumPyro, eight schools: time per gradient, µs, double precision, one thread")
    print(f"(medians of {ROUNDS} interleaved rounds of {CALLS} calls; theirs is")
    print("jit(vmap(value_and_grad(potential_fn))) on JAX arrays by name, waited for; ours is")
    print("target.evaluate, from a NumPy matrix to NumPy arrays; in the loop is fit by GSM)\n")
    print("batch   NumPyro   scorevi   difference   in the loop")
    with jax.enable_x64(True):
        model = numpyro.infer.util.initialize_model(
            jax.random.key(0), eight_schools, model_args=tuple(data)
        )
        theirs = jax.jit(jax.vmap(jax.value_and_grad(model.potential_fn)))
        for batch in (1, 64):
            theta = np.random.default_rng(0).standard_normal((batch, target.dim))
            named = jax.tree.map(jax.numpy.asarray, split(theta, target.parameters))
            calls = {
                "theirs": lambda named=named: jax.block_until_ready(theirs(named)),
                "ours": lambda theta=theta: target.evaluate(theta),
            }
            for call in calls.values():
                call()  # compiles
            times: dict[str, list[float]] = {"theirs": [], "ours": [], "fit": []}
            for _ in range(ROUNDS):
                for name, call in calls.items():
                    times[name].append(_microseconds(call, batch))
                solver = scorevi.GSM(batch_size=batch)
                fit = scorevi.fit(
                    target, solver, max_gradients=40_000, seed=0, stop=False, progress=False
                )
                times["fit"].append(1e6 * fit.seconds / fit.num_gradients)
            a, b, c = (median(times[name]) for name in ("theirs", "ours", "fit"))
            print(f"{batch:5}   {a:7.2f}   {b:7.2f}   {b - a:+10.2f}   {c:11.2f}", flush=True)
    print()
