"""Draws for other tools: ArviZ, netCDF and CSV."""

from __future__ import annotations

import csv
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi._arrays import Seed, seed_entropy
from scorevi._extras import require
from scorevi.targets.base import labels, split

if TYPE_CHECKING:
    from scorevi.results import Fit

FORMATS = (".nc", ".csv")


def to_arviz(fit: Fit, draws: int = 1000, seed: Seed = None) -> Any:
    """Return draws as InferenceData (ArviZ 0.x) or DataTree (1.x), as one chain.

    The group ``posterior`` holds the constrained parameters, ``unconstrained_posterior`` the same
    draws on the space that was fitted.
    """
    arviz = require("arviz")
    entropy = seed_entropy(seed)
    groups = {
        "posterior": fit.draws(draws, entropy),
        "unconstrained_posterior": split(fit.sample(draws, entropy), fit.parameters),
    }
    chains = {
        group: {name: np.asarray(values)[None] for name, values in variables.items()}
        for group, variables in groups.items()
    }
    attributes = {
        "inference_library": "scorevi",
        "inference_library_version": fit.version,
        "solver": fit.solver,
        "num_gradients": fit.num_gradients,
        "status": str(fit.status),
        "seed": str(fit.seed),
    }
    if int(arviz.__version__.partition(".")[0]) >= 1:
        data = arviz.from_dict(chains, attrs={"/": attributes, "posterior": attributes})
    else:
        data = arviz.from_dict(posterior=chains["posterior"], posterior_attrs=attributes)
        unconstrained = arviz.convert_to_dataset(chains["unconstrained_posterior"])
        data.add_groups(unconstrained_posterior=unconstrained, warn_on_custom_groups=False)
    return data


def write_draws(fit: Fit, path: str | Path, draws: int = 1000, seed: Seed = None) -> None:
    """Write constrained draws to a ``.nc`` (ArviZ) or ``.csv`` file, by the path's ending."""
    path = check_format(check_folder(path))
    try:
        if path.suffix == ".nc":
            to_arviz(fit, draws, seed).to_netcdf(str(path))
        else:
            _write_csv(fit.draws(draws, seed), path)
    except (OSError, ValueError, KeyError) as error:
        # netCDF refuses some names of variables, such as those with a slash.
        raise ValueError(f"`path` could not be written: {path}: {error}.") from None


def check_folder(path: str | Path) -> Path:
    """Refuse a path to write to whose folder does not exist."""
    path = Path(path)
    if not path.name:
        raise ValueError("`path` must name a file; got an empty name.")
    if not path.parent.is_dir():
        raise ValueError(f"`path` must lie in an existing folder; there is no {path.parent}.")
    return path


def check_format(path: Path) -> Path:
    """Refuse a file of draws whose ending is not known, or needs what is not installed."""
    if path.suffix not in FORMATS:
        raise ValueError(f"`path` must end in one of {', '.join(FORMATS)}; got {path.name}.")
    if path.suffix == ".nc":
        require("arviz")
    return path


def _write_csv(draws: dict[str, Any], path: Path) -> None:
    names = [label for name, values in draws.items() for label in labels(name, values.shape[1:])]
    flat = [values.reshape(len(values), -1) for values in draws.values()]
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(names)
        writer.writerows(np.concatenate(flat, axis=1).tolist())
