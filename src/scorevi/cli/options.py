"""Options that several commands share."""

from __future__ import annotations

from pathlib import Path

import click

json_option = click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")
rows_option = click.option(
    "--rows", default=40, show_default=True, help="The most parameters to print; 0 for all."
)
include_path_option = click.option(
    "--include-path",
    "include_paths",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder with files that the Stan program includes; may be repeated.",
)
progress_option = click.option(
    "--progress/--no-progress",
    default=None,
    help="Show a progress bar, on standard error.  [default: in a terminal]",
)
scheduler_option = click.option(
    "--scheduler",
    "client",
    metavar="ADDRESS",
    help="The Dask scheduler, tcp://HOST:PORT, whose workers do the work.",
)
seed_option = click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The same seed, the same bits.",
)
