"""``scorevi study``: the experiments of the paper, and what became of its claims."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

import click

from scorevi.base.extras import require
from scorevi.base.progress import runs_bar
from scorevi.cli.options import progress_option, scheduler_option
from scorevi.studies import SOLVER_NAMES, STUDY_NAMES

_HELP = f"""Run the study NAME, of the GSM-VI paper or of our own, or go on with it.

\b
NAME is one of
  {", ".join(STUDY_NAMES[:4])},
  {", ".join(STUDY_NAMES[4:])},
  all        every one of them
  scorecard  no runs: gather the results on disk into one page

Each study has a folder: results.csv with a row for each run, checkpoint and metric, the figure as
PNG and SVG, and its lines of the scorecard. What is finished is not computed again.

\b
Examples:
  scorevi study dimensions --quick
  scorevi study posteriordb --posteriordb posteriordb/posterior_database
  scorevi study posteriordb --posterior radon_mn-radon_pooled
  scorevi study all && scorevi study scorecard
"""


@click.command(help=_HELP)
@click.argument("name", type=click.Choice([*STUDY_NAMES, "all", "scorecard"]), metavar="NAME")
@click.option(
    "--runs", type=click.IntRange(1), help="Runs of each solver.  [default: 10, or 2 with --quick]"
)
@click.option("--quick", is_flag=True, help="Few and short runs, to see that all works.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder of the results.  [default: scorevi-studies, or scorevi-studies/quick]",
)
@click.option(
    "--workers",
    type=click.IntRange(1),
    help="Processes to use.  [default: one for each core]",
)
@click.option(
    "--solvers",
    default=",".join(SOLVER_NAMES),
    show_default=True,
    help="Which solvers take part.",
)
@click.option(
    "--posteriordb",
    "database",
    type=click.Path(file_okay=False, path_type=Path),
    help="The folder posterior_database of a posteriordb.  [default: the variable PDB_PATH]",
)
@click.option(
    "--posterior",
    "posteriors",
    multiple=True,
    metavar="NAME",
    help="A posterior in it to study in place of the paper's eight; may be repeated.",
)
@click.option(
    "--to",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Where the scorecard is written, its figures beside it.  [default: OUT/scorecard.md]",
)
@scheduler_option
@progress_option
def study(
    name: str,
    runs: int | None,
    quick: bool,
    out: Path | None,
    workers: int | None,
    solvers: str,
    database: Path | None,
    posteriors: tuple[str, ...],
    to: Path | None,
    client: str | None,
    progress: bool | None,
) -> None:
    """Run, draw and tell."""
    # Here, because what studies need takes long to import.
    from scorevi.studies.execute import run_studies
    from scorevi.studies.plan import Options

    folder = out or Path("scorevi-studies/quick" if quick else "scorevi-studies")
    if name == "scorecard":
        _gather(folder, to)
        return
    if to is not None:
        raise ValueError("--to goes with NAME scorecard.")
    if posteriors and name != "posteriordb":
        raise ValueError(f"--posterior goes with NAME posteriordb; got {name}.")
    require("matplotlib")
    names = _names(name, database)
    options = Options(
        runs=runs or (2 if quick else 10),
        quick=quick,
        solvers=_solvers(solvers),
        database=database,
        posteriors=posteriors,
    )
    with runs_bar(progress) as show:
        count = workers or os.cpu_count() or 1
        run_studies(names, options, folder, workers=count, client=client, show=show)
    for one in names:
        _tell(one, folder / one)
    if quick:
        click.echo("scorevi: note: quick runs are too short to be evidence", err=True)


def _names(name: str, database: Path | None) -> Sequence[str]:
    """Return the studies to run; of all, those that can be."""
    if name != "all":
        return [name]
    if database or os.environ.get("PDB_PATH"):
        return STUDY_NAMES
    click.echo(
        "scorevi: note: the study posteriordb is left out; it needs --posteriordb or PDB_PATH, the "
        "folder posterior_database of a clone of https://github.com/stan-dev/posteriordb",
        err=True,
    )
    return [one for one in STUDY_NAMES if one != "posteriordb"]


def _solvers(text: str) -> tuple[str, ...]:
    wanted = [one.strip() for one in text.split(",")]
    for one in wanted:
        if one not in SOLVER_NAMES:
            raise ValueError(f"--solvers must be out of {', '.join(SOLVER_NAMES)}; got {one!r}.")
    return tuple(one for one in SOLVER_NAMES if one in wanted)


def _tell(name: str, folder: Path) -> None:
    """Write a study's lines of the scorecard beside its results, and print their verdicts."""
    from scorevi.studies.scorecard import lines_of, load_table, verdicts_of

    table = load_table(folder)
    if table is None:
        return
    lines = lines_of(name, table)
    if lines:
        (folder / "scorecard.md").write_text(lines + "\n", encoding="utf-8")
    click.echo(f"{name}: {folder / 'results.csv'}, {folder / name}.png and .svg")
    for says, verdict in verdicts_of(name, table):
        click.echo(f"  {verdict}: {says}")


def _gather(folder: Path, to: Path | None) -> None:
    from scorevi.studies.scorecard import write_scorecard

    path = to or folder / "scorecard.md"
    missing = write_scorecard(folder, path)
    click.echo(path)
    if missing:
        click.echo(f"scorevi: note: not run yet: {', '.join(missing)}", err=True)
