"""Targets with known answers, for demonstrations, tests and studies. All plain NumPy."""

from __future__ import annotations

import numpy as np
import scipy.special
from numpy.typing import ArrayLike

from scorevi.base.arrays import Array, Seed, as_count
from scorevi.base.linalg import times_rows
from scorevi.base.target import Target
from scorevi.families import Gaussian
from scorevi.targets.function import FunctionTarget, from_function


def gaussian(mean: ArrayLike, covariance: ArrayLike) -> FunctionTarget:
    """Return a Gaussian target with the given moments."""
    q = Gaussian.from_moments(mean, covariance)
    half = np.linalg.inv(q.cholesky)
    precision = half.T @ half

    def score(theta: Array) -> Array:
        return np.asarray(times_rows(precision, q.mean - theta))

    def log_density(theta: Array) -> Array:
        white = times_rows(half, theta - q.mean)
        return np.asarray(-0.5 * np.vecdot(white, white))

    return from_function(score, q.dim, log_density, batched=True, thread_safe=True)


def random_gaussian(dim: int, condition: float = 40.0, seed: Seed = 0) -> Gaussian:
    """Return a Gaussian of random mean and orientation and a given condition number.

    The eigenvalues of its covariance are spaced evenly on the log scale around 1.
    """
    rng = np.random.default_rng(seed)
    dim = as_count("dim", dim)
    rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
    half_range = 0.25 * np.log(condition)
    log_sd = np.linspace(-half_range, half_range, dim) if dim > 1 else np.zeros(1)
    return Gaussian(rng.standard_normal(dim), rotation * np.exp(log_sd), float(log_sd.sum()))


def sinh_arcsinh(base: Gaussian, skew: float = 0.0, tail: float = 1.0) -> FunctionTarget:
    r"""Return the sinh-arcsinh normal of the GSM-VI paper's section 3.2.

    .. math:: x = \sinh((\sinh^{-1}(y) + s) / t), \qquad y \sim \text{base}

    Parameters
    ----------
    base
        The Gaussian that is bent.
    skew
        s; 0 leaves the symmetry as it is.
    tail
        t; 1 leaves the tails as they are, below 1 is heavier.
    """

    def bend(x: Array) -> tuple[Array, Array]:
        angle = tail * np.arcsinh(x) - skew
        return np.sinh(angle), np.cosh(angle)

    def score(x: Array) -> Array:
        y, cosh = bend(x)
        root = np.hypot(1.0, x)
        slope = cosh * tail / root
        tanh = y / cosh
        return np.asarray(base.score(y) * slope + tanh * tail / root - x / root**2)

    def log_density(x: Array) -> Array:
        y, cosh = bend(x)
        log_slope = np.log(cosh) + np.log(tail) - np.log(np.hypot(1.0, x))
        return np.asarray(base.log_density(y) + log_slope.sum(axis=-1))

    return from_function(score, base.dim, log_density, batched=True, thread_safe=True)


def funnel(dim: int = 10, scale: float = 3.0) -> FunctionTarget:
    """Return Neal's funnel: v ~ N(0, scale²), and dim − 1 values x ~ N(0, exp(v))."""
    dim = as_count("dim", dim)

    def score(theta: Array) -> Array:
        v, x = theta[:, :1], theta[:, 1:]
        shrunk = x * np.exp(-v)
        along = -v / scale**2 - 0.5 * (dim - 1) + 0.5 * np.vecdot(x, shrunk)[:, None]
        return np.concatenate([along, -shrunk], axis=1)

    def log_density(theta: Array) -> Array:
        v, x = theta[:, 0], theta[:, 1:]
        tail = 0.5 * np.exp(-v) * np.vecdot(x, x)
        return np.asarray(-0.5 * (v / scale) ** 2 - 0.5 * (dim - 1) * v - tail)

    names: dict[str, int | tuple[int, ...]] = {"v": (), "x": (dim - 1,)}
    return from_function(
        score, dim, log_density, names if dim > 1 else ["v"], batched=True, thread_safe=True
    )


EIGHT_SCHOOLS = {
    "effect": (28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0),
    "standard_error": (15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0),
}
"""Rubin (1981): estimated effect of coaching on test scores in eight schools."""


def eight_schools() -> Target:
    r"""Return the eight-schools posterior in its non-centered form.

    .. math:: \mu \sim N(0, 5), \quad \tau \sim \text{half-Cauchy}(0, 5), \quad
              \eta_j \sim N(0, 1), \quad y_j \sim N(\mu + \tau \eta_j, \sigma_j)

    The unconstrained vector is (η₁…η₈, μ, log τ). Draws carry the school effects
    theta = mu + tau·eta.

    References
    ----------
    Rubin, D. B. (1981). Estimation in parallel randomized experiments. *Journal of Educational
    Statistics* 6, 377–401.
    """
    y = np.array(EIGHT_SCHOOLS["effect"])
    sigma = np.array(EIGHT_SCHOOLS["standard_error"])

    def parts(theta: Array) -> tuple[Array, Array, Array, Array]:
        eta, mu, tau = theta[:, :8], theta[:, 8:9], np.exp(theta[:, 9:10])
        return eta, mu, tau, (y - mu - tau * eta) / sigma**2

    def score(theta: Array) -> Array:
        eta, mu, tau, pull = parts(theta)
        # half-Cauchy(0, 5) on tau, times tau for the change of variables to log tau
        prior = 1.0 - 2.0 * tau**2 / (25.0 + tau**2)
        along_tau = tau * np.vecdot(pull, eta)[:, None] + prior
        along_mu = pull.sum(axis=1, keepdims=True) - mu / 25.0
        return np.concatenate([tau * pull - eta, along_mu, along_tau], axis=1)

    def log_density(theta: Array) -> Array:
        eta, mu, tau, pull = parts(theta)
        prior = -0.5 * mu[:, 0] ** 2 / 25.0 - np.log1p(tau[:, 0] ** 2 / 25.0) + theta[:, 9]
        likelihood = -0.5 * np.vecdot(pull * sigma, pull * sigma)
        return np.asarray(likelihood - 0.5 * np.vecdot(eta, eta) + prior)

    def constrain(theta: Array) -> dict[str, Array]:
        eta, mu, tau, _ = parts(theta)
        return {"mu": mu[:, 0], "tau": tau[:, 0], "theta": mu + tau * eta}

    names: dict[str, int | tuple[int, ...]] = {"eta": (8,), "mu": (), "log_tau": ()}
    return from_function(
        score, 10, log_density, names, constrain=constrain, batched=True, thread_safe=True
    )


def dense_base(dim: int = 10, seed: Seed = 0) -> Gaussian:
    """Return N(0, A Aᵀ/D + 0.1·I) with standard normal A: the dense base of the paper's studies."""
    dim = as_count("dim", dim)
    root = np.random.default_rng(seed).standard_normal((dim, dim))
    return Gaussian.from_moments(np.zeros(dim), root @ root.T / dim + 0.1 * np.eye(dim))


def logistic_data(
    dim: int = 50, rows: int = 500, correlation: float = 0.5, seed: Seed = 0
) -> tuple[Array, Array]:
    """Return a design (rows, dim) and outcomes 0 or 1 for :func:`logistic_regression`.

    The columns of the design are standard normal with one correlation between all of them.
    """
    rng = np.random.default_rng(seed)
    mixing = np.linalg.cholesky(
        correlation * np.ones((dim, dim)) + (1.0 - correlation) * np.eye(dim)
    )
    x = rng.standard_normal((rows, dim)) @ mixing.T
    y = (rng.random(rows) < scipy.special.expit(x @ rng.standard_normal(dim))).astype(float)
    return x, y


def logistic_regression(
    dim: int = 50, rows: int = 500, correlation: float = 0.5, seed: Seed = 0
) -> FunctionTarget:
    """Return logistic regression on :func:`logistic_data`, with a standard normal prior."""
    x, y = logistic_data(dim, rows, correlation, seed)

    def score(beta: Array) -> Array:
        return np.asarray((y - scipy.special.expit(beta @ x.T)) @ x - beta)

    def log_density(beta: Array) -> Array:
        eta = beta @ x.T
        likelihood = eta @ y - np.logaddexp(0.0, eta).sum(axis=1)
        return np.asarray(likelihood - 0.5 * np.vecdot(beta, beta))

    return from_function(score, dim, log_density, {"beta": (dim,)}, batched=True, thread_safe=True)
