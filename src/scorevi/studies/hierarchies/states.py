"""A level that wanders, seen through noise."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, walk
from scorevi.studies.hierarchies.densities import half_normal, normal
from scorevi.targets import Target

_TIMES = 100


def local_level(*, centered: bool) -> Target:
    """Return yₜ ~ N(xₜ, σ²) with x₁ ~ N(0, 5²) and xₜ ~ N(xₜ₋₁, τ²), at 100 times.

    τ and σ ~ half-normal(1). The non-centered form has the innovations for parameters.
    """
    rng = np.random.default_rng(91)
    y = rng.normal(2.0 + np.cumsum(rng.normal(0.0, 0.2, _TIMES)), 0.5)

    def levels(p: Point) -> dict[str, Level]:
        return {"x": walk(5.0, jnp.exp(p["log_tau"]))}

    def given(p: Point) -> Any:
        prior = half_normal(p["log_tau"]) + half_normal(p["log_sigma"])
        return prior + normal(y, p["x"], jnp.exp(p["log_sigma"]))

    top = {"log_tau": 0.0, "log_sigma": 0.0}
    return hierarchy(levels, given, top=top, effects={"x": (_TIMES,)}, centered=centered)
