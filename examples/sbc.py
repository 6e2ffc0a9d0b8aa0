"""Simulation-based calibration: one model, a thousand data sets, and whether ranks are uniform.

    python examples/sbc.py                                        # processes on this machine
    python examples/sbc.py --scheduler tcp://10.0.0.1:8786

Draw parameters from the prior and data given them, fit, and count how many of 99 draws from the
posterior lie below the parameter that the data came from. Where the fit is the posterior, that
rank is uniform on 0, ..., 99 (Talts, Betancourt, Simpson, Vehtari and Gelman, arXiv 1804.06788).
The model is a linear regression with known noise, whose posterior is Gaussian, so that it must be.

The ranks of each parameter go into 20 bins and their χ² against uniform is compared with its
quantile; for all parameters together the test raises a false alarm once in a thousand times.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

import numpy as np
from scipy import stats

import scorevi

DIM, ROWS, NOISE = 3, 25, 0.7
DRAWS, BINS = 99, 20
FALSE_ALARMS = 1e-3


def simulate(seed: int) -> tuple[np.ndarray, dict[str, np.ndarray]]:
    """Return parameters from the prior, and data that come from them."""
    rng = np.random.default_rng([1, seed])
    slopes = rng.standard_normal(DIM)
    design = rng.standard_normal((ROWS, DIM))
    outcome = design @ slopes + NOISE * rng.standard_normal(ROWS)
    return slopes, {"design": design, "outcome": outcome}


def log_density(slopes, data):
    """Return the log joint. It takes the data as an argument: so it is compiled once for all."""
    off = (data["outcome"] - data["design"] @ slopes) / NOISE
    return -0.5 * off @ off - 0.5 * slopes @ slopes


def factory(seed: int) -> scorevi.targets.Target:
    """Return the posterior of the data of a seed."""
    _, data = simulate(seed)
    return scorevi.from_jax(log_density, DIM, data=data, names="slope")


def ranks_of(fits: scorevi.Fits) -> np.ndarray:
    """Return how many draws lie below the truth, (fits, parameters)."""
    ranks = []
    for seed, fit in fits.made():
        truth, _ = simulate(seed)
        ranks.append((fit.sample(DRAWS, seed=seed) < truth).sum(axis=0))
    return np.array(ranks)


def uniform(ranks: np.ndarray) -> np.ndarray:
    """Return the p-value of uniform ranks for each parameter."""
    counts = [np.histogram(column, BINS, (0, DRAWS + 1))[0] for column in ranks.T]
    return np.array([stats.chisquare(one).pvalue for one in counts])


def picture(ranks: np.ndarray, path: Path) -> None:
    """Draw the histograms, and the band in which all bars of a uniform one lie in 99 % of cases."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(3.2 * DIM, 2.6), layout="constrained")
    low, high = stats.binom.interval(1 - 0.01 / BINS, len(ranks), 1 / BINS)
    for number, axes in enumerate(figure.subplots(1, DIM, sharey=True)):
        axes.axhspan(low, high, color="0.88", zorder=0)
        axes.hist(ranks[:, number], BINS, range=(0, DRAWS + 1), color="tab:blue", rwidth=0.9)
        axes.set(xlabel=f"rank of slope[{number}] among {DRAWS} draws", ylim=(0, None))
    figure.suptitle(f"{len(ranks)} data sets of a conjugate regression", fontsize=10)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Fit, count, draw and decide."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--fits", type=int, default=1000)
    parser.add_argument("--out", type=Path, default=Path("sbc-fits"), help="a folder for the fits")
    parser.add_argument("--picture", type=Path, default=Path("sbc.png"))
    parser.add_argument("--scheduler", help="the address of a Dask scheduler")
    arguments = parser.parse_args()
    fits = scorevi.fit_many(
        factory, seeds=arguments.fits, out=arguments.out, client=arguments.scheduler
    )
    print(fits, f"{fits.num_computed} of them computed now")
    ranks = ranks_of(fits)
    chances = uniform(ranks)
    picture(ranks, arguments.picture)
    print("p-values of uniform ranks:", ", ".join(f"{chance:.3f}" for chance in chances))
    print(f"picture: {arguments.picture}")
    if fits.failures or chances.min() < FALSE_ALARMS / DIM:
        sys.exit("the ranks are not uniform, or fits failed")


if __name__ == "__main__":
    main()
