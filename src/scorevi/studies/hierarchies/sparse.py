"""Regression with many coefficients of which few matter: the regularised horseshoe."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import half_cauchy, half_normal, inverse_gamma, normal
from scorevi.targets import Target, from_stan

_PROGRAM = Path(__file__).parent / "stan" / "horseshoe.stan"
_FREEDOM, _SLAB = 4.0, 2.0


def horseshoe(data: Literal["tall", "wide"]) -> Target:
    r"""Return y ~ N(α + X·β, σ²) with βₖ ~ N(0, (τ·λ̃ₖ)²), λ̃² = c²·λ²/(c² + τ²·λ²).

    λ ~ half-Cauchy(1), τ ~ half-Cauchy(τ₀), c² ~ inverse gamma(ν/2, ν·s²/2) with ν = 4 and s = 2,
    α ~ N(0, 5²), σ ~ half-normal(2). Tall has 60 rows and 20 columns, wide 40 rows and 50.

    References
    ----------
    Piironen, J. and Vehtari, A. (2017). Sparsity information and regularization in the horseshoe
    and other shrinkage priors. *Electronic Journal of Statistics* 11, 5018–5051.
    """
    d = _data(data)
    x, y, columns = d["X"], d["y"], d["p"]

    def levels(p: Point) -> dict[str, Level]:
        local = 2.0 * (p["log_tau"] + p["log_lambda"])
        # log of τ²·λ̃² = c²·τ²·λ² / (c² + τ²·λ²)
        log_variance = p["log_slab"] + local - jnp.logaddexp(p["log_slab"], local)
        return {"beta": independent(0.0, jnp.exp(0.5 * log_variance))}

    def given(p: Point) -> Any:
        prior = half_cauchy(p["log_lambda"]) + half_cauchy(p["log_tau"], d["tau_scale"])
        prior += inverse_gamma(p["log_slab"], _FREEDOM / 2, _FREEDOM * _SLAB**2 / 2)
        prior += normal(p["alpha"], 0.0, 5.0) + half_normal(p["log_sigma"], 2.0)
        return prior + normal(y, p["alpha"] + x @ p["beta"], jnp.exp(p["log_sigma"]))

    top = {"log_lambda": np.zeros(columns)}
    top |= dict.fromkeys(("alpha", "log_sigma", "log_slab", "log_tau"), np.zeros(()))
    return hierarchy(levels, given, top=top, effects={"beta": (columns,)}, centered=False)


def horseshoe_stan() -> Target:
    """Return the tall :func:`horseshoe`, non-centered, as a Stan program."""
    return from_stan(_PROGRAM, _data("tall"))


def _data(which: Literal["tall", "wide"]) -> dict[str, Any]:
    """Simulate columns of which four matter, one of them little."""
    seed, rows, columns = {"tall": (101, 60, 20), "wide": (102, 40, 50)}[which]
    rng = np.random.default_rng(seed)
    x = rng.normal(size=(rows, columns))
    x[:, 1] = 0.8 * x[:, 0] + 0.6 * x[:, 1]
    y = rng.normal(0.5 + x[:, [0, 2, 3, 4]] @ [2.0, -1.5, 1.0, 0.4], 1.0)
    few = 4 / (columns - 4) / np.sqrt(rows)
    return {
        "N": rows,
        "p": columns,
        "X": x,
        "y": y,
        "tau_scale": few,
        "freedom": _FREEDOM,
        "slab": _SLAB,
    }
