"""Posteriors of posteriordb: programs, data and reference draws.

The paper's eight have programs of their own in this package; where the database has Stan code, that
is used.
"""

from __future__ import annotations

import difflib
import json
import os
import re
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import labels
from scorevi.targets.stan import StanTarget, from_stan

EIGHT = (
    "arK-arK",
    "bball_drive_event_0-hmm_drive_0",
    "diamonds-diamonds",
    "eight_schools-eight_schools_centered",
    "eight_schools-eight_schools_noncentered",
    "gp_pois_regr-gp_pois_regr",
    "hudson_lynx_hare-lotka_volterra",
    "low_dim_gauss_mix-low_dim_gauss_mix",
)
"""The posteriors of the GSM-VI paper."""
_OWN = Path(__file__).parent / "models"


@dataclass(frozen=True)
class Posterior:
    """One posterior of a database."""

    folder: Path
    """The database: the folder with ``posteriors``, ``data`` and ``reference_posteriors``."""
    name: str

    def target(self) -> StanTarget:
        """Compile the program, and give it its data."""
        info = self._info
        data = _read(self.folder / "data" / "data" / f"{info['data_name']}.json")
        theirs = self.folder / "models" / "stan" / f"{info['model_name']}.stan"
        own = _OWN / f"{info['model_name']}.stan"
        program = theirs if theirs.is_file() else own
        if not program.is_file():
            raise ValueError(
                f"neither the posteriordb nor scorevi has the Stan program {program.name} of "
                f"{self.name}; looked for in {theirs.parent}."
            )
        return from_stan(program, data)

    def reference(self) -> dict[str, Array]:
        """Return reference draws by name, such as ``beta[1]``, all chains one after the other."""
        name = self._info["reference_posterior_name"]
        folder = self.folder / "reference_posteriors" / "draws" / "draws"
        chains = _read(folder / f"{name}.json")
        return {key: np.concatenate([chain[key] for chain in chains]) for key in chains[0]}

    @property
    def has_reference(self) -> bool:
        """Whether the database has reference draws of it."""
        return self._info.get("reference_posterior_name") is not None

    @property
    def _info(self) -> dict[str, Any]:
        path = self.folder / "posteriors" / f"{self.name}.json"
        if not path.is_file():
            there = sorted(one.stem for one in path.parent.glob("*.json"))
            close = difflib.get_close_matches(self.name, there, n=5, cutoff=0.3)
            raise ValueError(
                f"the posteriordb has no posterior {self.name!r}; "
                f"close to it: {', '.join(close) or 'none'}. It has {len(there)} in {path.parent}."
            )
        info: dict[str, Any] = _read(path)
        return info


def paired(named: Mapping[str, Array], reference: Mapping[str, Array]) -> tuple[Array, Array]:
    """Return draws of a fit and reference draws of the same quantities, as columns.

    Parameters
    ----------
    named
        Draws by name, the draws along the first axis.
    reference
        Draws by a name such as ``beta[1]``, which counts from 1.

    Draws of the fit at which some of the quantities could not be computed are left out.
    """
    columns, theirs = [], []
    for name, values in named.items():
        flat = values.reshape(len(values), -1)
        for column, label in zip(flat.T, labels(name, values.shape[1:]), strict=True):
            place = re.sub(r"\d+", lambda found: str(int(found[0]) + 1), label.partition("[")[2])
            key = f"{name}[{place}" if place else name
            if key in reference:
                columns.append(column)
                theirs.append(reference[key])
    draws = np.column_stack(columns)
    return draws[np.isfinite(draws).all(axis=1)], np.column_stack(theirs)


def database(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the database's folder: the one given, or that of the variable PDB_PATH."""
    given = path or os.environ.get("PDB_PATH")
    if not given:
        raise ValueError(
            "This needs a posteriordb. Get one with `git clone "
            "https://github.com/stan-dev/posteriordb`, and set PDB_PATH (or --posteriordb) to its "
            "folder posterior_database."
        )
    folder = Path(given)
    if not (folder / "posteriors").is_dir():
        raise ValueError(
            f"PDB_PATH (or --posteriordb) must be the folder posterior_database of a posteriordb; "
            f"{folder} has no folder posteriors."
        )
    return folder


def _read(path: Path) -> Any:
    """Read a JSON file, zipped or not."""
    packed = path.with_name(path.name + ".zip")
    if packed.is_file():
        with zipfile.ZipFile(packed) as archive:
            return json.loads(archive.read(archive.namelist()[0]))
    if not path.is_file():
        raise ValueError(f"the posteriordb has no {path.name}, looked for in {path.parent}.")
    return json.loads(path.read_text(encoding="utf-8"))
