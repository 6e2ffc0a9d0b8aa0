"""Results on disk: tidy, a row for each run, checkpoint and metric, and a file for each run.

A run's file begins with a comment, one line of JSON: what the run was, and with which versions. It
is written whole or not at all, so that what is there is finished.
"""

from __future__ import annotations

import csv
import json
import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array
from scorevi.base.files import appearing


class Row(NamedTuple):
    """One value."""

    study: str
    target: str
    solver: str
    seed: int
    gradients: int
    seconds: float
    metric: str
    value: float


class Curve(NamedTuple):
    """The course of one metric in one run."""

    seed: int
    gradients: NDArray[np.int64]
    seconds: Array
    values: Array

    @property
    def last(self) -> float:
        """The value at the end."""
        return float(self.values[-1])

    def first_below(self, level: float) -> float:
        """Return the gradients after which the metric was first at or below a level, or ∞."""
        return float(next(iter(self.gradients[self.values <= level]), np.inf))

    def seconds_below(self, level: float) -> float:
        """Return the seconds after which it was."""
        return float(next(iter(self.seconds[self.values <= level]), np.inf))

    def at(self, gradients: int) -> float:
        """Return the value at the last checkpoint within a number of gradients; NaN before all."""
        within = self.values[self.gradients <= gradients]
        return float(within[-1]) if len(within) else np.nan

    def late(self) -> Array:
        """Return the values in the last half of the gradients."""
        return np.asarray(self.values[self.gradients >= self.gradients[-1] / 2])


@dataclass(frozen=True)
class Table:
    """The rows of one study."""

    rows: tuple[Row, ...]

    @cached_property
    def _curves(self) -> dict[tuple[str, str, str], list[Curve]]:
        found: dict[tuple[str, str, str], dict[int, list[Row]]] = {}
        for row in self.rows:
            by_seed = found.setdefault((row.target, row.solver, row.metric), {})
            by_seed.setdefault(row.seed, []).append(row)
        return {
            key: [_curve(seed, rows) for seed, rows in sorted(by_seed.items())]
            for key, by_seed in found.items()
        }

    @property
    def targets(self) -> list[str]:
        """The targets, in their order."""
        return list(dict.fromkeys(row.target for row in self.rows))

    @property
    def solvers(self) -> list[str]:
        """The solvers, in their order."""
        return list(dict.fromkeys(row.solver for row in self.rows))

    def curves(self, target: str, solver: str, metric: str) -> list[Curve]:
        """Return the runs' courses; none where there are no such runs."""
        return self._curves.get((target, solver, metric), [])


def _curve(seed: int, rows: list[Row]) -> Curve:
    rows = sorted(rows, key=lambda row: row.gradients)
    return Curve(
        seed,
        np.array([row.gradients for row in rows], dtype=np.int64),
        np.array([row.seconds for row in rows]),
        np.array([row.value for row in rows]),
    )


_KINDS = ("centered", "noncentered", "stan", "wide", "normal", "poisson", "normals")
"""What comes after the dash in the names of our own hierarchies."""


def short(target: str) -> str:
    """Return the model of a posterior's name, without its data; other names as they are.

    Examples
    --------
    >>> short("arK-arK"), short("eight schools; L-BFGS"), short("plates-centered")
    ('arK', 'eight schools; L-BFGS', 'plates-centered')
    """
    found = re.fullmatch(r"\w+-(\w+)", target)
    return found[1] if found and found[1] not in _KINDS else target


def run_file(folder: Path, target: str, solver: str, seed: int) -> Path:
    """Return the file of one run."""
    name = re.sub(r"[^\w.=+-]+", "_", f"{target}--{solver}--{seed}")
    return folder / "runs" / f"{name}.csv"


def is_finished(path: Path, about: Mapping[str, Any]) -> bool:
    """Whether a file has the run that these words describe."""
    try:
        with path.open(encoding="utf-8") as file:
            there = json.loads(file.readline().removeprefix("#"))
    except (OSError, ValueError):
        return False
    return all(there.get(key) == value for key, value in about.items())


def write_run(path: Path, about: Mapping[str, Any], rows: Iterable[Row]) -> None:
    """Write the file of one run, whole or not at all."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_rows(path, rows, comment=json.dumps(about))


def write_rows(path: Path, rows: Iterable[Row], comment: str = "") -> None:
    """Write rows as CSV, after a line of comment if there is one."""
    with appearing(path) as part, part.open("w", newline="", encoding="utf-8") as file:
        if comment:
            file.write(f"# {comment}\n")
        writer = csv.writer(file, lineterminator="\n")
        writer.writerow(Row._fields)
        writer.writerows(rows)


def read_rows(path: Path) -> Iterator[Row]:
    """Read what :func:`write_rows` wrote."""
    with path.open(newline="", encoding="utf-8") as file:
        lines = (line for line in file if not line.startswith("#"))
        for row in csv.DictReader(lines):
            yield Row(
                row["study"],
                row["target"],
                row["solver"],
                int(row["seed"]),
                int(row["gradients"]),
                float(row["seconds"]),
                row["metric"],
                float(row["value"]),
            )
