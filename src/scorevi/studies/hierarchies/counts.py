"""Poisson counts with more spread than Poisson: an effect for each observation."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import half_cauchy, half_normal, normal, poisson_log
from scorevi.targets import Target


def sites(*, centered: bool) -> Target:
    """Return cᵢ ~ Poisson(exp(α + β·tᵢ + y[tᵢ] + eᵢ)) with y ~ N(0, τ_y²) and e ~ N(0, τ_e²).

    Three sites in each of ten years. α ~ N(3, 2²), β ~ N(0, 1), τ ~ half-normal(1).
    """
    rng = np.random.default_rng(51)
    year = np.repeat(np.arange(10), 3)
    time = (year - year.mean()) / 5.0
    log_rate = 2.5 + 0.4 * time + rng.normal(0.0, 0.25, 10)[year] + rng.normal(0.0, 0.3, 30)
    count = rng.poisson(np.exp(log_rate)).astype(float)

    def levels(p: Point) -> dict[str, Level]:
        tau = jnp.exp(p["log_tau"])
        return {"year": independent(0.0, tau[0]), "extra": independent(0.0, tau[1])}

    def given(p: Point) -> Any:
        prior = normal(p["alpha"], 3.0, 2.0) + normal(p["beta"]) + half_normal(p["log_tau"])
        linear = p["alpha"] + p["beta"] * time
        return prior + poisson_log(count, linear + p["year"][year] + p["extra"])

    top = {"alpha": 0.0, "beta": 0.0, "log_tau": np.zeros(2)}
    effects = {"year": (10,), "extra": (30,)}
    return hierarchy(levels, given, top=top, effects=effects, centered=centered)


def population(*, centered: bool) -> Target:
    """Return cₜ ~ Poisson(exp(β₀ + β₁·t + β₂·t² + β₃·t³ + eₜ)) of 40 years with eₜ ~ N(0, τ²).

    β ~ N(0, 10²), τ ~ half-Cauchy(1).
    """
    rng = np.random.default_rng(52)
    time = np.linspace(-1.0, 1.0, 40)
    powers = np.vander(time, 4, increasing=True)
    log_rate = powers @ [4.3, 1.9, 0.1, -0.9] + rng.normal(0.0, 0.1, 40)
    count = rng.poisson(np.exp(log_rate)).astype(float)

    def levels(p: Point) -> dict[str, Level]:
        return {"extra": independent(0.0, jnp.exp(p["log_tau"]))}

    def given(p: Point) -> Any:
        prior = normal(p["beta"], 0.0, 10.0) + half_cauchy(p["log_tau"])
        return prior + poisson_log(count, powers @ p["beta"] + p["extra"])

    top = {"beta": np.zeros(4), "log_tau": 0.0}
    return hierarchy(levels, given, top=top, effects={"extra": (40,)}, centered=centered)
