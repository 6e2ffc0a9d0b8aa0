"""Lotka–Volterra in Stan: an ordinary differential equation, fitted to forty years of two species.

    python examples/lotka_volterra.py --picture lotka-volterra.png

Needs a C++ compiler for the Stan program, which comes with the package; the data are simulated.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np
from scipy.integrate import solve_ivp

import scorevi

PROGRAM = Path(scorevi.__file__).parent / "studies" / "models" / "lotka_volterra.stan"
TRUTH, FIRST, ERROR = (0.55, 0.028, 0.80, 0.024), (33.0, 6.0), 0.2


def data(years: int) -> dict[str, Any]:
    """Simulate prey and predators, seen with log-normal errors."""
    a, b, c, d = TRUTH
    solved = solve_ivp(
        lambda _, z: [(a - b * z[1]) * z[0], (d * z[0] - c) * z[1]],
        (0, years),
        FIRST,
        t_eval=np.arange(years + 1),
        rtol=1e-8,
    )
    seen = solved.y.T * np.exp(ERROR * np.random.default_rng(2).standard_normal((years + 1, 2)))
    return {"N": years, "ts": np.arange(1.0, years + 1), "y_init": seen[0], "y": seen[1:]}


def picture(fit: scorevi.Fit, seen: dict[str, Any], path: Path) -> None:
    """Draw the two species with their bands, and the rates with what they were."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(10.5, 3.8), layout="constrained")
    left, *right = figure.subplots(1, 3, width_ratios=[2.4, 1, 1])
    draws = fit.draws(1000, seed=1)
    for species, (name, colour) in enumerate((("prey", "#0072b2"), ("predators", "#d55e00"))):
        low, middle, high = np.quantile(draws["z"][:, :, species], [0.05, 0.5, 0.95], axis=0)
        left.fill_between(seen["ts"], low, high, color=colour, alpha=0.25, linewidth=0)
        left.plot(seen["ts"], middle, color=colour, lw=1.8, label=name)
        left.plot(seen["ts"], seen["y"][:, species], "o", color=colour, markersize=4)
    left.set(xlabel="year", ylabel="thousands", ylim=(0, None))
    left.set_title(f"{fit.num_gradients} gradients, verdict: {fit.verdict}", size=11)
    left.legend(frameon=False, ncols=2)
    rates = ((0, "growth of prey"), (2, "death of predators"))
    for axes, (number, name) in zip(right, rates, strict=True):
        axes.hist(draws["theta"][:, number], 30, color="#8fbfdc")
        axes.axvline(TRUTH[number], color="#222222", linestyle="--", label="truth")
        axes.set(xlabel=name, yticks=[])
        axes.legend(frameon=False, fontsize=9)
    for axes in (left, *right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Simulate, compile, fit and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("lotka-volterra.png"))
    parser.add_argument("--years", type=int, default=40)
    arguments = parser.parse_args()
    seen = data(arguments.years)
    fit = scorevi.fit(scorevi.from_stan(PROGRAM, seen), seed=0)
    print(fit)
    print(fit.check().explain())
    picture(fit, seen, arguments.picture)
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
