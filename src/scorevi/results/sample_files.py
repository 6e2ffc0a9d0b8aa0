"""Samples to disk and back: a ``.npz`` of plain arrays and one JSON text. Nothing is executed."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.encoding import encode
from scorevi.base.evaluate import BadScore, BadScores
from scorevi.base.files import check_folder, why, write_arrays
from scorevi.base.status import Status
from scorevi.base.target import Parameter
from scorevi.families import FAMILIES, Approximation
from scorevi.results.parts import Summary
from scorevi.results.saving import fingerprint
from scorevi.trust.verdict import Reason

if TYPE_CHECKING:
    from scorevi.results.sample import Sample

FORMAT = "scorevi-sample-1"
_PLAIN = ("method", "khat", "gradients", "asked", "seed", "seconds", "against_weights", "version")
_ARRAYS = ("theta", "ess", "rhat")


def save(sample: Sample, path: str | Path) -> Path:
    """Write a sample; see :meth:`scorevi.Sample.save`. The file appears whole or not at all."""
    path = check_folder(path)
    if path.suffix != ".npz":
        path = check_folder(path.with_name(path.name + ".npz"))
    parts: list[Any] = []
    status, bad = sample.status, sample.bad_scores
    meta = {
        "format": FORMAT,
        "q": encode(sample.q, FAMILIES, parts),
        "status": [str(status), status.cause, status.advice],
        "parameters": [[name, list(shape)] for name, shape in sample.parameters],
        "labels": list(sample.labels),
        "constrained": sample.constrained,
        "found": [list(reason) for reason in sample.found],
        "q_is_right": sample.q_is_right,
        "notes": list(sample.notes),
        "sampler": sample.sampler,
        "bad_scores": dict(bad.counts),
        "bad_examples": [[one.cause, one.detail] for one in bad.examples],
        "summary": [list(row) for row in sample.summary] if sample.size else [],
        "stats": list(sample.stats),
        **{name: getattr(sample, name) for name in _PLAIN},
    }
    target = sample.target
    arrays: dict[str, Any] = {
        "meta": np.array(json.dumps(meta)),
        "fingerprint": np.empty(0) if target is None else fingerprint(sample.q, target),
        "bad_points": np.array([one.point for one in bad.examples]),
        **{f"q_{number}": part for number, part in enumerate(parts)},
        **{name: getattr(sample, name) for name in _ARRAYS},
        **{f"stats_{name}": values for name, values in sample.stats.items()},
    }
    try:
        write_arrays(path, arrays)
    except OSError as error:
        raise ValueError(f"`path` could not be written: {path}: {why(error)}.") from None
    return path


def contents(
    arrays: Mapping[str, Any], meta: Mapping[str, Any], q: Approximation
) -> dict[str, Any]:
    """Return what a sample in a file is made of."""
    known = {name: arrays[name] for name in _ARRAYS} | {name: meta[name] for name in _PLAIN}
    if known["theta"].ndim != 3 or known["theta"].shape[2] != q.dim:
        raise ValueError("its draws do not fit its approximation")
    examples = [
        BadScore(point, cause, detail)
        for point, (cause, detail) in zip(arrays["bad_points"], meta["bad_examples"], strict=True)
    ]
    return known | {
        "q": q,
        "status": Status(*meta["status"]),
        "stats": {name: arrays[f"stats_{name}"] for name in meta["stats"]},
        "parameters": tuple(Parameter(name, tuple(shape)) for name, shape in meta["parameters"]),
        "found": tuple(Reason(*reason) for reason in meta["found"]),
        "q_is_right": meta["q_is_right"],
        "notes": tuple(meta["notes"]),
        "sampler": meta.get("sampler", ""),  # which older files do not have
        "bad_scores": BadScores(Counter(meta["bad_scores"]), examples),
        "saved_labels": tuple(meta["labels"]),
        "saved_constrained": meta["constrained"],
        "saved_summary": tuple(Summary(*row) for row in meta["summary"]),
    }
