"""A mixture of two normals whose labels are told apart by their order."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Point
from scorevi.studies.hierarchies.densities import half_normal, normal
from scorevi.targets import Target, from_jax


def two_normals() -> Target:
    """Return yᵢ ~ w·N(μ₁, σ₁²) + (1 − w)·N(μ₂, σ₂²) with μ₁ < μ₂, the labels summed out.

    μ ~ N(0, 3²), σ ~ half-normal(2), w ~ beta(2, 2). The parameters are μ₁, log(μ₂ − μ₁), log σ
    and the logit of w.
    """
    rng = np.random.default_rng(121)
    first = rng.random(80) < 0.35
    y = np.where(first, rng.normal(-1.2, 0.7, 80), rng.normal(1.3, 1.0, 80))

    def log_density(p: Point) -> Any:
        gap = jnp.exp(p["log_gap"])
        mu = jnp.stack([p["mu"], p["mu"] + gap])
        log_share = -jnp.logaddexp(0.0, jnp.stack([-p["logit_share"], p["logit_share"]]))
        # beta(2, 2) and the Jacobian of the logit: w²·(1 − w)²
        prior = normal(mu, 0.0, 3.0) + p["log_gap"] + 2.0 * log_share.sum()
        prior += half_normal(p["log_sigma"], 2.0)
        standard = (y[:, None] - mu) * jnp.exp(-p["log_sigma"])
        terms = log_share - p["log_sigma"] - 0.5 * standard**2
        return prior + jnp.logaddexp(terms[:, 0], terms[:, 1]).sum()

    top = {"mu": 0.0, "log_gap": 0.0, "log_sigma": np.zeros(2), "logit_share": 0.0}
    return from_jax(log_density, top)
