"""How often the verdict is right: every target of the zoo, and the eight posteriors.

``python -m scorevi.studies.trust --out docs/trust.md`` fits and checks all of them, and writes the
tables between the marks of that file. A fit is wrong where the mean of some marginal is off by more
than 0.3 of its standard deviations, or some standard deviation by more than a factor of 1.5.
"""

from __future__ import annotations

import argparse
import math
import os
import warnings
from collections import Counter
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import NamedTuple

import numpy as np

from scorevi.base.status import FitWarning
from scorevi.base.target import Target
from scorevi.fit import fit
from scorevi.results.fit import Fit
from scorevi.studies.held_out import held_out
from scorevi.studies.metrics import moment_errors
from scorevi.studies.posteriordb import EIGHT, Posterior, database, paired
from scorevi.studies.zoo import Moments, zoo

MEAN_OFF, SD_OFF = 0.3, 1.5
_VERDICTS = ("pass", "warn", "fail")


class Trial(NamedTuple):
    """One fit, its verdict, and the truth."""

    target: str
    seed: int
    status: str
    gradients: int
    verdict: str
    mean_off: float
    """The largest error of a mean, in standard deviations; NaN where there is no truth."""
    sd_off: float
    """The largest factor by which a standard deviation is off."""
    reason: str
    """The first reason of the verdict."""

    @property
    def wrong(self) -> bool:
        """Whether the fit is wrong; one of what has no answer always is."""
        return not (self.mean_off <= MEAN_OFF and self.sd_off <= SD_OFF)


def trials(seeds: int, names: str = "") -> Iterator[Trial]:
    """Fit and check every target of which the name contains ``names``."""
    for name, make in (zoo() | held_out()).items():
        if names in name:
            animal = make()
            for seed in range(seeds):
                yield _trial(name, animal.target, seed, partial(_errors, truth=animal.truth))
    if "PDB_PATH" not in os.environ:
        return
    for name in EIGHT:
        if names in name:
            posterior = Posterior(database(), name)
            reference = posterior.reference()
            target = posterior.target()
            for seed in range(seeds):
                yield _trial(name, target, seed, partial(_errors_by_name, reference=reference))


def _trial(
    name: str, target: Target, seed: int, errors: Callable[[Fit], tuple[float, float]]
) -> Trial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the verdict says it
        result = fit(target, seed=seed)
        verdict = result.check(seed=seed)
        mean_off, sd_off = errors(result) if result.num_updates else (math.nan, math.nan)
    reason = verdict.reasons[0].text if verdict.reasons else ""
    status, spent = str(result.status), result.num_gradients
    return Trial(name, seed, status, spent, str(verdict), mean_off, sd_off, reason)


def _errors(fit: Fit, truth: Moments | None) -> tuple[float, float]:
    if truth is None:
        return math.nan, math.nan
    return _worst(fit.q.mean, fit.q.sd, truth.mean, truth.sd)


def _errors_by_name(fit: Fit, reference: dict[str, np.ndarray]) -> tuple[float, float]:
    """Compare constrained draws with reference draws."""
    draws, theirs = paired(fit.draws(20_000, seed=0), reference)
    return _worst(draws.mean(axis=0), draws.std(axis=0), theirs.mean(axis=0), theirs.std(axis=0))


def _worst(*moments: np.ndarray) -> tuple[float, float]:
    errors = moment_errors(*moments)
    return errors.mean, math.exp(errors.sd)


def confusion(found: list[Trial]) -> str:
    """Return the table of verdicts against the truth, those of held-out targets apart."""
    apart = held_out()
    counts = Counter((trial.target in apart, trial.wrong, trial.verdict) for trial in found)
    lines = ["| targets | the fit is | pass | warn | fail |", "|---|---|---|---|---|"]
    for out, which in ((False, "zoo and the eight"), (True, "held out")):
        for wrong, word in ((False, "right"), (True, "wrong")):
            row = " | ".join(str(counts[out, wrong, verdict]) for verdict in _VERDICTS)
            lines.append(f"| {which} | {word} | {row} |")
    return "\n".join(lines)


def details(found: list[Trial]) -> str:
    """Return a line for each target."""
    lines = [
        "| target | gradients | mean off, sd | sd off, factor | right | pass / warn / fail |",
        "|---|---|---|---|---|---|",
    ]
    for name in dict.fromkeys(trial.target for trial in found):
        rows = [trial for trial in found if trial.target == name]
        counts = Counter(row.verdict for row in rows)
        gradients = sorted(row.gradients for row in rows)
        right = sum(not row.wrong for row in rows)
        worst_mean = max(row.mean_off for row in rows)
        worst_sd = max(row.sd_off for row in rows)
        tally = " / ".join(str(counts[verdict]) for verdict in _VERDICTS)
        lines.append(
            f"| {name} | {gradients[0]} to {gradients[-1]} | {_figure(worst_mean)} | "
            f"{_figure(worst_sd)} | {right} of {len(rows)} | {tally} |"
        )
    return "\n".join(lines)


def _figure(value: float) -> str:
    if math.isnan(value):
        return "no truth"
    return f"{value:.2f}" if value < 100 else f"{value:.0e}"


def write(path: Path, tables: dict[str, str]) -> None:
    """Put tables between the marks ``<!-- name -->`` and ``<!-- end -->`` of a file."""
    text = path.read_text(encoding="utf-8")
    for name, table in tables.items():
        mark, end = f"<!-- {name} -->\n", "<!-- end -->"
        before, found, rest = text.partition(mark)
        if not found or end not in rest:
            raise ValueError(f"{path} has no place for the table: {mark.strip()} … {end}.")
        text = before + mark + table + "\n" + end + rest.partition(end)[2]
    path.write_text(text, encoding="utf-8")


def main() -> None:
    """Run the study from the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seeds", type=int, default=10)
    parser.add_argument("--only", default="", help="targets whose names contain this")
    parser.add_argument("--out", type=Path, help="the file to put the tables into")
    options = parser.parse_args()
    found = []
    for trial in trials(options.seeds, options.only):
        found.append(trial)
        word = "wrong" if trial.wrong else "right"
        print(
            f"{word} {trial.verdict:4} {trial.target}, seed {trial.seed}: {trial.gradients} "
            f"gradients, {trial.status}, mean {_figure(trial.mean_off)}, "
            f"sd {_figure(trial.sd_off)}; {trial.reason}",
            flush=True,
        )
    tables = {"confusion": confusion(found), "targets": details(found)}
    if options.out is not None:
        write(options.out, tables)
    print("\n".join(["", *tables.values()]))


if __name__ == "__main__":
    main()
