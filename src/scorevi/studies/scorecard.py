"""The scorecard: what became of the paper's claims, from the results on disk."""

from __future__ import annotations

import json
import math
import shutil
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scorevi.studies.best_rate import best_rate
from scorevi.studies.claims import CLAIMS, Claim
from scorevi.studies.execute import STUDIES
from scorevi.studies.figures import NAMES
from scorevi.studies.posteriors import NEAR_GAUSSIAN, VERDICTS
from scorevi.studies.rules import CONVERGED, ELBO, KL, NATS, Found, best_elbo
from scorevi.studies.table import Curve, Table, read_rows, short

AT = 1_000
"""Gradients, the start's included, at which the flagship is judged on the posteriors."""
BARS = {
    **dict.fromkeys(NEAR_GAUSSIAN, 0.2),
    "eight_schools-eight_schools_noncentered": 0.2,
    "low_dim_gauss_mix-low_dim_gauss_mix": 0.2,
    "gp_pois_regr-gp_pois_regr": 0.5,
}
"""Nats below the best Gaussian that are allowed then, in nine of ten seeds."""
_SHARE = 0.9
_INTRODUCTION = """# Scorecard

Every empirical claim of *Variational Inference with Gaussian Score Matching* (Modi et al., NeurIPS
2023, arXiv 2307.07849), in our words, against what `scorevi study all` measured. A claim *holds*,
*holds partly* or *does not hold here*: that is decided by the rule in its row, from the results on
disk, never by hand. The last column applies the same rule to `auto`, the library's own solver, in
the place of GSM.

Medians over {runs} runs. `10×` means that BBVI, with the best of the learning rates 0.1, 0.01 and
0.001 and 8 draws a step, took ten times the gradients; `> 10×`, that it had not arrived when its
budget of ten times the gradients was spent. All begin with N(0, I), on posteriordb with 0.1·I at
the mode, as in the paper; there `auto` has to find its own start, and every gradient of that is
counted. Written by `scorevi study scorecard`.
"""


def load_table(folder: Path) -> Table | None:
    """Read the results of a study, if there are any."""
    path = folder / "results.csv"
    return Table(tuple(read_rows(path))) if path.is_file() else None


def lines_of(study: str, table: Table) -> str:
    """Return the rows of the scorecard that a study decides, as a table."""
    claims = [claim for claim in CLAIMS if claim.study == study]
    head = ["the paper says", "rule", "measured", "verdict", "`auto` in its place"]
    return table_of(head, (_row(claim, table) for claim in claims)) if claims else ""


def verdicts_of(study: str, table: Table) -> list[tuple[str, str]]:
    """Return the claims that a study decides, and how."""
    found = [(claim, _decided(claim, table, "gsm")) for claim in CLAIMS if claim.study == study]
    return [(claim.says, one.verdict) for claim, one in found if one is not None]


def _row(claim: Claim, table: Table) -> list[str]:
    found, own = (_decided(claim, table, solver) for solver in ("gsm", "auto"))
    if found is None:
        return [claim.says, claim.rule, "not all that it compares was run", "", ""]
    ours = f"{own.verdict}: {own.figure}" if own is not None and claim.study != "batch-size" else ""
    return [claim.says, claim.rule, found.figure, f"**{found.verdict}**", ours]


def _decided(claim: Claim, table: Table, solver: str) -> Found | None:
    """Decide a claim; None where something that it compares was not run."""
    if claim.study == "batch-size":
        return claim.decide(table, "gsm")
    metric = STUDIES[claim.study].metric
    for target in table.targets:
        needed = [solver, best_rate(table, target, metric), "best" if metric == ELBO else solver]
        if not all(label and table.curves(target, label, metric) for label in needed):
            return None
    return claim.decide(table, solver)


def table_of(head: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table in Markdown."""
    lines = ["| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(cell.replace("|", "\\|") for cell in row) + " |" for row in rows]
    return "\n".join(lines)


def write_scorecard(folder: Path, path: Path) -> list[str]:
    """Write the scorecard of all results in a folder, with its figures beside it.

    Returns the names of studies that have not been run.
    """
    tables = {name: load_table(folder / name) for name in STUDIES}
    found = {name: table for name, table in tables.items() if table is not None}
    if not found:
        raise ValueError(
            f"there are no results in {folder}. Run a study first: scorevi study all --out {folder}"
        )
    about = {name: _about(folder / name) for name in found}
    runs = sorted({int(one["runs"]) for one in about.values()})
    parts = [_INTRODUCTION.format(runs=" or ".join(map(str, runs)))]
    if any(one["quick"] for one in about.values()):
        parts.append("**Quick runs: too short to be evidence for or against anything.**\n")
    parts += [_versions(about), "\n## At a glance\n", _at_a_glance(found)]
    pictures = path.parent / "figures"
    pictures.mkdir(parents=True, exist_ok=True)
    for name, table in found.items():
        parts.append(f"\n## {STUDIES[name].title}\n")
        shutil.copyfile(folder / name / f"{name}.png", pictures / f"{name}.png")
        parts.append(f"![{STUDIES[name].title}](figures/{name}.png)\n")
        parts += [text + "\n" for text in (lines_of(name, table), _details(name, table)) if text]
    path.write_text("\n".join(parts), encoding="utf-8")
    return [name for name in STUDIES if name not in found]


def _at_a_glance(tables: dict[str, Table]) -> str:
    rows = []
    for claim in CLAIMS:
        if claim.study in tables:
            found, own = (_decided(claim, tables[claim.study], who) for who in ("gsm", "auto"))
            ours = own.verdict if own is not None and claim.study != "batch-size" else ""
            rows.append([claim.study, claim.says, found.verdict if found else "not run", ours])
    return table_of(["study", "the paper says", "verdict", "`auto` in its place"], rows)


def _about(folder: Path) -> dict[str, Any]:
    about: dict[str, Any] = json.loads((folder / "about.json").read_text(encoding="utf-8"))
    return about


def _versions(about: dict[str, dict[str, Any]]) -> str:
    """Say with what the results were made."""
    names = [key for one in about.values() for key in one if key not in ("runs", "quick")]
    told = []
    for name in dict.fromkeys(names):
        values = sorted({str(one[name]) for one in about.values() if name in one})
        told.append(f"{name} {' or '.join(values)}")
    return f"Made with {', '.join(told)}; seeds from 0 up."


def _details(name: str, table: Table) -> str:
    """Return the figures behind the claims of a study."""
    if name in ("dimensions", "condition"):
        return _gradients(table, dict.fromkeys(table.targets, CONVERGED), KL)
    if name == "initialization":
        levels = {target: best_elbo(table, target) + NATS for target in table.targets}
        return _gradients(table, levels, ELBO)
    if name == "clock":
        return _clock(table)
    if name == "posteriordb":
        levels = {target: best_elbo(table, target) + NATS for target in table.targets}
        parts = [_gradients(table, levels, ELBO), _quality(table)]
        return "\n".join(part for part in [*parts, *_flagship(table)] if part)
    return ""


def _columns(table: Table, target: str, metric: str, level: float) -> Iterator[tuple[str, str]]:
    """Yield the name and the label of each solver, BBVI with its best learning rate."""
    for solver, name in NAMES.items():
        label = best_rate(table, target, metric, level) if solver == "bbvi" else solver
        yield name, label or ""


def _gradients(table: Table, levels: dict[str, float], metric: str) -> str:
    """Return gradients to a level, with their spread."""
    rows = []
    for target, level in levels.items():
        cells = []
        for _, label in _columns(table, target, metric, level):
            curves = table.curves(target, label, metric)
            needed = [curve.first_below(level) for curve in curves]
            cells.append(_spread(needed) + (f" ({label})" if label.startswith("bbvi") else ""))
        rows.append([short(target), *cells])
    what = (
        f"a forward KL of {CONVERGED}" if metric == KL else f"within {NATS:g} nat of the best ELBO"
    )
    return f"Gradients to {what}, median (least to most):\n\n" + table_of(
        ["target", *NAMES.values()], rows
    )


def _spread(values: Sequence[float], unit: str = "{:,.0f}") -> str:
    if not values:
        return "not run"
    if not math.isfinite(min(values)):
        return "not reached"
    low, middle, high = min(values), float(np.median(values)), max(values)
    told = [unit.format(one) if math.isfinite(one) else "never" for one in (middle, low, high)]
    return told[0] if low == high else f"{told[0]} ({told[1]} to {told[2]})"


def _clock(table: Table) -> str:
    """Return seconds to a tenth of a nat."""
    rows = []
    for target in table.targets:
        level = best_elbo(table, target) + 0.1
        cells = []
        for _, label in _columns(table, target, ELBO, level):
            curves = table.curves(target, label, ELBO)
            cells.append(_spread([curve.seconds_below(level) for curve in curves], "{:.3g}"))
        rows.append([target, *cells])
    return "Seconds to within 0.1 nats of the best ELBO, median (least to most):\n\n" + table_of(
        ["target", *NAMES.values()], rows
    )


def _quality(table: Table) -> str:
    """Return errors against the reference draws at the end of each budget."""
    metrics = ("mean error", "log sd error", "Wasserstein", "k-hat")
    rows = []
    for target in table.targets:
        for name, label in _columns(table, target, ELBO, best_elbo(table, target) + NATS):
            ends = [[c.last for c in table.curves(target, label, one)] for one in metrics]
            if any(ends):
                seconds = [curve.seconds[-1] for curve in table.curves(target, label, ELBO)]
                cells = [_spread(values, "{:.2g}") for values in ends]
                rows.append([short(target), name, *cells, _spread(seconds, "{:.2g}")])
    head = "At the end of each budget, against the reference draws, the worst marginal counts, "
    head += "median (least to most). The means are in reference sds; the log of a ratio of sds; "
    head += "the 1-Wasserstein distance in reference sds."
    columns = ["posterior", "solver", "mean", "log sd", "Wasserstein", "k-hat", "seconds"]
    return f"\n{head}\n\n" + table_of(columns, rows)


def _flagship(table: Table) -> Iterator[str]:
    """Yield what ``auto`` does on the posteriors, and whether it is what we ask of it."""
    if "auto" not in table.solvers:
        return
    rows = []
    for target in table.targets:
        best = best_elbo(table, target)
        below = [curve.at(AT) - best for curve in table.curves(target, "auto", ELBO)]
        defaults = _by_default(table, target)
        bar = BARS.get(target)
        met = ""
        if bar is not None:
            good = sum(value <= bar for value in below)
            met = f"{good} of {len(below)} within {bar}: " + (
                "met" if good >= _SHARE * len(below) else "not met"
            )
        elif target.endswith("eight_schools_centered"):
            met = "settled, never `pass`: " + ("met" if _honest(table, target) else "not met")
        rows.append([short(target), _spread(below, "{:.3f}"), met, *defaults])
    yield (
        f"\n`auto` from its own start: nats below the best Gaussian at {AT:,} gradients, the "
        "start's included, median (least to most); and with its own stop rule and verdict.\n"
    )
    head = ["posterior", "nats below", "asked for", "stops after", "mean error", "log sd error"]
    yield table_of([*head, "verdicts"], rows)


def _by_default(table: Table, target: str) -> list[str]:
    label = "auto, by default"
    ends: list[Curve] = table.curves(target, label, ELBO)
    counts = [int(curve.last) for curve in table.curves(target, label, "verdict")]
    words = [f"{counts.count(i)} {word}" for i, word in enumerate(VERDICTS) if counts.count(i)]
    errors = [
        _spread([curve.last for curve in table.curves(target, label, name)], "{:.2g}")
        for name in ("mean error", "log sd error")
    ]
    return [_spread([float(c.gradients[-1]) for c in ends]), *errors, ", ".join(words)]


def _honest(table: Table, target: str) -> bool:
    """Whether all fits by default are finite and settled, and none of them passes."""
    label = "auto, by default"
    finite = all(math.isfinite(c.last) for c in table.curves(target, label, ELBO))
    settled = all(c.last == 1.0 for c in table.curves(target, label, "settled"))
    return finite and settled and all(c.last > 0 for c in table.curves(target, label, "verdict"))
