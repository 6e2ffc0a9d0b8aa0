"""Gaussian processes whose length scale and amplitude are not known."""

from __future__ import annotations

from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, correlated, hierarchy
from scorevi.studies.hierarchies.densities import half_normal, inverse_gamma, normal, poisson_log
from scorevi.targets import Target

_JITTER = 1e-6
"""Added to the diagonal, relative to the variance, so that the matrix has a Cholesky factor."""


def process(outcome: Literal["normal", "poisson"]) -> Target:
    """Return a latent f ~ GP(0, a²·exp(−(x − x′)²/2ℓ²)) at 25 points, seen by y.

    y ~ N(μ + f, σ²) or Poisson(exp(μ + f)). ℓ ~ inverse gamma(5, 5), a ~ half-normal(1),
    μ ~ N(0, 3²), σ ~ half-normal(1).
    """
    rng = np.random.default_rng({"normal": 111, "poisson": 112}[outcome])
    x = np.sort(rng.uniform(-3.0, 3.0, 25))
    f = 1.0 + np.sin(1.5 * x)
    y = rng.normal(f, 0.3) if outcome == "normal" else rng.poisson(np.exp(f)).astype(float)
    squares = (x[:, None] - x) ** 2

    def levels(p: Point) -> dict[str, Level]:
        kernel = jnp.exp(-0.5 * squares * jnp.exp(-2.0 * p["log_length"])) + _JITTER * np.eye(25)
        factor = jnp.exp(p["log_amplitude"]) * jnp.linalg.cholesky(kernel)
        return {"f": correlated(0.0, factor)}

    def given(p: Point) -> Any:
        prior = inverse_gamma(p["log_length"], 5.0, 5.0) + half_normal(p["log_amplitude"])
        prior += normal(p["mu"], 0.0, 3.0)
        linear = p["mu"] + p["f"]
        if outcome == "poisson":
            return prior + poisson_log(y, linear)
        return prior + half_normal(p["log_sigma"]) + normal(y, linear, jnp.exp(p["log_sigma"]))

    top = {"log_length": 0.0, "log_amplitude": 0.0, "mu": 0.0}
    if outcome == "normal":
        top["log_sigma"] = 0.0
    return hierarchy(levels, given, top=top, effects={"f": (25,)}, centered=False)
