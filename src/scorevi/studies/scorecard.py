"""The scorecard: what became of the paper's claims, from the results on disk."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

from scorevi.studies.best_rate import best_rate
from scorevi.studies.claim_tables import details, table_of
from scorevi.studies.claims import CLAIMS, Claim
from scorevi.studies.execute import STUDIES
from scorevi.studies.levels import ELBO
from scorevi.studies.rules import Found
from scorevi.studies.table import Table, read_rows

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
        parts += [text + "\n" for text in (lines_of(name, table), details(name, table)) if text]
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
