"""Tall data: a logistic regression whose rows lie in many files, fitted where they lie.

    python examples/tall_data.py                                  # processes on this machine
    python examples/tall_data.py --scheduler tcp://10.0.0.1:8786   # a cluster that sees the files

Each file is a shard. A worker opens it there, and keeps it; per step the points go out and the sum
of scores comes back. The data never meet in one process.
"""

from __future__ import annotations

import argparse
import functools
import tempfile
import time
from pathlib import Path

import numpy as np

import scorevi

DIM = 8
SLOPES = np.linspace(-1.0, 1.0, DIM)


def write_files(folder: Path, files: int, rows: int) -> list[Path]:
    """Simulate the data: a design and outcomes, as NumPy files of so many rows."""
    paths = []
    for number in range(files):
        rng = np.random.default_rng([0, number])
        design = rng.standard_normal((rows, DIM))
        outcome = rng.random(rows) < 1.0 / (1.0 + np.exp(-design @ SLOPES))
        paths.append(folder / f"part-{number}.npz")
        np.savez(paths[-1], design=design, outcome=outcome)
    return paths


def shard(path: Path) -> scorevi.targets.Target:
    """Return the log likelihood of one file; runs on the worker that will hold it."""
    with np.load(path) as file:
        design, outcome = file["design"], file["outcome"].astype(float)

    def score(beta: np.ndarray) -> np.ndarray:
        return (outcome - 1.0 / (1.0 + np.exp(-beta @ design.T))) @ design

    def log_density(beta: np.ndarray) -> np.ndarray:
        link = beta @ design.T
        return link @ outcome - np.logaddexp(0.0, link).sum(axis=1)

    return scorevi.from_function(score, DIM, log_density, batched=True)


def picture(fit: scorevi.Fit, rows: int, path: Path) -> None:
    """Draw the slopes around what the data came from, magnified."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7.5, 3.2), layout="constrained")
    axes = figure.subplots()
    off, sd = 1000 * (fit.mean - SLOPES), 1000 * fit.q.sd
    axes.axhline(0.0, color="#222222", linestyle="--", linewidth=1, label="what the data came from")
    axes.errorbar(np.arange(DIM), off, 2 * sd, fmt="o", color="#0072b2", label="fit, mean and 2 sd")
    axes.set(xticks=np.arange(DIM), xticklabels=fit.labels, ylabel="slope, off by thousandths")
    axes.set_title(f"{rows:,} rows, {fit.num_gradients} gradients, verdict: {fit.verdict}", size=11)
    axes.legend(frameon=False, ncols=2, fontsize=9)
    axes.margins(y=0.25)
    axes.spines[["top", "right"]].set_visible(False)
    figure.savefig(path, dpi=150)


def main() -> None:
    """Write the files, fit, print and draw."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--scheduler", help="the address of a Dask scheduler")
    parser.add_argument("--files", type=int, default=8)
    parser.add_argument("--rows", type=int, default=25_000, help="rows of each file")
    parser.add_argument("--picture", type=Path, default=Path("tall-data.png"))
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        paths = write_files(Path(folder), arguments.files, arguments.rows)
        target = scorevi.from_shards(
            [functools.partial(shard, path) for path in paths],
            DIM,
            prior=scorevi.Gaussian.standard(DIM),
            client=arguments.scheduler,
            names="beta",
        )
        with target:  # the workers keep the files for the fit and for its verdict
            began = time.perf_counter()
            fit = scorevi.fit(target, seed=0)
            print(fit)
            print(fit.check().explain())
            print(f"{arguments.files * arguments.rows:,} rows, {time.perf_counter() - began:.1f} s")
        for row in fit.summary:
            print(f"{row.name}  {row.mean:7.4f} +- {row.sd:.4f}")
        picture(fit, arguments.files * arguments.rows, arguments.picture)
        print(f"picture: {arguments.picture}")


if __name__ == "__main__":
    main()
