"""A thousand parameters in JAX: the rate of events on every day of three years.

    python examples/thousand_parameters.py --picture thousand-parameters.png

Counts of each day are Poisson; the logarithm of their rate is a random walk with known steps, and
the steps are the parameters. The Gaussian has all correlations of the thousand.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import scorevi

STEP = 0.06


def data(days: int) -> tuple[np.ndarray, np.ndarray]:
    """Simulate a rate with a jump in it, and counts."""
    time = np.arange(days) / 365
    rate = 12 * np.exp(0.5 * np.sin(2 * np.pi * time) - 0.7 * (time > 1.6) + 0.2 * time)
    return rate, np.random.default_rng(0).poisson(rate)


def picture(fit: scorevi.Fit, rate: np.ndarray, counts: np.ndarray, path: Path) -> None:
    """Draw the rate with its band, and the correlations of the first days."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(10.5, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2.2, 1])
    draws = np.exp(fit.draws(1000, seed=1)["log_rate"])
    days = np.arange(len(counts))
    left.plot(days, counts, ".", color="#d9a27a", markersize=3, label="counts")
    left.fill_between(
        days, *np.quantile(draws, [0.05, 0.95], axis=0), color="#0072b2", alpha=0.35, linewidth=0
    )
    left.plot(days, np.median(draws, axis=0), color="#0072b2", lw=1.6, label="fit, 90 %")
    left.plot(days, rate, color="#222222", linestyle="--", lw=1.2, label="truth")
    left.set(xlabel="day", ylabel="events", ylim=(0, None))
    left.set_title(
        f"{fit.dim:,} parameters, {fit.num_gradients:,} gradients, verdict: {fit.verdict}", size=11
    )
    left.legend(frameon=False, ncols=3, fontsize=9)
    left.spines[["top", "right"]].set_visible(False)
    shown = right.imshow(np.corrcoef(np.log(draws[:, :100]).T), vmin=-1, vmax=1, cmap="RdBu_r")
    right.set(xlabel="day", ylabel="day")
    right.set_title("correlations of the first 100 days", size=11)
    figure.colorbar(shown, ax=right)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Simulate, fit and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("thousand-parameters.png"))
    parser.add_argument("--days", type=int, default=1000)
    arguments = parser.parse_args()
    rate, counts = data(arguments.days)

    def log_rate(steps):
        return 2.5 + jnp.cumsum(jnp.concatenate([steps[:1], STEP * steps[1:]]))

    def log_density(steps):
        path = log_rate(steps)
        return jnp.sum(counts * path - jnp.exp(path)) - 0.5 * steps @ steps

    target = scorevi.from_jax(
        log_density, arguments.days, derive=lambda steps: {"log_rate": log_rate(steps)}
    )
    fit = scorevi.fit(target, seed=0, max_gradients=20_000)
    print(fit)
    print(fit.check().explain())
    picture(fit, rate, counts, arguments.picture)
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
