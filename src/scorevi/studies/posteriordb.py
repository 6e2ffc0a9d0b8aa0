"""Posteriors of posteriordb: programs, data and reference draws.

The paper's eight have programs of their own in this package; where the database has Stan code, that
is used.
"""

from __future__ import annotations

import json
import os
import zipfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scorevi._arrays import Array
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
        return from_stan(theirs if theirs.is_file() else own, data)

    def reference(self) -> dict[str, Array]:
        """Return reference draws by name, such as ``beta[1]``, all chains one after the other."""
        name = self._info["reference_posterior_name"]
        folder = self.folder / "reference_posteriors" / "draws" / "draws"
        chains = _read(folder / f"{name}.json")
        return {key: np.concatenate([chain[key] for chain in chains]) for key in chains[0]}

    @property
    def _info(self) -> dict[str, Any]:
        info: dict[str, Any] = _read(self.folder / "posteriors" / f"{self.name}.json")
        return info


def database(path: str | os.PathLike[str] | None = None) -> Path:
    """Return the database's folder: the one given, or that of the variable PDB_PATH."""
    given = path or os.environ.get("PDB_PATH")
    if not given:
        raise ValueError(
            "This needs a posteriordb. Get one with `git clone "
            "https://github.com/stan-dev/posteriordb`, and set PDB_PATH to its folder "
            "posterior_database."
        )
    folder = Path(given)
    if not (folder / "posteriors").is_dir():
        raise ValueError(
            f"PDB_PATH must be the folder posterior_database of a posteriordb; {folder} has no "
            "folder posteriors."
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
