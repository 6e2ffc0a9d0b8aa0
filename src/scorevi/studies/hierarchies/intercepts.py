"""Varying intercepts with a normal outcome, in groups of very uneven sizes."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import half_normal, normal
from scorevi.targets import Target, from_stan

_PROGRAM = Path(__file__).parent / "stan" / "intercepts.stan"


def intercepts(data: Literal["radon", "clinics"], *, centered: bool) -> Target:
    """Return yᵢ ~ N(α[jᵢ] + β·xᵢ, σ²) with αⱼ ~ N(μ, τ²).

    μ ~ N(0, 10²), β ~ N(0, 5²), τ and σ ~ half-normal(2).
    """
    d = _data(data)
    x, y, group = d["x"], d["y"], d["group"] - 1

    def levels(p: Point) -> dict[str, Level]:
        return {"alpha": independent(p["mu"], jnp.exp(p["log_tau"]))}

    def given(p: Point) -> Any:
        prior = normal(p["mu"], 0.0, 10.0) + normal(p["beta"], 0.0, 5.0)
        prior += half_normal(p["log_tau"], 2.0) + half_normal(p["log_sigma"], 2.0)
        return prior + normal(y, p["alpha"][group] + p["beta"] * x, jnp.exp(p["log_sigma"]))

    top = {"mu": 0.0, "beta": 0.0, "log_tau": 0.0, "log_sigma": 0.0}
    return hierarchy(levels, given, top=top, effects={"alpha": (d["J"],)}, centered=centered)


def predicted(*, centered: bool) -> Target:
    """Return yᵢ ~ N(α[jᵢ] + β·xᵢ, σ²) with αⱼ ~ N(γ₀ + γ₁·uⱼ, τ²).

    The predictor u leaves little for τ, whose posterior reaches towards zero. γ ~ N(0, 5²),
    β ~ N(0, 5²), τ and σ ~ half-normal(1).
    """
    d = _data("radon predicted")
    x, y, group, u = d["x"], d["y"], d["group"] - 1, d["u"]

    def levels(p: Point) -> dict[str, Level]:
        location = p["gamma"][0] + p["gamma"][1] * u
        return {"alpha": independent(location, jnp.exp(p["log_tau"]))}

    def given(p: Point) -> Any:
        prior = normal(p["gamma"], 0.0, 5.0) + normal(p["beta"], 0.0, 5.0)
        prior += half_normal(p["log_tau"]) + half_normal(p["log_sigma"])
        return prior + normal(y, p["alpha"][group] + p["beta"] * x, jnp.exp(p["log_sigma"]))

    top = {"gamma": np.zeros(2), "beta": 0.0, "log_tau": 0.0, "log_sigma": 0.0}
    return hierarchy(levels, given, top=top, effects={"alpha": (d["J"],)}, centered=centered)


def intercepts_stan() -> Target:
    """Return :func:`intercepts` for the clinics, centered, as a Stan program."""
    return from_stan(_PROGRAM, _data("clinics"))


def _data(which: Literal["radon", "radon predicted", "clinics"]) -> dict[str, Any]:
    """Simulate outcomes; groups count from 1.

    Radon has 85 groups of 1 to 100. Clinics are 40 small ones that hardly differ.
    """
    rng = np.random.default_rng({"radon": 11, "radon predicted": 12, "clinics": 13}[which])
    if which == "clinics":
        sizes, tau = rng.integers(2, 9, 40), 0.15
    else:
        sizes = np.clip(rng.lognormal(1.4, 1.1, 85), 1, 100).astype(int)
        sizes[:3] = 100, 1, 2
        tau = 0.3 if which == "radon" else 0.12
    count = len(sizes)
    u = rng.normal(0.0, 0.5, count)
    location = 1.5 + (0.7 if which == "radon predicted" else 0.0) * u
    alpha = rng.normal(location, tau)
    group = np.repeat(np.arange(count), sizes)
    x = (rng.random(len(group)) < 0.2).astype(float)
    y = rng.normal(alpha[group] - 0.7 * x, 0.75)
    return {"N": len(y), "J": count, "group": group + 1, "x": x, "y": y, "u": u}
