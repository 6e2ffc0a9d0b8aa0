"""Varying intercepts and slopes that are correlated, by a Cholesky factor."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, correlated, hierarchy
from scorevi.studies.hierarchies.densities import half_cauchy, half_normal, normal
from scorevi.targets import Target, from_stan

_PROGRAM = Path(__file__).parent / "stan" / "slopes.stan"


def slopes(data: Literal["cafes", "schools"], *, centered: bool) -> Target:
    """Return yᵢ ~ N(b₀[jᵢ] + b₁[jᵢ]·xᵢ, σ²) with rows b ~ N(β, diag(τ)·R·diag(τ)).

    β ~ N(0, 5²), τ ~ half-Cauchy(1), σ ~ half-normal(2), R ~ LKJ(2). The correlation is the
    hyperbolic tangent of the parameter ``corr``.
    """
    d = _data(data)
    x, y, group = d["x"], d["y"], d["group"] - 1

    def levels(p: Point) -> dict[str, Level]:
        tau = jnp.exp(p["log_tau"])
        sine = 1.0 / jnp.cosh(p["corr"])  # √(1 − ρ²)
        rows = [jnp.stack([tau[0], 0.0]), tau[1] * jnp.stack([jnp.tanh(p["corr"]), sine])]
        return {"b": correlated(p["beta"], jnp.stack(rows))}

    def given(p: Point) -> Any:
        prior = normal(p["beta"], 0.0, 5.0) + half_cauchy(p["log_tau"])
        prior += half_normal(p["log_sigma"], 2.0)
        # LKJ(2) is (1 − ρ²) in ρ, and the Jacobian of tanh once more that.
        prior += -4.0 * (jnp.logaddexp(p["corr"], -p["corr"]) - jnp.log(2.0))
        fitted = p["b"][group, 0] + p["b"][group, 1] * x
        return prior + normal(y, fitted, jnp.exp(p["log_sigma"]))

    top = {"beta": np.zeros(2), "log_tau": np.zeros(2), "corr": 0.0, "log_sigma": 0.0}
    return hierarchy(levels, given, top=top, effects={"b": (d["J"], 2)}, centered=centered)


def slopes_stan() -> Target:
    """Return :func:`slopes` for the schools, non-centered, as a Stan program."""
    return from_stan(_PROGRAM, _data("schools"))


def _data(which: Literal["cafes", "schools"]) -> dict[str, Any]:
    """Simulate 25 groups of ten, strongly correlated; or 20 of uneven sizes, hardly so."""
    if which == "cafes":
        rng = np.random.default_rng(21)
        sizes, beta, tau, rho, sigma = np.full(25, 10), [3.5, -1.0], [1.0, 0.5], -0.7, 0.6
    else:
        rng = np.random.default_rng(22)
        sizes, beta, tau, rho, sigma = rng.integers(2, 25, 20), [0.5, 1.2], [0.6, 0.2], 0.3, 1.0
    count = len(sizes)
    covariance = np.outer(tau, tau) * np.array([[1.0, rho], [rho, 1.0]])
    b = rng.multivariate_normal(beta, covariance, count)
    group = np.repeat(np.arange(count), sizes)
    x = rng.normal(size=len(group)) if which == "schools" else np.arange(len(group)) % 2.0
    y = rng.normal(b[group, 0] + b[group, 1] * x, sigma)
    return {"N": len(y), "J": count, "group": group + 1, "x": x, "y": y}
