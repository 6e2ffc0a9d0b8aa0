"""Crossed effects: every observation belongs to a row and to a column."""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import half_normal, normal
from scorevi.targets import Target


def crossed(*, centered: bool) -> Target:
    """Return yᵢ ~ N(μ + r[iᵣ] + c[i_c], σ²) with r ~ N(0, τ_r²) and c ~ N(0, τ_c²).

    15 rows by 20 columns, of whose cells two in three were seen. μ ~ N(0, 5²), τ and
    σ ~ half-normal(1). Only the sums of μ with the effects are known well.
    """
    rng = np.random.default_rng(81)
    row, column = np.nonzero(rng.random((15, 20)) < 2 / 3)
    y = rng.normal(0.7, 0.8, 15)[row] + rng.normal(0.0, 0.25, 20)[column]
    y = rng.normal(y, 0.9)

    def levels(p: Point) -> dict[str, Level]:
        tau = jnp.exp(p["log_tau"])
        return {"row": independent(0.0, tau[0]), "column": independent(0.0, tau[1])}

    def given(p: Point) -> Any:
        prior = normal(p["mu"], 0.0, 5.0) + half_normal(p["log_tau"]) + half_normal(p["log_sigma"])
        fitted = p["mu"] + p["row"][row] + p["column"][column]
        return prior + normal(y, fitted, jnp.exp(p["log_sigma"]))

    top = {"mu": 0.0, "log_tau": np.zeros(2), "log_sigma": 0.0}
    effects = {"row": (15,), "column": (20,)}
    return hierarchy(levels, given, top=top, effects=effects, centered=centered)
