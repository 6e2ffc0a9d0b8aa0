"""Logistic regression: a score in NumPy, a verdict, and what the fit predicts.

python examples/logistic_regression.py --picture logistic-regression.png
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import scorevi

TRUTH = np.array([0.5, 2.0, -1.5])


def data() -> tuple[np.ndarray, np.ndarray]:
    """Simulate 120 observations of two predictors; the first column is the intercept."""
    rng = np.random.default_rng(0)
    x = np.column_stack([np.ones(120), rng.standard_normal((120, 2))])
    return x, (rng.random(120) < 1 / (1 + np.exp(-x @ TRUTH))).astype(float)


def posterior(x: np.ndarray, y: np.ndarray) -> scorevi.targets.Target:
    """Return the posterior with N(0, 2.5²) priors. Points come in batches, (n, 3)."""

    def score(beta):
        return (y - 1 / (1 + np.exp(-beta @ x.T))) @ x - beta / 2.5**2

    def log_density(beta):
        link = beta @ x.T
        fitted = link @ y - np.logaddexp(0, link).sum(axis=1)
        return fitted - 0.5 * (beta**2).sum(axis=1) / 2.5**2

    return scorevi.from_function(score, 3, log_density, ["intercept", "height", "width"])


def picture(fit: scorevi.Fit, x: np.ndarray, y: np.ndarray, path: Path) -> None:
    """Draw the coefficients, and where the outcome is as likely as not."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(9.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    scorevi.plots.draw_pair(left, fit, "height", "width")
    left.plot(*TRUTH[1:], "P", color="#d55e00", markersize=11, label="what the data came from")
    left.legend(frameon=False, loc="lower left", fontsize=9)
    left.set_title(f"{fit.num_gradients} gradients, verdict: {fit.verdict}", size=11)
    side = np.linspace(-3, 3, 60)
    places = np.stack(np.meshgrid(side, side), axis=-1)
    draws = fit.sample(400, seed=1)
    link = draws[:, 0] + places @ draws[:, 1:].T
    chance = (1 / (1 + np.exp(-link))).mean(axis=-1)
    filled = right.contourf(side, side, chance, np.linspace(0, 1, 11), cmap="RdBu", alpha=0.75)
    figure.colorbar(filled, ax=right, label="chance of the outcome")
    for value, marker in ((0, "o"), (1, "^")):
        kept = y == value
        right.plot(*x[kept, 1:].T, marker, color="#222222", markersize=4, label=f"y = {value}")
    right.legend(loc="lower left", fontsize=9)
    right.set(xlabel="height", ylabel="width", xlim=(-3, 3), ylim=(-3, 3))
    right.set_title("what it predicts", size=11)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Fit, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("logistic-regression.png"))
    arguments = parser.parse_args()
    x, y = data()
    fit = scorevi.fit(posterior(x, y), seed=0)
    print(fit.check().explain())
    print(fit.summary)
    picture(fit, x, y, arguments.picture)
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
