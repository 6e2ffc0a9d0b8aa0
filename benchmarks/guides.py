"""What NumPyro's guides are fitted to: a JAX target as a model with one flat parameter."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from scorevi.targets import JaxTarget


def log_density_of(target: JaxTarget) -> Callable[[Any], Any]:
    """Return the log density of one point, in JAX."""
    return lambda theta: target.log_density_and_score(theta[None])[0][0]


def flat_model(target: JaxTarget) -> Callable[[], None]:
    """Return a NumPyro model whose posterior is the target's."""
    import numpyro

    def model() -> None:
        real = numpyro.distributions.constraints.real_vector
        flat = numpyro.distributions.ImproperUniform(real, (), (target.dim,))
        theta = numpyro.sample("theta", flat)
        numpyro.factor("log_density", log_density_of(target)(theta))

    return model
