"""Growth curves of thirty subjects, with the vague priors of the BUGS examples."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import gamma, normal
from scorevi.targets import Target

_DAYS = np.array([8.0, 15.0, 22.0, 29.0, 36.0])


def growth(*, centered: bool) -> Target:
    """Return yᵢₜ ~ N(αᵢ + βᵢ·(t − 22), 1/π) with αᵢ ~ N(μ₀, 1/π₀) and βᵢ ~ N(μ₁, 1/π₁).

    μ ~ N(0, 1000²), and all three precisions ~ gamma(0.001, 0.001).
    """
    rng = np.random.default_rng(31)
    alpha, beta = rng.normal(240.0, 15.0, (30, 1)), rng.normal(6.0, 0.6, (30, 1))
    days = _DAYS - _DAYS.mean()
    y = rng.normal(alpha + beta * days, 6.0)

    def levels(p: Point) -> dict[str, Level]:
        sd = jnp.exp(-0.5 * p["log_precision_effects"])
        return {
            "alpha": independent(p["mu"][0], sd[0]),
            "beta": independent(p["mu"][1], sd[1]),
        }

    def given(p: Point) -> Any:
        prior = normal(p["mu"], 0.0, 1000.0) + gamma(p["log_precision"], 0.001, 0.001)
        prior += gamma(p["log_precision_effects"], 0.001, 0.001)
        fitted = p["alpha"][:, None] + p["beta"][:, None] * days
        return prior + normal(y, fitted, jnp.exp(-0.5 * p["log_precision"]))

    top = {"mu": np.zeros(2), "log_precision": 0.0, "log_precision_effects": np.zeros(2)}
    effects = {"alpha": (30,), "beta": (30,)}
    return hierarchy(levels, given, top=top, effects=effects, centered=centered)
