"""Options that several commands share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

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


Decorator = Callable[[Any], Any]


def _all(options: Sequence[Decorator]) -> Decorator:
    """Return one decorator for several options, which keep their order in the help."""

    def decorate(command: Any) -> Any:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


target_options = _all(
    [
        click.option(
            "--dim", type=int, help="The dimension, where TARGET is a JAX log density of a vector."
        ),
        click.option(
            "--data",
            type=click.Path(dir_okay=False, path_type=Path),
            help="The JSON file with the data of a Stan program.",
        ),
        include_path_option,
        click.option(
            "--observed",
            multiple=True,
            metavar="NAME",
            help="Data of a Stan program that were observed, for ArviZ; may be repeated.",
        ),
        click.option(
            "--predictive",
            multiple=True,
            metavar="NAME",
            help="A generated quantity of a Stan program that is a draw of data, such as y_rep; "
            "may be repeated.",
        ),
    ]
)
"""What TARGET may need beside its name."""
file_options = _all(
    [
        click.option(
            "--out",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Save the result to this .npz file.",
        ),
        click.option(
            "--draws",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Write draws by name to this file: .nc for ArviZ, .csv or .parquet.",
        ),
    ]
)
safety_options = _all(
    [
        click.option(
            "--checkpoint",
            type=click.Path(dir_okay=False, path_type=Path),
            help="Keep the run in this file while it goes on, to go on from.",
        ),
        click.option(
            "--resume", is_flag=True, help="Go on from the file of --checkpoint, if there is one."
        ),
        click.option(
            "--checkpoint-seconds",
            type=float,
            default=10.0,
            show_default=True,
            help="The time between two writings of it.",
        ),
        click.option(
            "--isolate",
            is_flag=True,
            help="Compute the scores in another process, which may crash.",
        ),
        click.option(
            "--score-timeout",
            type=float,
            help="Seconds after which a point is given up; implies --isolate.",
        ),
        click.option(
            "--workers", type=int, help="Compute scores in so many processes; implies --isolate."
        ),
    ]
)
"""Checkpoints, and processes of their own."""
