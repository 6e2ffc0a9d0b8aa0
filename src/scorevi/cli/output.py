"""What the commands print, how they exit, and their words for what went wrong."""

from __future__ import annotations

import contextlib
import json
import re
import signal
import sys
from collections.abc import Iterator
from pathlib import Path

import click

from scorevi.base.files import check_folder
from scorevi.results.fit import Fit
from scorevi.results.report import as_json, print_report

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130


def print_fit(fit: Fit, json_: bool, rows: int, files: dict[str, Path]) -> None:
    """Print the report of a fit, or its JSON, as the last thing that a command does."""
    if hasattr(signal, "SIGPIPE"):
        # All is done but the printing. Left to themselves, click and rich make a failure of a
        # reader that has seen enough.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if json_:
        click.echo(json.dumps(as_json(fit, files), indent=2, allow_nan=False))
    else:
        print_report(fit, rows, files)


def exit_as(fit: Fit) -> None:
    """Turn how the fit ended into the exit code."""
    if fit.status == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    if not fit.status.ok or fit.num_updates == 0 or fit.verdict == "fail":
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
