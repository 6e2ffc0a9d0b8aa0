"""Fits to disk: a ``.npz`` of plain arrays and one JSON text."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.encoding import encode
from scorevi.base.evaluate import Evaluator
from scorevi.base.files import check_folder, why, write_arrays
from scorevi.base.target import Target
from scorevi.families import FAMILIES, Family
from scorevi.results.table import SummaryTable
from scorevi.trust.verdict import Verdict

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

FORMAT = "scorevi-fit-3"


def save(fit: Fit, path: str | Path) -> Path:
    """Write a fit; see :meth:`scorevi.Fit.save`. The file appears whole or not at all."""
    path = check_folder(path)
    if path.suffix != ".npz":
        path = check_folder(path.with_name(path.name + ".npz"))
    parts: list[Any] = []
    table = known_summary(fit)
    meta = {
        "format": FORMAT,
        "q": encode(fit.q, FAMILIES, parts),
        "version": fit.version,
        "status": [str(fit.status), fit.status.cause, fit.status.advice],
        "num_gradients": fit.num_gradients,
        "num_updates": fit.num_updates,
        "seconds": fit.seconds,
        "solver": fit.solver,
        "seed": fit.seed,
        "parameters": [[parameter.name, list(parameter.shape)] for parameter in fit.parameters],
        "labels": list(fit.labels),
        "constrained": fit.constrained,
        "bad_scores": dict(fit.bad_scores.counts),
        "bad_examples": [[bad.cause, bad.detail] for bad in fit.bad_scores.examples],
        "notes": list(fit.notes),
        "summary": [list(row) for row in table],
        "quality": list(fit.quality),
        "verdict": None if fit.verdict is None else _plain(fit.verdict),
        "restarts": [[r.seed, r.status, r.elbo] for r in fit.restarts],
        "origin": fit.origin._asdict(),
    }
    arrays: dict[str, Any] = {
        "meta": np.array(json.dumps(meta)),
        **{f"q_{number}": part for number, part in enumerate(parts)},
        "fingerprint": np.empty(0) if fit.target is None else fingerprint(fit.q, fit.target),
        "bad_points": np.array([bad.point for bad in fit.bad_scores.examples]),
        "quantiles": table.quantiles,
        **({} if fit.log_ratio is None else {"log_ratio": fit.log_ratio}),
        "restart_means": np.array([restart.mean for restart in fit.restarts]),
        "restart_sds": np.array([restart.sd for restart in fit.restarts]),
        **{f"trace_{name}": values for name, values in fit.trace._asdict().items()},
    }
    try:
        write_arrays(path, arrays)
    except OSError as error:
        raise ValueError(f"`path` could not be written: {path}: {why(error)}.") from None
    return path


def fingerprint(q: Family, target: Target) -> Array:
    """Return the whitened score one sd off the mean, (D,), by which to know a target again.

    It is of order one there, and does not depend on the constant of the log density.
    """
    with np.errstate(all="ignore"):
        points = q.points(np.ones((1, q.noise_width)))
        return np.asarray(q.pull(points, Evaluator(target)(points.theta).score)[0])


def known_summary(fit: Fit) -> SummaryTable:
    """Return the table, or none: a faulty ``constrain`` must not stand in the way of saving."""
    try:
        return fit.summary if fit.num_updates else SummaryTable()
    except ValueError:
        return SummaryTable()


def _plain(verdict: Verdict) -> list[Any]:
    reasons = [list(reason) for reason in verdict.reasons]
    return [reasons, verdict.khat, verdict.ess, verdict.num_evaluations]
