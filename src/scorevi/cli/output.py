"""What the commands print, how they exit, and their words for what went wrong."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from scorevi.base.files import check_folder
from scorevi.base.status import FitWarning
from scorevi.cli.loading import load_target
from scorevi.results.fit import Fit
from scorevi.results.report import as_json, print_report
from scorevi.results.sample import Sample
from scorevi.results.sample_report import as_json as sample_as_json
from scorevi.results.sample_report import print_sample_report
from scorevi.targets import Target

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def load_model(command: click.Command, target: str, dim: int | None, **more: Any) -> Target:
    """Return what TARGET stands for; what its front end warns of is shown as notes."""

    def note(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"scorevi: note: {as_options(str(message), command)}", err=True)

    with warnings.catch_warnings():
        warnings.showwarning = note
        warnings.simplefilter("always", FitWarning)
        return load_target(target, dim, **more)


def unless(option: str, path: Path | None, void: bool, what: str = "fitted") -> Path | None:
    """Return the path to write to, or say that there is nothing to write."""
    if path is None or not void:
        return path
    click.echo(f"scorevi: note: {option} {path} was not written: nothing was {what}.", err=True)
    return None


def print_fit(result: Fit | Sample, json_: bool, rows: int, files: dict[str, Path]) -> None:
    """Print the report of a fit or sample, or its JSON, as the last thing that a command does."""
    if hasattr(signal, "SIGPIPE"):
        # All is done but the printing. Left to themselves, click and rich make a failure of a
        # reader that has seen enough.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if json_:
        told = as_json(result, files) if isinstance(result, Fit) else sample_as_json(result, files)
        click.echo(json.dumps(told, indent=2, allow_nan=False))
    elif isinstance(result, Fit):
        print_report(result, rows, files)
    else:
        print_sample_report(result, rows, files)


def exit_as(result: Fit | Sample) -> None:
    """Turn how it ended into the exit code."""
    if result.status == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    void = result.num_updates == 0 if isinstance(result, Fit) else result.size == 0
    if not result.status.ok or void or result.verdict == "fail":
        sys.exit(EXIT_FAILED)


def check_out(path: Path, *endings: str) -> None:
    """Refuse an ``--out`` that could not be written; one without an ending may stand for .npz."""
    with naming("--out"):
        check_folder(path)
    if path.suffix not in endings and (path.suffix or endings != (".npz",)):
        raise ValueError(f"--out must end in {' or '.join(endings)}; got {path.name}.")


@contextlib.contextmanager
def naming(option: str) -> Iterator[None]:
    """Put errors about a Python function's ``path`` in terms of the command line."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("`path`", option)) from error


def as_options(text: str, command: click.Command) -> str:
    """Put a message about arguments of the Python functions in terms of the options.

    Such a message begins with the argument that it is about. Any other is left as it is: what it
    has between backticks may be a member of an object, or a user's own word.
    """
    options = {str(param.name): param.opts[0] for param in command.params if param.name != "target"}
    options["program"] = "PROGRAM"
    about = re.match(r"`(\w+)`", text)
    if about is None or about[1] not in (*options, "target"):
        return text
    return re.sub(r"`(\w+)`", lambda found: options.get(found[1], found[0]), text)
