"""Fits from disk. Nothing read is ever executed."""

from __future__ import annotations

import dataclasses
import json
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

from scorevi.base.encoding import decode
from scorevi.base.evaluate import BadScore, BadScores
from scorevi.base.status import Status
from scorevi.base.target import Parameter
from scorevi.engine.quality import Quality
from scorevi.families import FAMILIES, Approximation, Gaussian, LowRank, Mixture, Nested
from scorevi.results.fit import Fit
from scorevi.results.origin import Origin
from scorevi.results.parts import Summary, Trace
from scorevi.results.sample import Sample
from scorevi.results.sample_files import FORMAT as SAMPLE_FORMAT
from scorevi.results.sample_files import contents
from scorevi.results.saving import FORMAT, fingerprint
from scorevi.results.table import SummaryTable
from scorevi.targets import as_target
from scorevi.trust.examination import Restart
from scorevi.trust.verdict import Reason, Verdict

_READABLE = ("scorevi-fit-1", "scorevi-fit-2", FORMAT, SAMPLE_FORMAT)
"""Of fits the first knew of no verdict and of no restarts; the first two, of Gaussians alone."""
_SAME = 1e-6
"""How close the scores of a target are to be for it to be the one that was fitted."""


def load(path: str | Path, target: Any = None) -> Fit | Sample:
    """Read a :class:`scorevi.Fit` or a :class:`scorevi.Sample` that was saved with ``save``.

    Parameters
    ----------
    path
        The ``.npz`` file; the ending may be left out.
    target
        The target that was fitted. Needed only for draws on the constrained scale, because
        functions are not saved. One whose scores differ from those of the target that was
        fitted is refused, at the cost of one gradient.
    """
    path = Path(path)
    ended = path.with_name(f"{path.name}.npz") if path.name else path
    if not path.exists() and ended.is_file():
        path = ended  # as ``save`` wrote it
    if not path.is_file():
        raise ValueError(f"`path` must be a file; there is none at {path}.")
    foreign = f"`path` must be a file written by Fit.save or Sample.save; {path} is not"
    try:
        with path.open("rb") as file, np.load(file, allow_pickle=False) as data:
            arrays = {name: data[name] for name in data.files}
        meta = json.loads(str(arrays["meta"]))
        if meta["format"] not in _READABLE:
            raise ValueError(f"it has the format {meta['format']!r}, not {FORMAT!r}")
        fit = _assembled(arrays, meta)
    except ValueError as error:
        reason = "it is not an .npz file" if "pickle" in str(error) else str(error)
        raise ValueError(f"{foreign}, or it is damaged ({reason}).") from None
    except Exception as error:  # damage shows in many ways, and all of them mean this
        raise ValueError(f"{foreign}, or it is damaged ({type(error).__name__}).") from None
    if target is None:
        return fit
    target = as_target(target)
    if target.parameters != fit.parameters:
        raise ValueError("`target` must be the one that was fitted; its parameters differ.")
    saved = arrays.get("fingerprint", np.empty(0))
    known = saved.size and np.isfinite(saved).all()
    if known and not np.allclose(fingerprint(fit.q, target), saved, _SAME, _SAME):
        raise ValueError(
            "`target` must be the one that was fitted; its scores differ, so it has another "
            "density or other data."
        )
    return dataclasses.replace(fit, target=target)


def _verdict(told: list[Any]) -> Verdict:
    reasons, *figures = told
    return Verdict(tuple(Reason(*reason) for reason in reasons), *figures)


def _approximation(arrays: dict[str, Any], meta: dict[str, Any]) -> Approximation:
    """Return the q of a file."""
    if "q" in meta:
        parts = [arrays[f"q_{number}"] for number in range(sum(n.startswith("q_") for n in arrays))]
        q: Approximation = decode(meta["q"], FAMILIES, parts)
    else:
        q = Gaussian(arrays["mean"], arrays["factor"], float(arrays["log_det"]))
    if isinstance(q, Nested):
        if not q.is_whole():
            raise ValueError("its arrays do not make a nested approximation")
        return q
    if isinstance(q, LowRank):
        return _whole(q)
    parts_of_q = q.components if isinstance(q, Mixture) else (q,)
    if isinstance(q, Mixture):
        known = q.log_weights.shape == (len(parts_of_q),) and np.isfinite(q.log_weights).all()
        if not known or not parts_of_q:
            raise ValueError("its weights do not make a mixture")
    dim = len(parts_of_q[0].mean)
    for part in parts_of_q:
        whole = all(np.isfinite(piece).all() for piece in (part.mean, part.factor, part.log_det))
        if part.mean.shape != (dim,) or part.factor.shape != (dim, dim) or not whole:
            raise ValueError("its mean and factor do not make a Gaussian")
    return q


def _whole(q: LowRank) -> LowRank:
    """Refuse what is not a Gaussian of a diagonal and directions."""
    pieces = (q.mean, q.scale, q.directions, q.widths, q.log_det)
    shapes = q.scale.shape == q.mean.shape and q.directions.shape == (q.dim, q.rank)
    if not shapes or not all(np.isfinite(piece).all() for piece in pieces):
        raise ValueError("its mean, scale and directions do not make a Gaussian")
    return q


def _quality(meta: dict[str, Any], trace: Trace) -> Quality:
    """Return what is known of q: in old files, the mean of the last updates' estimates."""
    if "quality" in meta:
        return Quality(*meta["quality"])
    count = min(50, -(-len(trace.elbo) // 4))
    elbo, fisher = (float(np.mean(x[-count:])) if count else np.nan for x in trace[2:4])
    return Quality(elbo, fisher=fisher)


def _summary(arrays: dict[str, Any], meta: dict[str, Any]) -> SummaryTable:
    """Return the table of a file; none where an old one has less than can be computed anew."""
    rows = [Summary(*row) for row in meta["summary"]]
    quantiles = arrays.get("quantiles")
    if quantiles is None and not meta["constrained"]:
        return SummaryTable()
    return SummaryTable(rows, quantiles)


def _assembled(arrays: dict[str, Any], meta: dict[str, Any]) -> Fit | Sample:
    """Return what a file holds."""
    if meta["format"] == SAMPLE_FORMAT:
        sample = Sample(**contents(arrays, meta, _approximation(arrays, meta)))
        sample.check()
        return sample
    return _assemble(arrays, meta)


def _assemble(arrays: dict[str, Any], meta: dict[str, Any]) -> Fit:
    trace = Trace(*(arrays[f"trace_{name}"] for name in Trace._fields))
    examples = [
        BadScore(point, cause, detail)
        for point, (cause, detail) in zip(arrays["bad_points"], meta["bad_examples"], strict=True)
    ]
    verdict = meta.get("verdict")
    return Fit(
        q=_approximation(arrays, meta),
        status=Status(*meta["status"]),
        quality=_quality(meta, trace),
        trace=trace,
        num_gradients=meta["num_gradients"],
        num_updates=meta["num_updates"],
        seconds=meta["seconds"],
        solver=meta["solver"],
        seed=meta["seed"],
        parameters=tuple(Parameter(name, tuple(shape)) for name, shape in meta["parameters"]),
        saved_labels=tuple(meta.get("labels", ())),
        bad_scores=BadScores(Counter(meta["bad_scores"]), examples),
        notes=tuple(meta["notes"]),
        version=meta["version"],
        verdict=None if verdict is None else _verdict(verdict),
        restarts=tuple(
            Restart(seed, status, elbo, mean, sd)
            for (seed, status, elbo), mean, sd in zip(
                meta.get("restarts", ()),
                arrays.get("restart_means", ()),
                arrays.get("restart_sds", ()),
                strict=True,
            )
        ),
        saved_constrained=meta["constrained"],
        saved_summary=_summary(arrays, meta),
        log_ratio=arrays.get("log_ratio"),
        origin=Origin(**meta.get("origin", {})),
    )
