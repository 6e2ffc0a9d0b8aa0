"""Binomial counts whose logits have an effect for each unit."""

from __future__ import annotations

from pathlib import Path
from typing import Any, Literal

import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.build import Level, Point, hierarchy, independent
from scorevi.studies.hierarchies.densities import binomial_logit, gamma, half_cauchy, normal
from scorevi.targets import Target, from_stan

_PROGRAM = Path(__file__).parent / "stan" / "seeds.stan"


def plates(*, centered: bool) -> Target:
    """Return rᵢ ~ binomial(nᵢ, logit⁻¹(xᵢ·β + bᵢ)) of 21 plates with bᵢ ~ N(0, τ²).

    The design is two factors and their product. β ~ N(0, 2²), τ ~ half-Cauchy(1).
    """
    d = _plates("plates")

    def levels(p: Point) -> dict[str, Level]:
        return {"b": independent(0.0, jnp.exp(p["log_tau"]))}

    def given(p: Point) -> Any:
        prior = normal(p["beta"], 0.0, 2.0) + half_cauchy(p["log_tau"])
        return prior + binomial_logit(d["r"], d["n"], d["X"] @ p["beta"] + p["b"])

    top = {"beta": np.zeros(4), "log_tau": 0.0}
    return hierarchy(levels, given, top=top, effects={"b": (21,)}, centered=centered)


def seeds(*, centered: bool) -> Target:
    """Return the model of :func:`plates` with bᵢ ~ N(0, 1/π) and vague priors.

    β ~ N(0, 1000²), π ~ gamma(0.001, 0.001). Other plates, which differ less: the posterior of
    log π has a plateau towards large precisions, where the effects are all but zero.
    """
    d = _plates("seeds")

    def levels(p: Point) -> dict[str, Level]:
        return {"b": independent(0.0, jnp.exp(-0.5 * p["log_precision"]))}

    def given(p: Point) -> Any:
        prior = normal(p["beta"], 0.0, 1000.0) + gamma(p["log_precision"], 0.001, 0.001)
        return prior + binomial_logit(d["r"], d["n"], d["X"] @ p["beta"] + p["b"])

    top = {"beta": np.zeros(4), "log_precision": 0.0}
    return hierarchy(levels, given, top=top, effects={"b": (21,)}, centered=centered)


def seeds_stan() -> Target:
    """Return :func:`seeds`, centered, as a Stan program."""
    return from_stan(_PROGRAM, _plates("seeds"))


def hospitals(*, centered: bool) -> Target:
    """Return rᵢ ~ binomial(nᵢ, logit⁻¹(bᵢ)) of 12 hospitals with bᵢ ~ N(μ, 1/π).

    μ ~ N(0, 1000²), π ~ gamma(0.001, 0.001).
    """
    rng = np.random.default_rng(43)
    n = np.round(np.exp(rng.uniform(np.log(45), np.log(800), 12)))
    r = rng.binomial(n.astype(int), _expit(rng.normal(-2.6, 0.4, 12))).astype(float)

    def levels(p: Point) -> dict[str, Level]:
        return {"b": independent(p["mu"], jnp.exp(-0.5 * p["log_precision"]))}

    def given(p: Point) -> Any:
        prior = normal(p["mu"], 0.0, 1000.0) + gamma(p["log_precision"], 0.001, 0.001)
        return prior + binomial_logit(r, n, p["b"])

    top = {"mu": 0.0, "log_precision": 0.0}
    return hierarchy(levels, given, top=top, effects={"b": (12,)}, centered=centered)


def _plates(which: Literal["plates", "seeds"]) -> dict[str, Any]:
    """Simulate 21 plates in a design of two by two."""
    seed, tau = {"plates": (41, 0.5), "seeds": (42, 0.3)}[which]
    rng = np.random.default_rng(seed)
    first, second = np.arange(21) >= 11, np.isin(np.arange(21) % 11, range(5, 11))
    design = np.column_stack([np.ones(21), first, second, first & second]).astype(float)
    n = rng.integers(4, 80, 21)
    r = rng.binomial(n, _expit(design @ [-0.5, 0.1, 1.3, -0.8] + rng.normal(0.0, tau, 21)))
    return {"I": 21, "K": 4, "X": design, "n": n, "r": r}


def _expit(x: Any) -> Any:
    return 1.0 / (1.0 + np.exp(-x))
