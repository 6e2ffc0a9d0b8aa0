"""Draws of a sample for other tools: ArviZ, pandas, netCDF, Parquet and CSV."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.arrays import AnyArray, Array
from scorevi.base.extras import require
from scorevi.base.variables import Include, check_include
from scorevi.results.export import as_arviz
from scorevi.results.writing import columns_of, write

if TYPE_CHECKING:
    from scorevi.results.sample import Sample


def to_arviz(sample: Sample, include: Include = "all") -> Any:
    """Return draws as ArviZ takes them; see :meth:`scorevi.Sample.to_arviz`."""
    check_include(include)
    chains, seed = sample.theta.shape[0], sample.seed
    return as_arviz(sample, sample.flat, seed, include, _stats, _attributes(sample), chains)


def to_pandas(sample: Sample, include: Include = "all") -> Any:
    """Return draws as a data frame, indexed by chain and draw."""
    pandas = require("pandas")
    index = pandas.MultiIndex.from_product(
        [range(length) for length in sample.theta.shape[:2]], names=["chain", "draw"]
    )
    return pandas.DataFrame(columns_of(sample, sample.draws(include)), index=index)


def write_sample(sample: Sample, path: str | Path, include: Include = "all") -> None:
    """Write draws to a ``.nc`` (ArviZ), ``.csv`` or ``.parquet`` file, by the path's ending.

    Columns ``.chain`` and ``.draw`` say which is which; no variable of a model has such a name.
    """
    chains, count, _ = sample.theta.shape
    places: dict[str, AnyArray] = {
        ".chain": np.repeat(np.arange(chains), count),
        ".draw": np.tile(np.arange(count), chains),
    }
    write(
        path,
        lambda: to_arviz(sample, include),
        lambda: places | columns_of(sample, sample.draws(include)),
    )


def _stats(sample: Sample, theta: Array) -> dict[str, AnyArray]:
    """Return what is known of each draw, one chain after another."""
    del theta
    return {name: np.reshape(values, -1) for name, values in sample.stats.items()}


def _attributes(sample: Sample) -> dict[str, Any]:
    verdict = sample.check()
    return {
        "inference_library": "scorevi",
        "inference_library_version": sample.version,
        "method": sample.method,
        "sampler": sample.sampler,
        "seed": str(sample.seed),
        "num_gradients": sample.num_gradients,
        "seconds": sample.seconds,
        "status": str(sample.status),
        "verdict": str(verdict),
    }
