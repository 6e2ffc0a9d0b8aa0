"""Meta-analysis: effects of studies of which only an estimate and its error are known."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import half_cauchy, half_normal, normal
from scorevi.targets import Target


def studies(count: Literal[8, 40], *, centered: bool) -> Target:
    """Return yⱼ ~ N(θⱼ, sⱼ²) of 8 or 40 studies with θⱼ ~ N(μ, τ²).

    The 8 have errors as large as their effects, μ ~ N(0, 5²), τ ~ half-Cauchy(5). The 40 differ by
    less than their errors, μ ~ N(0, 1), τ ~ half-normal(0.5).
    """
    rng = np.random.default_rng(70 + count)
    if count == 8:
        error, mu, tau, mu_sd = rng.uniform(9.0, 18.0, count), 6.0, 4.0, 5.0
    else:
        error, mu, tau, mu_sd = rng.uniform(0.1, 0.5, count), 0.2, 0.12, 1.0
    y = rng.normal(rng.normal(mu, tau, count), error)

    def levels(p: Point) -> dict[str, Level]:
        return {"theta": independent(p["mu"], jnp.exp(p["log_tau"]))}

    def given(p: Point) -> Any:
        log_tau = p["log_tau"]
        prior = half_cauchy(log_tau, 5.0) if count == 8 else half_normal(log_tau, 0.5)
        return prior + normal(p["mu"], 0.0, mu_sd) + normal(y, p["theta"], error)

    top = {"mu": 0.0, "log_tau": 0.0}
    return hierarchy(levels, given, top=top, effects={"theta": (count,)}, centered=centered)
