"""A fit that starts and preconditions NUTS: a regression in raw units, with and without.

    python examples/warm_nuts.py --picture warm-nuts.png

Income in dollars, age in years and a share: the posterior's widths differ by four orders of
magnitude. NUTS has to find that out in its warm-up, or is told by a fit.
"""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Any

import numpy as np

import scorevi

NAMES = ["intercept", "per year", "per share", "log_noise"]


def posterior() -> scorevi.targets.Target:
    """Return the posterior of a regression on simulated people, flat but for wide priors."""
    rng = np.random.default_rng(0)
    age, share = rng.uniform(20, 70, 300), rng.uniform(0, 0.05, 300)
    x = np.column_stack([np.ones(300), age, share])
    y = x @ [12_000.0, 450.0, -90_000.0] + 6_000.0 * rng.standard_normal(300)

    def parts(theta):
        off = y - theta[:, :3] @ x.T
        return off, np.exp(-2 * np.maximum(theta[:, 3], -100.0))

    def score(theta):
        off, precision = parts(theta)
        slopes = precision[:, None] * (off @ x) - theta[:, :3] / 1e6**2
        noise = precision * (off**2).sum(axis=1) - len(y) - (theta[:, 3] - 8) / 9
        return np.column_stack([slopes, noise])

    def log_density(theta):
        off, precision = parts(theta)
        fitted = -0.5 * precision * (off**2).sum(axis=1) - len(y) * theta[:, 3]
        prior = (theta[:, :3] ** 2).sum(axis=1) / 1e6**2 + (theta[:, 3] - 8) ** 2 / 9
        return fitted - 0.5 * prior

    return scorevi.from_function(score, 4, log_density, NAMES, batched=True)


def run(model: Any, tune: int, draws: int) -> tuple[np.ndarray, np.ndarray, float]:
    """Return gradients so far and a slope along the first chain, and the least effective sample."""
    import arviz
    import nutpie

    trace = nutpie.sample(
        **model, tune=tune, draws=draws, cores=1, seed=1, progress_bar=False, save_warmup=True
    )
    steps = [np.asarray(one["n_steps"]) for one in (trace.warmup_sample_stats, trace.sample_stats)]
    spent = np.cumsum(np.concatenate(steps, axis=1)[0])
    slope = np.concatenate(
        [trace.warmup_posterior["per year"], trace.posterior["per year"]], axis=1
    )
    least = min(float(one.min()) for one in arviz.ess(trace).data_vars.values())
    return spent, slope[0], 1000 * least / sum(int(one.sum()) for one in steps)


def main() -> None:
    """Fit, sample twice, and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--picture", type=Path, default=Path("warm-nuts.png"))
    parser.add_argument("--draws", type=int, default=500, help="of each chain")
    arguments = parser.parse_args()
    target = posterior()
    fit = scorevi.fit(target, seed=0)
    print(fit)
    print(fit.check().explain())
    # The same model twice: in the coordinates of the fit, and of the standard normal.
    told = fit.to_mcmc("nutpie", chains=4, seed=0).form
    runs = {
        "with the fit": run(told, 100, arguments.draws),
        "without": run(plain(target), 400, arguments.draws),
    }
    picture(fit, runs, arguments.picture)
    for name, (_, _, rate) in runs.items():
        print(f"{name}: {rate:.1f} effective draws per 1,000 gradients")
    print(f"picture: {arguments.picture}")


def plain(target: scorevi.targets.Target) -> dict[str, Any]:
    """Return the model as nutpie takes it, from starts of its own."""
    from nutpie.compiled_pyfunc import from_pyfunc

    def log_density_and_score(theta: np.ndarray) -> tuple[float, np.ndarray]:
        score, value, _ = target.evaluate(theta[None])
        return float(value[0]), np.array(score[0])

    model = from_pyfunc(
        4,
        lambda: log_density_and_score,
        lambda *_: lambda theta: dict(zip(NAMES, theta[:, None], strict=True)),
        [np.dtype(np.float64)] * 4,
        [(1,)] * 4,
        NAMES,
    )
    return {"compiled_model": model, "chains": 4}


def picture(fit: scorevi.Fit, runs: dict[str, Any], path: Path) -> None:
    """Draw both chains against gradients, and what a gradient is worth."""
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(10.0, 3.6), layout="constrained")
    left, right = figure.subplots(1, 2, width_ratios=[2.2, 1])
    colours = {"with the fit": "#0072b2", "without": "#d55e00"}
    for name, (spent, slope, _) in reversed(runs.items()):
        left.plot(spent, np.ravel(slope), color=colours[name], lw=0.9, label=name)
    number = fit.labels.index("per year")
    middle, width = fit.mean[number], fit.q.sd[number]
    left.axhspan(middle - 2 * width, middle + 2 * width, color="#d9d9d9", zorder=0)
    left.set(xscale="log", xlabel="gradients of the chain", ylabel="dollars per year of age")
    left.set_title("one chain from its first step; grey: the fit's 95 %", size=11)
    left.legend(frameon=False, fontsize=9)
    names = list(runs)
    bars = right.bar(names, [runs[name][2] for name in names], color=[colours[n] for n in names])
    right.bar_label(bars, fmt="%.0f")
    right.set_title("effective draws per 1,000 gradients", size=11)
    right.set_yticks([])
    for axes in (left, right):
        axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
