"""Item response theory: who knows what, and how much an answer tells."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import binomial_logit, half_normal, normal
from scorevi.targets import Target

_PERSONS, _ITEMS = 60, 20


def two_parameters(*, centered: bool) -> Target:
    """Return yᵢⱼ ~ Bernoulli(logit⁻¹(aⱼ·(θᵢ − bⱼ))) of 60 persons and 20 items.

    Abilities θ ~ N(0, 1), log discriminations ~ N(0, τ_a²), difficulties b ~ N(μ, τ_b²);
    μ ~ N(0, 2²), τ ~ half-normal(1).
    """
    rng = np.random.default_rng(61)
    ability, difficulty = rng.normal(size=(_PERSONS, 1)), rng.normal(0.3, 0.9, _ITEMS)
    logit = rng.lognormal(0.0, 0.4, _ITEMS) * (ability - difficulty)
    y = (rng.random(logit.shape) < 1.0 / (1.0 + np.exp(-logit))).astype(float)

    def levels(p: Point) -> dict[str, Level]:
        tau = jnp.exp(p["log_tau"])
        return {
            "log_discrimination": independent(0.0, tau[0]),
            "difficulty": independent(p["mu"], tau[1]),
        }

    def given(p: Point) -> Any:
        prior = normal(p["ability"]) + normal(p["mu"], 0.0, 2.0) + half_normal(p["log_tau"])
        slope = jnp.exp(p["log_discrimination"])
        return prior + binomial_logit(y, 1.0, slope * (p["ability"][:, None] - p["difficulty"]))

    top = {"ability": np.zeros(_PERSONS), "mu": 0.0, "log_tau": np.zeros(2)}
    effects = {"log_discrimination": (_ITEMS,), "difficulty": (_ITEMS,)}
    return hierarchy(levels, given, top=top, effects=effects, centered=centered)
