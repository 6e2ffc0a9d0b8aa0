"""Targets whose answers are known, from harmless to hopeless, to try the verdict on."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Target
from scorevi.targets.function import from_function
from scorevi.targets.synthetic import (
    funnel,
    gaussian,
    logistic_regression,
    random_gaussian,
    sinh_arcsinh,
)

_SAMPLES = 200_000


class Moments(NamedTuple):
    """Marginal means and standard deviations of the unconstrained parameters."""

    mean: Array
    sd: Array


class Animal(NamedTuple):
    """A target and what is true of it."""

    target: Target
    truth: Moments | None
    """None where there is no posterior, so that no fit can be right."""


def zoo() -> dict[str, Callable[[], Animal]]:
    """Return ways to make all targets, by name."""
    makers: dict[str, Callable[[], Animal]] = {}
    for dim, condition in ((1, 1.0), (2, 10.0), (10, 1e4), (50, 100.0)):
        makers[f"Gaussian, D = {dim}, condition {condition:g}"] = _gaussian(dim, condition)
    for skew, tail in ((0.2, 1), (0.5, 1), (1, 1), (1.8, 1), (0, 0.8), (0, 0.5), (0, 0.1)):
        makers[f"sinh-arcsinh, skew {skew}, tail {tail}"] = _sinh_arcsinh(skew, tail)
    for freedom in (30, 10, 4):
        makers[f"Student t, {freedom} degrees of freedom"] = _student(freedom)
    makers |= {
        "logistic regression, D = 5": _logistic,
        "funnel, scale 0.5": _funnel(0.5),
        "funnel, scale 1": _funnel(1.0),
        "Neal's funnel": _funnel(3.0),
        "banana": _banana,
        "two modes, 50 : 50": _mixture(0.5, 10.0),
        "two modes, 90 : 10": _mixture(0.9, 10.0),
        "two modes that touch, 50 : 50": _mixture(0.5, 4.0),
        "ring": _ring,
        "hard boundary": _truncated(np.inf),
        "NaN half-space": _truncated(np.nan),
        "improper in one direction": _improper,
        "constant log density": _constant,
    }
    return makers


def _moments(samples: Array) -> Moments:
    return Moments(samples.mean(axis=0), samples.std(axis=0))


def _gaussian(dim: int, condition: float) -> Callable[[], Animal]:
    def make() -> Animal:
        p = random_gaussian(dim, condition, seed=1)
        return Animal(gaussian(p.mean, p.covariance), Moments(p.mean, p.sd))

    return make


def _sinh_arcsinh(skew: float, tail: float) -> Callable[[], Animal]:
    def make() -> Animal:
        base = random_gaussian(5, 5.0, seed=2)
        samples = np.sinh((np.arcsinh(base.sample(_SAMPLES, 0)) + skew) / tail)
        return Animal(sinh_arcsinh(base, skew, tail), _moments(samples))

    return make


def _student(freedom: float) -> Callable[[], Animal]:
    def make() -> Animal:
        def score(x: Array) -> Array:
            return np.asarray(-(freedom + 1) * x / (freedom + x**2))

        def log_density(x: Array) -> Array:
            return np.asarray(-0.5 * (freedom + 1) * np.log1p(x**2 / freedom).sum(axis=1))

        sd = np.full(5, np.sqrt(freedom / (freedom - 2)))
        return Animal(from_function(score, 5, log_density, batched=True), Moments(np.zeros(5), sd))

    return make


def _logistic() -> Animal:
    """Its truth comes from importance sampling with a wide Gaussian, 200,000 draws."""
    from scorevi.fit import fit

    target = logistic_regression(5, 200)
    q = fit(target, family="gaussian").q.coordinates.scaled(1.3)
    theta = q.sample(_SAMPLES, 0)
    log_density = target.evaluate(theta).log_density
    assert log_density is not None
    log_weight = log_density - q.log_density(theta)
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    mean = weight @ theta
    return Animal(target, Moments(mean, np.sqrt(weight @ (theta - mean) ** 2)))


def _funnel(scale: float) -> Callable[[], Animal]:
    def make() -> Animal:
        sd = np.array([scale, *[np.exp(scale**2 / 4)] * 4])
        return Animal(funnel(5, scale), Moments(np.zeros(5), sd))

    return make


def _banana() -> Animal:
    """X ~ N(0, 2²) and y ~ N(x²/2, 1)."""

    def score(theta: Array) -> Array:
        x, y = theta.T
        off = y - 0.5 * x**2
        return np.column_stack([-x / 4 + off * x, -off])

    def log_density(theta: Array) -> Array:
        x, y = theta.T
        return np.asarray(-(x**2) / 8 - 0.5 * (y - 0.5 * x**2) ** 2)

    truth = Moments(np.array([0.0, 2.0]), np.array([2.0, np.sqrt(0.25 * 32 + 1)]))
    return Animal(from_function(score, 2, log_density, ["x", "y"], batched=True), truth)


def _mixture(share: float, apart: float) -> Callable[[], Animal]:
    def make() -> Animal:
        centres = np.array([[0.0, 0.0], [apart, 0.0]])
        log_share = np.log([share, 1 - share])

        def terms(x: Array) -> Array:
            return np.asarray(log_share - 0.5 * ((x[:, None] - centres) ** 2).sum(axis=2))

        def log_density(x: Array) -> Array:
            return np.asarray(np.logaddexp.reduce(terms(x), axis=1))

        def score(x: Array) -> Array:
            part = terms(x)
            weight = np.exp(part - np.logaddexp.reduce(part, axis=1)[:, None])
            return np.asarray(weight @ centres - x)

        between = share * (1 - share) * apart**2
        truth = Moments(np.array([(1 - share) * apart, 0.0]), np.sqrt([1.0 + between, 1.0]))
        return Animal(from_function(score, 2, log_density, batched=True), truth)

    return make


def _ring() -> Animal:
    """Return a circle of radius 3 and width 0.3, uniform in the angle."""

    def log_density(x: Array) -> Array:
        radius = np.linalg.norm(x, axis=1)
        return np.asarray(-0.5 * ((radius - 3) / 0.3) ** 2)

    def score(x: Array) -> Array:
        radius = np.linalg.norm(x, axis=1)[:, None]
        return np.asarray(-(radius - 3) / 0.09 * x / radius)

    grid = np.linspace(1e-3, 6, 20_000)
    weight = grid * np.exp(-0.5 * ((grid - 3) / 0.3) ** 2)
    sd = np.sqrt((weight @ grid**2) / weight.sum() / 2)
    truth = Moments(np.zeros(2), np.array([sd, sd]))
    return Animal(from_function(score, 2, log_density, batched=True), truth)


def _truncated(outside: float) -> Callable[[], Animal]:
    """Return how to make a normal in two dimensions of which the first must be positive."""

    def make() -> Animal:
        def log_density(x: Array) -> Array:
            return np.where(x[:, 0] > 0, -0.5 * (x**2).sum(axis=1), -outside)

        def score(x: Array) -> Array:
            return np.where(x[:, :1] > 0, -x, np.nan if np.isnan(outside) else 0.0)

        mean = np.sqrt(2 / np.pi)
        truth = Moments(np.array([mean, 0.0]), np.array([np.sqrt(1 - mean**2), 1.0]))
        return Animal(from_function(score, 2, log_density, batched=True), truth)

    return make


def _improper() -> Animal:
    def score(x: Array) -> Array:
        return x * [-1.0, 0.0]

    def log_density(x: Array) -> Array:
        return np.asarray(-0.5 * x[:, 0] ** 2)

    return Animal(from_function(score, 2, log_density, batched=True), None)


def _constant() -> Animal:
    def log_density(x: Array) -> Array:
        return np.zeros(len(x))

    return Animal(from_function(np.zeros_like, 2, log_density, batched=True), None)
