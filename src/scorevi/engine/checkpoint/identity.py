"""Which fit a checkpoint is of, and what tells another fit from it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.identity import digest, identify
from scorevi.families import Gaussian, LowRank
from scorevi.solvers.base import Solver
from scorevi.starts.start import Initial, Near
from scorevi.targets import Target
from scorevi.targets.points import as_point

_SAME = 1e-8
"""Two targets whose scores differ by less, relative to the largest, pass for the same."""


def identity_of(target: Target, solver: Solver, seed: int, start: Initial) -> dict[str, Any]:
    """Return what must be the same for a fit to be the same, in JSON values."""
    return {
        "dimension": target.dim,
        "parameters": [[name, list(shape)] for name, shape in target.parameters],
        "solver": identify(solver),
        "seed": seed,
        "initial": _describe(start, target),
    }


def find_difference(
    read: Mapping[str, Any], identity: Mapping[str, Any], probed: Mapping[str, Array]
) -> str:
    """Say in what the fit of a file is another one; empty where it is the same.

    Parameters
    ----------
    read
        What the file holds.
    identity, probed
        What :func:`identity_of` and :func:`probe` say of the fit here.
    """
    theirs = read["meta"]["identity"]
    for name, value in identity.items():
        if theirs[name] != value:
            return f"`{name}` is {theirs[name]} there and {value} here"
    for name, value in probed.items():
        saved = read[name]
        scale = np.abs(value[np.isfinite(value)]).max(initial=0.0)
        if value.shape != saved.shape or not np.allclose(
            value, saved, rtol=_SAME, atol=_SAME * float(scale), equal_nan=True
        ):
            words = name.removeprefix("probe_").replace("_", " ")
            return (
                f"the target's {words} at a fixed point is not what it was: the model or its "
                "data have changed, or it is random"
            )
    return ""


def probe(target: Target) -> dict[str, Array]:
    """Return what the target says at one point: what tells it from others."""
    point = np.random.default_rng(0).uniform(-1.0, 1.0, (1, target.dim))
    with np.errstate(all="ignore"):
        score, log_density, _ = Evaluator(target)(point)
    known = np.nan if log_density is None else log_density
    return {
        "probe_score": np.array(score, dtype=float).reshape(-1),
        "probe_log_density": np.array(known, dtype=float).reshape(-1),
    }


def _describe(initial: Initial, target: Target) -> str:
    """Return a start in words that are the same only for the same start."""
    if initial is None or isinstance(initial, str):
        return str(initial)
    if isinstance(initial, Gaussian):
        return f"a Gaussian ({digest(initial.mean, initial.factor)})"
    if isinstance(initial, LowRank):
        parts = (initial.mean, initial.scale, initial.directions, initial.widths)
        return f"a Gaussian of a diagonal and directions ({digest(*parts)})"
    near = isinstance(initial, Near)
    point = as_point(initial.point if isinstance(initial, Near) else initial, target)
    return f"{'near ' if near else ''}a point ({digest(point)})"
