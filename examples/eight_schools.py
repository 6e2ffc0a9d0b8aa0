"""Eight schools, centered: why one Gaussian fails, how the verdict says so, and what passes.

    python examples/eight_schools.py --picture eight-schools.png

The effects of eight schools are normal around a common mean, with a scale tau that may be near
zero. Where it is, all of them are close together: the posterior has a funnel, which no Gaussian
has. The default fit finds by itself that the posterior is Gaussian given log tau. Beside it NUTS,
by nutpie, on the non-centered form, which has no funnel.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import jax.numpy as jnp
import numpy as np

import scorevi

EFFECT = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERROR = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def log_density(p):
    """Return the log joint: tau has a half-Cauchy prior, and its logarithm is the parameter."""
    tau = jnp.exp(p["log_tau"])
    prior = -0.5 * (p["mu"] / 5) ** 2 - jnp.log1p((tau / 5) ** 2) + p["log_tau"]
    schools = -0.5 * jnp.sum(((p["theta"] - p["mu"]) / tau) ** 2) - 8 * p["log_tau"]
    return prior + schools - 0.5 * jnp.sum(((EFFECT - p["theta"]) / ERROR) ** 2)


def nuts(draws: int) -> tuple[np.ndarray, int]:
    """Return draws of log tau and theta[0] by NUTS, (2, n), and what they cost in gradients."""
    import nutpie
    from nutpie.compiled_pyfunc import from_pyfunc

    target = scorevi.examples.eight_schools()

    def log_density_and_score(theta: np.ndarray) -> tuple[float, np.ndarray]:
        score, value, _ = target.evaluate(theta[None])
        return float(value[0]), np.array(score[0])

    model = from_pyfunc(
        target.dim,
        lambda: log_density_and_score,
        lambda *_: lambda theta: {"theta": theta},
        [np.dtype(np.float64)],
        [(target.dim,)],
        ["theta"],
    )
    trace = nutpie.sample(model, draws=draws, cores=1, seed=1, progress_bar=False, save_warmup=True)
    groups = trace.warmup_sample_stats, trace.sample_stats
    theta = np.asarray(trace.posterior["theta"]).reshape(-1, target.dim)
    first = theta[:, 8] + np.exp(theta[:, 9]) * theta[:, 0]
    return np.stack([theta[:, 9], first]), sum(int(one["n_steps"].sum()) for one in groups)


def picture(fits: dict[str, scorevi.Fit], draws: np.ndarray, gradients: int, path: Path) -> None:
    """Draw the funnel under each fit, and log tau."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(11.0, 3.7), layout="constrained")
    axes = figure.subplots(1, 3, width_ratios=[1, 1, 1.15])
    reference = {"log_tau": draws[0], "theta[0]": draws[1]}
    colours = {"one Gaussian": "#0072b2", "the default": "#009e73"}
    for part, (name, fit) in zip(axes, fits.items(), strict=False):
        theta = fit.sample(1500, seed=1)
        ours = {label: theta[:, fit.labels.index(label)] for label in reference}
        for values, colour, label in ((reference, "#d55e00", "NUTS"), (ours, colours[name], name)):
            shown = [values[key][-1500:] for key in ("theta[0]", "log_tau")]
            part.plot(*shown, ".", color=colour, markersize=2.5, alpha=0.35, label=label)
        part.legend(frameon=False, fontsize=9, loc="upper left", markerscale=4)
        part.set(xlim=(-22, 42), ylim=(-4.6, 5.4), xlabel="effect of school A", ylabel="log tau")
        part.set_title(f"{name}: {fit.num_gradients:,} gradients\nverdict: {fit.verdict}", size=11)
    grid = np.linspace(-4.6, 4.6, 47)
    part = axes[2]
    part.hist(draws[0], grid, density=True, color="#d55e00", alpha=0.25, label="NUTS")
    for name, fit in fits.items():
        theta = fit.sample(20_000, seed=2)[:, fit.labels.index("log_tau")]
        height, _ = np.histogram(theta, grid, density=True)
        part.plot((grid[1:] + grid[:-1]) / 2, height, color=colours[name], lw=2.2, label=name)
    part.set(xlabel="log tau", yticks=[])
    part.set_title(f"NUTS: {gradients:,} gradients\nof the form without a funnel", size=11)
    part.legend(frameon=False, fontsize=9, loc="upper left")
    for one in axes:
        one.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Fit twice, print both verdicts, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("eight-schools.png"))
    parser.add_argument("--draws", type=int, default=1500, help="of each chain of NUTS")
    arguments = parser.parse_args()
    example = {"log_tau": 0.0, "mu": 0.0, "theta": np.zeros(8)}
    target = scorevi.from_jax(log_density, example)
    fits = {
        "one Gaussian": scorevi.fit(target, family="gaussian", seed=0),
        "the default": scorevi.fit(target, seed=0),
    }
    for name, fit in fits.items():
        print(f"{name}: {fit}\n{fit.check().explain()}\n")
    picture(fits, *nuts(arguments.draws), arguments.picture)
    print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
