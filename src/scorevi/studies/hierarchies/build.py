"""One model, two forms: effects that are parameters themselves, or standardised ones.

A hierarchy has parameters at its top and effects below them. The effects are an affine function of
standard normal ones, given the top. In the centered form the effects are parameters; in the
non-centered form the standard normal ones are, whose names end in ``_z``. Each form derives what
the other has for parameters, so that draws of one are draws of the other.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import jax
import jax.numpy as jnp
import numpy as np

from scorevi.studies.hierarchies.densities import normal
from scorevi.targets import JaxTarget, from_jax

Point = Mapping[str, Any]
"""The parameters by name."""


class Level(NamedTuple):
    """How effects follow from standard normal ones of the same shape."""

    forward: Callable[[Any], Any]
    """From standard normal ones to effects."""
    backward: Callable[[Any], Any]
    log_volume: Callable[[tuple[int, ...]], Any]
    """The log Jacobian of ``forward`` for effects of a shape."""


def independent(location: Any, scale: Any) -> Level:
    """Effects ~ N(location, scale²), each for itself."""
    return Level(
        lambda z: location + scale * z,
        lambda x: (x - location) / scale,
        lambda shape: jnp.broadcast_to(jnp.log(scale), shape).sum(),
    )


def correlated(location: Any, factor: Any) -> Level:
    """Effects ~ N(location, factor·factorᵀ), a vector or rows, by a lower triangular factor."""
    return Level(
        lambda z: location + z @ factor.T,
        lambda x: jax.scipy.linalg.solve_triangular(factor, (x - location).T, lower=True).T,
        lambda shape: math.prod(shape[:-1]) * jnp.log(jnp.diagonal(factor)).sum(),
    )


def walk(first_sd: float, step: Any) -> Level:
    """Effects x₁ ~ N(0, first_sd²) and xₜ ~ N(xₜ₋₁, step²)."""

    def steps(x: Any) -> Any:
        return jnp.concatenate([jnp.full(1, first_sd), jnp.full(len(x) - 1, step)])

    return Level(
        lambda z: jnp.cumsum(steps(z) * z),
        lambda x: jnp.diff(x, prepend=0.0) / steps(x),
        lambda shape: jnp.log(first_sd) + (shape[0] - 1) * jnp.log(step),
    )


def hierarchy(
    levels: Callable[[Point], Mapping[str, Level]],
    given: Callable[[Point], Any],
    *,
    top: Mapping[str, Any],
    effects: Mapping[str, tuple[int, ...]],
    centered: bool,
) -> JaxTarget:
    """Make a target of one of the two forms of a model.

    Parameters
    ----------
    levels
        Maps the parameters at the top to the level of each group of effects, by name.
    given
        Maps the parameters at the top and the effects, by name, to the log density of all but the
        effects: priors at the top, with their log Jacobians, and the likelihood.
    top
        An example of the parameters at the top.
    effects
        The shapes of the effects.
    centered
        Which form.
    """

    def resolved(p: Point) -> tuple[dict[str, Any], dict[str, Any]]:
        """Return the standard normal ones and the effects."""
        level = levels(p)
        if centered:
            values = {name: p[name] for name in effects}
            return {name: level[name].backward(values[name]) for name in effects}, values
        standard = {name: p[f"{name}_z"] for name in effects}
        return standard, {name: level[name].forward(standard[name]) for name in effects}

    def log_density(p: Point) -> Any:
        standard, values = resolved(p)
        total = given({**p, **values})
        for name, shape in effects.items():
            total += normal(standard[name])
            if centered:
                total -= levels(p)[name].log_volume(shape)
        return total

    def derive(p: Point) -> dict[str, Any]:
        standard, values = resolved(p)
        return {f"{name}_z": z for name, z in standard.items()} if centered else values

    suffix = "" if centered else "_z"
    below = {f"{name}{suffix}": np.zeros(shape) for name, shape in effects.items()}
    return from_jax(log_density, {**top, **below}, derive=derive)
