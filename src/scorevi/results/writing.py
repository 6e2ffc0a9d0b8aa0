"""Draws as tables and files: pandas, netCDF, Parquet and CSV."""

from __future__ import annotations

import csv
import itertools
import math
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorevi.base.arrays import AnyArray, Array, Seed
from scorevi.base.extras import require
from scorevi.base.files import check_folder
from scorevi.base.labels import labels_of
from scorevi.base.variables import Include
from scorevi.results.export import reason_of, to_arviz

if TYPE_CHECKING:
    from scorevi.results.fit import Fit
    from scorevi.results.sample import Sample

_NEEDS = {".nc": "arviz", ".csv": None, ".parquet": "pyarrow"}


def to_pandas(fit: Fit, size: int = 1000, seed: Seed = None, include: Include = "all") -> Any:
    """Return draws as a data frame: a row per draw, a column per entry, such as ``beta[0,1]``."""
    pandas = require("pandas")
    return pandas.DataFrame(columns_of(fit, fit.draws(size, seed, include)))


def write_draws(
    fit: Fit,
    path: str | Path,
    size: int = 1000,
    seed: Seed = None,
    include: Include = "all",
) -> None:
    """Write draws to a ``.nc`` (ArviZ), ``.csv`` or ``.parquet`` file, by the path's ending."""
    write(
        path,
        lambda: to_arviz(fit, size, seed, include),
        lambda: columns_of(fit, fit.draws(size, seed, include)),
    )


def write(
    path: str | Path, tree: Callable[[], Any], columns: Callable[[], dict[str, AnyArray]]
) -> None:
    """Write what ArviZ takes, or columns, by the path's ending."""
    path = check_format(check_folder(path))
    try:
        if path.suffix == ".nc":
            tree().to_netcdf(str(path))
        else:
            put = _write_csv if path.suffix == ".csv" else _write_parquet
            put(columns(), path)
    except (OSError, ValueError, KeyError) as error:
        # netCDF refuses some names of variables, such as those with a slash.
        raise ValueError(f"`path` could not be written: {path}: {reason_of(error)}.") from None


def check_format(path: Path) -> Path:
    """Refuse a file of draws whose ending is not known, or needs what is not installed."""
    if path.suffix not in _NEEDS:
        raise ValueError(f"`path` must end in one of {', '.join(_NEEDS)}; got {path.name}.")
    needed = _NEEDS[path.suffix]
    if needed is not None:
        require(needed)
    return path


def columns_of(fit: Fit | Sample, draws: dict[str, Array]) -> dict[str, Array]:
    """Cut arrays into columns by label."""
    if fit.target is None:  # then these are the parameters of theta, in order
        texts = iter(fit.labels)
        named = {
            name: list(itertools.islice(texts, math.prod(values.shape[1:])))
            for name, values in draws.items()
        }
    else:
        variables = fit.target.variables
        named = {
            name: labels_of(variables, name, values.shape[1:]) for name, values in draws.items()
        }
    return {
        label: column
        for name, values in draws.items()
        for label, column in zip(named[name], values.reshape(len(values), -1).T, strict=True)
    }


def _write_csv(columns: dict[str, Array], path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(columns)
        writer.writerows(zip(*(column.tolist() for column in columns.values()), strict=True))


def _write_parquet(columns: dict[str, Array], path: Path) -> None:
    pyarrow = require("pyarrow")
    require("pyarrow.parquet").write_table(pyarrow.table(columns), path)
