"""PyMC models: what a gradient costs through a target, against PyMC's own compiled function."""

from __future__ import annotations

import time
from collections.abc import Callable
from statistics import median
from typing import Any

import numpy as np

import scorevi

ROUNDS = 7
CALLS = 200
BATCH = 16


def _eight_schools(pm: Any) -> Any:
    effects = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
    errors = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta_trans = pm.Normal("theta_trans", 0, 1, shape=8)
        theta = pm.Deterministic("theta", mu + tau * theta_trans)
        pm.Normal("y", theta, errors, observed=effects)
    return model


def _theirs(model: Any, backend: str, dim: int) -> tuple[Callable[[np.ndarray], Any], Any]:
    """PyMC's value-and-gradient function of the vector, and the PyTensor function within."""
    from pytensor.compile import Mode

    mode = Mode(linker="cvm", optimizer="fast_run") if backend == "c" else backend.upper()
    function = model.logp_dlogp_function(ravel_inputs=True, mode=mode)
    function.set_extra_values({})
    function(np.zeros(dim))
    return function, function._pytensor_function


def _microseconds(work: Callable[[], object]) -> float:
    began = time.perf_counter()
    for _ in range(CALLS):
        work()
    return 1e6 * (time.perf_counter() - began) / (CALLS * BATCH)


def pymc_overhead() -> None:
    import pymc as pm

    print(f"Time per gradient, µs, eight schools in PyMC {pm.__version__}, batches of {BATCH}")
    print(f"(medians of {ROUNDS} interleaved rounds; compiled: what the target calls, alone;")
    print("made: seconds to make the target)\n")
    print("backend   PyMC's function   PyTensor's, unchecked   target.evaluate   compiled   made")
    for backend in ("numba", "c"):
        model = _eight_schools(pm)
        began = time.perf_counter()
        target = scorevi.from_pymc(model, backend=backend)
        made = time.perf_counter() - began
        function, bare = _theirs(model, backend, target.dim)
        theta = np.random.default_rng(0).standard_normal((BATCH, target.dim))
        np.testing.assert_allclose(target.evaluate(theta).score[0], function(theta[0])[1])

        def each(call: Callable[[np.ndarray], object], theta: np.ndarray = theta) -> None:
            for point in theta:
                call(point)

        calls = (
            lambda function=function: each(function),
            lambda bare=bare: each(bare),
            lambda target=target, theta=theta: target.evaluate(theta),
            lambda target=target: each(target.log_density_and_score),
        )
        columns: list[list[float]] = [[] for _ in calls]
        for _ in range(ROUNDS):
            for column, call in enumerate(calls):
                # PyMC leaves the checks of the input on; the second column is without.
                bare.trust_input = column > 0
                columns[column].append(_microseconds(call))
        a, b, c, d = map(median, columns)
        times = f"{a:15.2f}   {b:21.2f}   {c:15.2f}   {d:8.2f}"
        print(f"{backend:7}   {times}   {made:4.1f}", flush=True)
    print()
