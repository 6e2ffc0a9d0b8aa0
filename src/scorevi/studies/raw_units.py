"""Linear regressions in the units that the data come in, with simulated data.

Years and incomes beside shares: standard deviations of parameters from 1e-4 to 1e4, correlated with
the intercept to the third decimal. Priors are flat, the residual scale is by its logarithm.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Gaussian
from scorevi.targets.function import FunctionTarget, from_function


class Regression(NamedTuple):
    """A target, and a Gaussian close to its posterior to look for the best one from."""

    target: FunctionTarget
    close: Gaussian


def regressions() -> dict[str, Regression]:
    """Return all of them, by name; the number is that of the parameters."""
    rng = np.random.default_rng(5)
    found = {}
    n = 400
    score = rng.normal(100, 15, n)
    found["test-scores-3"] = _regression([score], 26 + 0.6 * score + rng.normal(0, 18, n))
    n = 1200
    height = rng.normal(66, 4, n)
    tall = (height > 67).astype(float)
    income = -60_000 + 1300 * height + 8000 * tall + rng.normal(0, 19_000, n)
    found["incomes-3"] = _regression([height], income)
    found["incomes-5"] = _regression([height, tall, height * tall], income)
    n = 100
    distance, arsenic = rng.exponential(50, n), rng.gamma(2, 0.6, n)
    outcome = 12 + 0.02 * distance - 0.5 * arsenic + rng.normal(0, 3, n)
    found["wells-5"] = _regression([distance, arsenic, distance * arsenic], outcome)
    n = 46
    sizes = [rng.lognormal(middle, 0.5, n) for middle in (1, 3, 0.5, 6, -2)]
    weight = 50 + np.array([20, 3, 100, 0.5, 300]) @ sizes + rng.normal(0, 100, n)
    found["bushes-7"] = _regression(sizes, weight)
    n = 300
    columns = [
        rng.normal(1990, 8, n),
        rng.uniform(0, 1e-3, n),
        rng.normal(0, 1e3, n),
        (rng.uniform(size=n) < 0.1).astype(float),
        rng.normal(5, 0.01, n),
        rng.exponential(1e4, n),
    ]
    outcome = 3 + np.array([0.1, 2e3, 1e-2, 4, 1, 1e-4]) @ columns + rng.normal(0, 2, n)
    found["all-units-8"] = _regression(columns, outcome)
    return found


def _regression(columns: list[Array], outcome: Array) -> Regression:
    design = np.column_stack([np.ones(len(outcome)), *columns])
    count, dim = design.shape

    def parts(theta: Array) -> tuple[Array, Array]:
        return outcome[:, None] - design @ theta[:, :-1].T, np.exp(-2 * theta[:, -1])

    def score(theta: Array) -> Array:
        left, precision = parts(theta)
        slopes = (design.T @ left).T * precision[:, None]
        return np.column_stack([slopes, (left**2).sum(axis=0) * precision - count])

    def log_density(theta: Array) -> Array:
        left, precision = parts(theta)
        return np.asarray(-count * theta[:, -1] - 0.5 * (left**2).sum(axis=0) * precision)

    ortho, upper = np.linalg.qr(design)
    slopes = np.linalg.solve(upper, ortho.T @ outcome)
    sd = float(np.sqrt(np.mean((outcome - design @ slopes) ** 2)))
    factor = np.zeros((dim + 1, dim + 1))
    factor[:-1, :-1] = sd * np.linalg.inv(upper)
    factor[-1, -1] = (2 * count) ** -0.5
    target = from_function(score, dim + 1, log_density, batched=True)
    return Regression(target, Gaussian(np.append(slopes, np.log(sd)), factor))
