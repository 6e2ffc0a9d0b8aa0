"""A Gaussian process: its length scale, its scale and the noise from the marginal likelihood.

    python examples/gaussian_process.py --picture gaussian-process.png

The values of the function are integrated out by hand, in JAX, so that three parameters are left.
Given a draw of them the function is normal again, and is drawn at new places. The verdict is not
quite content with the tails of the fit, so the draws are those of the posterior itself.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np
from jax.scipy.linalg import cho_solve

import scorevi

RNG = np.random.default_rng(3)
X = np.sort(RNG.uniform(0.0, 10.0, 40))
X = X[(X < 4.0) | (X > 5.5)]
NEW = np.linspace(-0.5, 10.5, 150)
NOISE = 0.25


def function(x: np.ndarray) -> np.ndarray:
    """Return what the data come from."""
    return np.sin(x) * np.exp(-x / 12) + 0.1 * x


Y = function(X) + NOISE * RNG.standard_normal(len(X))


def kernel(p, first, second):
    """Return the covariances of the function at two sets of places."""
    distance = (first[:, None] - second) / jnp.exp(p["log_length"])
    return jnp.exp(2 * p["log_scale"] - 0.5 * distance**2)


def factor(p):
    """Return the Cholesky factor of the covariance of the data."""
    return jnp.linalg.cholesky(kernel(p, X, X) + jnp.exp(2 * p["log_noise"]) * jnp.eye(len(X)))


def log_density(p):
    """Return the log marginal likelihood and the priors."""
    root = factor(p)
    white = jnp.linalg.solve(root, Y)
    priors = (p["log_length"] - 0.5) ** 2 + p["log_scale"] ** 2 + (p["log_noise"] + 1) ** 2
    return -0.5 * white @ white - jnp.sum(jnp.log(jnp.diag(root))) - 0.5 * priors


def mean_and_sd(p):
    """Return those of the function at new places, given the parameters and the data."""
    across, root = kernel(p, NEW, X), factor(p)
    mean = across @ cho_solve((root, True), Y)
    explained = jnp.sum(across * cho_solve((root, True), across.T).T, axis=1)
    return {"mean": mean, "sd": jnp.sqrt(jnp.maximum(jnp.exp(2 * p["log_scale"]) - explained, 0.0))}


def picture(fit: scorevi.Fit, sample: scorevi.Sample, path: Path) -> None:
    """Draw the function with its bands, and two of the parameters."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(10.0, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[1.9, 1])
    draws = sample.draws()
    noise = np.random.default_rng(2).standard_normal((len(draws["mean"]), 1))
    values = draws["mean"] + draws["sd"] * noise
    for low, high, alpha in ((0.05, 0.95, 0.2), (0.25, 0.75, 0.35)):
        band = np.quantile(values, [low, high], axis=0)
        left.fill_between(NEW, *band, color="#0072b2", alpha=alpha, linewidth=0)
    left.plot(NEW, np.median(values, axis=0), color="#0072b2", lw=2, label="50 and 90 %")
    left.plot(NEW, function(NEW), color="#222222", linestyle="--", label="truth")
    left.plot(X, Y, "o", color="#d55e00", markersize=4, label="data")
    left.set(xlabel="x", ylabel="f(x)")
    left.set_title(f"fit: {fit.verdict}; draws of the posterior: {sample.check()}", size=11)
    left.legend(frameon=False, fontsize=9, loc="upper left")
    reference = {name: draws[name] for name in ("log_length", "log_scale")}
    scorevi.plots.draw_pair(right, fit, "log_length", "log_scale", reference=reference)
    right.set_title("lines: fit; dots: posterior", size=11)
    left.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Fit and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("gaussian-process.png"))
    arguments = parser.parse_args()
    example = {"log_length": 0.0, "log_noise": 0.0, "log_scale": 0.0}
    target = scorevi.from_jax(log_density, example, derive=mean_and_sd)
    fit = scorevi.fit(target, seed=0)
    print(fit)
    print(fit.check().explain())
    sample = scorevi.sample(fit, seed=0)
    print(sample)
    print(sample.check().explain())
    picture(fit, sample, arguments.picture)
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
