"""Log densities that the models are written with, up to constants.

Scales and precisions are parameters by their logarithm. What is named after a distribution of a
positive number takes that logarithm, and has the log Jacobian in it.
"""

from __future__ import annotations

from typing import Any

import jax.numpy as jnp
from jax.scipy.special import gammaln


def normal(x: Any, mean: Any = 0.0, sd: Any = 1.0) -> Any:
    """Sum over the entries of log N(x | mean, sd²)."""
    return (-0.5 * ((x - mean) / sd) ** 2 - jnp.log(sd)).sum()


def half_normal(log_x: Any, scale: float = 1.0) -> Any:
    """Sum over x ~ half-normal(scale), on the scale of log x."""
    return (log_x - 0.5 * jnp.exp(2.0 * (log_x - jnp.log(scale)))).sum()


def half_cauchy(log_x: Any, scale: float = 1.0) -> Any:
    """Sum over x ~ half-Cauchy(scale), on the scale of log x."""
    return (log_x - jnp.logaddexp(0.0, 2.0 * (log_x - jnp.log(scale)))).sum()


def gamma(log_x: Any, shape: float, rate: float) -> Any:
    """Sum over x ~ gamma(shape, rate), on the scale of log x."""
    return (shape * log_x - rate * jnp.exp(log_x)).sum()


def inverse_gamma(log_x: Any, shape: float, scale: float) -> Any:
    """Sum over x ~ inverse gamma(shape, scale), on the scale of log x."""
    return (-shape * log_x - scale * jnp.exp(-log_x)).sum()


def binomial_logit(successes: Any, trials: Any, logit: Any) -> Any:
    """Sum over binomial counts, given the logit of their rates."""
    return (successes * logit - trials * jnp.logaddexp(0.0, logit)).sum()


def poisson_log(count: Any, log_rate: Any) -> Any:
    """Sum over Poisson counts, given the logarithm of their rates."""
    return (count * log_rate - jnp.exp(log_rate) - gammaln(count + 1.0)).sum()
