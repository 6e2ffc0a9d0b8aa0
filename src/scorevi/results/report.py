"""A fit in words and tables, for a person or as JSON."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorevi.families import Mixture
from scorevi.results.parts import Summary
from scorevi.results.structure import found_in
from scorevi.trust.verdict import Verdict

if TYPE_CHECKING:
    from scorevi.results.fit import Fit


def one_line(fit: Fit) -> str:
    """Return what a fit is, what it cost, and how it ended."""
    elbo = "" if math.isnan(fit.elbo) else f", ELBO {fit.elbo:.4g}"
    fisher = f", Fisher residual {fit.fisher:.3g}" if fit.quality.known else ""
    return (
        f"Fit of {fit.dim} dimensions{_kind(fit)} by {fit.solver}: {fit.num_gradients} gradients, "
        f"{fit.seconds:.2g} s{elbo}{fisher}; {fit.status}"
    )


def _kind(fit: Fit) -> str:
    count = len(fit.q.components) if isinstance(fit.q, Mixture) else 1
    return f", a mixture of {count}," if count > 1 else ""


def as_json(fit: Fit, files: Mapping[str, Path]) -> dict[str, Any]:
    """Return what there is to say about a fit as plain JSON values; NaN becomes null."""
    summary, notes = _summary(fit)
    return {
        "status": str(fit.status),
        "cause": fit.status.cause,
        "advice": fit.status.advice,
        "solver": fit.solver,
        "seed": fit.seed,
        "version": fit.version,
        "dim": fit.dim,
        "components": len(fit.q.components) if isinstance(fit.q, Mixture) else 1,
        "num_gradients": fit.num_gradients,
        "num_updates": fit.num_updates,
        "seconds": fit.seconds,
        "elbo": number(fit.elbo),
        "elbo_error": number(fit.quality.elbo_error),
        "fisher": number(fit.fisher),
        "bad_scores": dict(fit.bad_scores.counts),
        "verdict": verdict_as_json(fit.verdict),
        "notes": notes,
        "files": {name: str(path) for name, path in files.items()},
        "parameters": table_as_json(summary),
    }


def table_as_json(summary: Sequence[Summary]) -> list[dict[str, Any]]:
    """Return a table as plain JSON values."""
    return [
        {
            "name": row.name,
            "mean": number(row.mean),
            "sd": number(row.sd),
            "q05": number(row.lower),
            "q95": number(row.upper),
        }
        for row in summary
    ]


def print_report(fit: Fit, rows: int, files: Mapping[str, Path]) -> None:
    """Print a fit to standard output; no control characters unless that is a terminal.

    Parameters
    ----------
    fit
        What to print.
    rows
        The most parameters to print; 0 for all.
    files
        What was written where.
    """
    print_lines(_summary(fit)[0], rows, lines(fit), files)


def print_lines(
    summary: Sequence[Summary], rows: int, facts: Sequence[str], files: Mapping[str, Path]
) -> None:
    """Print a table, the facts below it, and what was written where."""
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    console = Console(highlight=False, soft_wrap=True)
    if summary:
        table = Table(box=None, pad_edge=False, header_style="bold")
        table.add_column("parameter", overflow="fold")
        for heading in ("mean", "sd", "5%", "95%"):
            table.add_column(heading, justify="right", no_wrap=True)
        shown = summary if rows <= 0 else summary[:rows]
        for row in shown:
            table.add_row(Text(row.name), *(f"{value:.4g}" for value in row[1:]))
        console.print(table)
        if len(shown) < len(summary):
            console.print(f"... and {len(summary) - len(shown)} more; --rows 0 shows all")
        console.print()
    for line in facts:
        console.print(line, markup=False)
    for name, path in files.items():
        console.print(f"{name + ':':12}{path}", markup=False)


def lines(fit: Fit) -> list[str]:
    """Return the facts below the table, one a line."""
    rate = f"{fit.num_gradients} gradients, {fit.num_updates} updates, {fit.seconds:.2g} s"
    facts = [f"{'solver:':12}{fit.solver}, {rate}"]
    if isinstance(fit.q, Mixture) and len(fit.q.components) > 1:
        facts.append(f"{'mixture:':12}{found_in(fit.q, fit.labels)}")
    if fit.num_updates:
        facts.append(f"{'quality:':12}{_quality(fit)}")
    if fit.bad_scores.total:
        facts.append(f"{'bad scores:':12}{fit.bad_scores.describe()}")
    facts += [f"{'note:':12}{note}" for note in _summary(fit)[1]]
    facts.append(f"{'status:':12}{fit.status}: {fit.status.cause}")
    if not fit.status.ok or fit.num_updates == 0:
        facts.append(f"{'':12}NOT FITTED. {fit.status.advice}")
    return facts + verdict_lines(fit.verdict)


def verdict_lines(verdict: Verdict | None) -> list[str]:
    """Return a verdict with its reasons, a line each."""
    if verdict is None:
        return []
    first, *reasons = verdict.explain().splitlines()
    return [f"{'verdict:':12}{first}", *(f"{'':12}{reason}" for reason in reasons)]


def _quality(fit: Fit) -> str:
    if not fit.quality.known:
        return "not known: too few of the last draws came from near q"
    elbo, error, fisher = fit.quality
    about = "" if math.isnan(elbo) else f"ELBO {elbo:.3f} ± {error:.2g}, "
    return f"{about}Fisher residual {fisher:.3g}"


def verdict_as_json(verdict: Verdict | None) -> dict[str, Any] | None:
    """Return a verdict as plain JSON values."""
    if verdict is None:
        return None
    return {
        "word": str(verdict),
        "khat": number(verdict.khat),
        "ess": number(verdict.ess),
        "num_evaluations": verdict.num_evaluations,
        "reasons": [reason._asdict() for reason in verdict.reasons],
    }


def _summary(fit: Fit) -> tuple[tuple[Summary, ...], list[str]]:
    """Return the table and the notes: among them, where there is no table, why."""
    notes = list(fit.notes)
    try:
        return fit.summary if fit.num_updates else (), notes
    except ValueError as error:
        return (), [*notes, f"no table: {error}"]


def number(value: float) -> float | None:
    """Return a number, or None where JSON has none for it."""
    return value if math.isfinite(value) else None
