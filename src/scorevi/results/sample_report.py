"""A sample in words and tables, for a person or as JSON."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.results.report import (
    number,
    print_lines,
    table_as_json,
    verdict_as_json,
    verdict_lines,
)

if TYPE_CHECKING:
    from scorevi.results.sample import Sample


def as_json(sample: Sample, files: Mapping[str, Path]) -> dict[str, Any]:
    """Return what there is to say about a sample as plain JSON values; NaN becomes null."""
    return {
        "status": str(sample.status),
        "cause": sample.status.cause,
        "advice": sample.status.advice,
        "method": sample.method,
        "sampler": sample.sampler,
        "against_weights": sample.against_weights,
        "seed": sample.seed,
        "version": sample.version,
        "dim": sample.dim,
        "chains": sample.theta.shape[0],
        "draws": sample.size,
        "ess": number(float(np.min(sample.ess))),
        "rhat": number(float(np.max(sample.rhat))),
        "khat": number(sample.khat),
        "divergences": sample.divergences,
        "num_gradients": sample.num_gradients,
        "gradients": sample.gradients,
        "seconds": sample.seconds,
        "bad_scores": dict(sample.bad_scores.counts),
        "verdict": verdict_as_json(sample.verdict),
        "notes": list(sample.notes),
        "files": {name: str(path) for name, path in files.items()},
        "parameters": table_as_json(sample.summary if sample.size else ()),
    }


def print_sample_report(sample: Sample, rows: int, files: Mapping[str, Path]) -> None:
    """Print a sample to standard output; the arguments are those of a fit's report."""
    print_lines(sample.summary if sample.size else (), rows, lines(sample), files)


def lines(sample: Sample) -> list[str]:
    """Return the facts below the table, one a line."""
    by_phase = ", ".join(f"{phase} {count}" for phase, count in sample.gradients.items())
    nuts = "NUTS in the coordinates of the fit" + (f" ({sample.sampler})" if sample.sampler else "")
    ways = {"importance": "importance weights", "nuts": nuts}
    facts = [
        f"{'sample:':12}{sample.size} draws in {sample.theta.shape[0]} chains, by "
        f"{ways.get(sample.method, 'nothing')}, {sample.seconds:.2g} s",
        f"{'gradients:':12}{sample.num_gradients}: {by_phase}",
    ]
    if sample.size:
        least, most = int(np.argmin(sample.ess)), int(np.argmax(np.nan_to_num(sample.rhat)))
        facts.append(
            f"{'worst:':12}effective sample {sample.ess[least]:.0f} ({sample.labels[least]}), "
            f"R-hat {sample.rhat[most]:.3f} ({sample.labels[most]})"
        )
    if sample.method == "nuts":
        facts.append(f"{'why NUTS:':12}{sample.against_weights or 'it was asked for'}")
    if sample.bad_scores.total:
        facts.append(f"{'bad scores:':12}{sample.bad_scores.describe()}")
    facts += [f"{'note:':12}{note}" for note in sample.notes]
    facts.append(f"{'status:':12}{sample.status}: {sample.status.cause}")
    return facts + verdict_lines(sample.verdict)
