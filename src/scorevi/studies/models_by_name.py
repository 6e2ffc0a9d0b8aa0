"""Models that several studies fit, by the names that results have: in NumPy and in JAX."""

from __future__ import annotations

from typing import Any

from scorevi.base.extras import require
from scorevi.base.target import Target
from scorevi.families import Gaussian
from scorevi.studies.synthetic import bent_in_jax
from scorevi.targets import synthetic as examples
from scorevi.targets.jax import JaxTarget, from_jax

_GAUSSIANS = {f"Gaussian, D = {dim}": dim for dim in (16, 64)}
_LOGISTIC = {f"logistic regression, D = {dim}": dim for dim in (20, 50)}
MODEL_DIMENSIONS = {**_GAUSSIANS, **_LOGISTIC, "eight schools": 10}


def _gaussian(dim: int) -> Gaussian:
    return examples.random_gaussian(dim, condition=40.0, seed=dim)


def model_by_name(name: str) -> Target:
    """Make the target of a name."""
    if name in _GAUSSIANS:
        p = _gaussian(_GAUSSIANS[name])
        return examples.gaussian(p.mean, p.covariance)
    if name in _LOGISTIC:
        return examples.logistic_regression(_LOGISTIC[name])
    return examples.eight_schools()


def model_in_jax(name: str) -> JaxTarget:
    """Make it in JAX, for compiled loops; eight schools is in NumPy alone."""
    if name in _GAUSSIANS:
        return bent_in_jax(_gaussian(_GAUSSIANS[name]), 0.0, 1.0)
    dim, jax = _LOGISTIC[name], require("jax")
    x, y = examples.logistic_data(dim)

    def log_density(beta: Any) -> Any:
        eta = jax.numpy.asarray(x) @ beta
        likelihood = eta @ jax.numpy.asarray(y) - jax.numpy.logaddexp(0.0, eta).sum()
        return likelihood - 0.5 * (beta @ beta)

    return from_jax(log_density, dim)
