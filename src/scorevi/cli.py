"""The command line. No numerics here."""

from __future__ import annotations

import contextlib
import dataclasses
import json
import re
import signal
import sys
import traceback
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

from scorevi import examples
from scorevi._version import __version__
from scorevi.export import check_folder, check_format, write_draws
from scorevi.fit import fit as run_fit
from scorevi.initialize import WAYS
from scorevi.loading import load_point, load_target
from scorevi.plots import save_picture
from scorevi.report import as_json, print_report
from scorevi.results import Fit
from scorevi.solvers import SOLVERS
from scorevi.stan.build import compile_stan, copy_library
from scorevi.stan.toolchain import CompileError
from scorevi.status import FitWarning
from scorevi.storage import load
from scorevi.targets.isolated import evaluating

EXIT_FAILED, EXIT_USAGE, EXIT_INTERRUPTED = 1, 2, 130

_LIBRARIES = (".so", ".dylib")

_EXIT_CODES = """\b
Exit codes:
  0    done
  1    the fit failed: it diverged, its scores were bad, or its verdict is fail
  2    the request could not be carried out; the last line says why
  130  interrupted"""


_HELP = """Fit a Gaussian to a posterior from its score, the gradient of its log density.

\b
Try it:       scorevi demo
Your model:   scorevi fit model.stan --data data.json --draws draws.nc
              scorevi fit model.py:target --out fit.npz
Look again:   scorevi show fit.npz

--debug, anywhere on the line, shows the traceback of an error.
"""

_FIT_HELP = """Fit the posterior TARGET: a Stan program, or module:name or file.py:name.

\b
The name may stand for
  - a target, made by scorevi.from_function, from_jax, from_numpyro, from_pymc or from_stan
  - a PyMC model
  - an object with `dim` and `score`
  - a function without arguments that returns one of these
  - a log density in JAX of a vector; say its length with --dim

\b
Examples:
  scorevi fit model.stan --data data.json --draws draws.nc
  scorevi fit model.py:target
  scorevi fit mypackage.models:log_density --dim 12 --initial mode
  scorevi fit model.py:target --out fit.npz --draws draws.csv --json
"""


@click.group(
    help=_HELP, epilog=_EXIT_CODES, context_settings={"help_option_names": ["-h", "--help"]}
)
@click.version_option(__version__, prog_name="scorevi")
def cli() -> None:
    """Hold the commands together."""


_as_json = click.option("--json", "json_", is_flag=True, help="Print the result as JSON.")
_rows = click.option(
    "--rows", default=40, show_default=True, help="The most parameters to print; 0 for all."
)
_include_paths = click.option(
    "--include-path",
    "include_paths",
    multiple=True,
    type=click.Path(file_okay=False, path_type=Path),
    help="A folder with files that the Stan program includes; may be repeated.",
)
_progress = click.option(
    "--progress/--no-progress",
    default=None,
    help="Show a progress bar, on standard error.  [default: in a terminal]",
)
_seed = click.option(
    "--seed",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="The same seed, the same bits.",
)


@cli.command()
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    default="scorevi-demo.png",
    show_default=True,
    help="Where to save the picture.",
)
@_seed
@_as_json
def demo(picture: Path, seed: int, json_: bool) -> None:
    """Fit the eight-schools posterior, print it and save a picture of it.

    The data come with the package; no compiler is needed. The picture needs matplotlib:
    pip install 'scorevi[plots]'.
    """
    fit = run_fit(examples.eight_schools(), seed=seed)
    fit.check(seed=seed)
    files = {}
    try:
        with _naming("--picture"):
            save_picture(fit, picture, title="Eight schools (Rubin 1981)")
        files["picture"] = picture
    except ImportError as error:
        click.echo(f"scorevi: no picture: {error}", err=True)
    _print(fit, json_, 0, files)
    _exit(fit)


@cli.command(help=_FIT_HELP)
@click.argument("target")
@click.option(
    "--dim", type=int, help="The dimension, where TARGET is a JAX log density of a vector."
)
@click.option(
    "--data",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The JSON file with the data of a Stan program.",
)
@_include_paths
@click.option(
    "--observed",
    multiple=True,
    metavar="NAME",
    help="Data of a Stan program that were observed, for ArviZ; may be repeated.",
)
@click.option(
    "--predictive",
    multiple=True,
    metavar="NAME",
    help="A generated quantity of a Stan program that is a draw of data, such as y_rep; may be "
    "repeated.",
)
@click.option(
    "--solver",
    type=click.Choice(["auto", *SOLVERS]),
    default="auto",
    show_default=True,
    help="How.",
)
@click.option(
    "--max-gradients",
    type=int,
    help="Gradient evaluations to spend at most, the start's included.  "
    "[default: 10000, or no limit with --max-seconds]",
)
@click.option("--max-seconds", type=float, help="Seconds to spend at most.")
@click.option("--batch-size", type=int, help="Draws per update.  [default: the solver's]")
@_seed
@click.option(
    "--initial",
    metavar="START",
    help="Where to start: mode, laplace, lbfgs, or a point as numbers with commas between "
    "them.  [default: chosen by trying; the standard normal for a solver by name]",
)
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Save the fit to this .npz file.",
)
@click.option(
    "--draws",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write draws by name to this file: .nc for ArviZ, .csv or .parquet.",
)
@click.option(
    "--num-draws",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many draws to write.",
)
@click.option(
    "--stop/--no-stop",
    default=True,
    show_default=True,
    help="Stop when nothing is left to gain, or go on to the limit.",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="More fits from other starts, side by side; the best is kept.",
)
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Give a verdict on the fit, for some 700 to 2300 evaluations more.",
)
@click.option(
    "--checkpoint",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Keep the fit in this file while it runs, to go on from.",
)
@click.option(
    "--resume", is_flag=True, help="Go on from the file of --checkpoint, if there is one."
)
@click.option(
    "--checkpoint-seconds",
    type=float,
    default=10.0,
    show_default=True,
    help="The time between two writings of it.",
)
@click.option(
    "--isolate", is_flag=True, help="Compute the scores in another process, which may crash."
)
@click.option(
    "--score-timeout",
    type=float,
    help="Seconds after which a point is given up; implies --isolate.",
)
@click.option("--workers", type=int, help="Compute scores in so many processes; implies --isolate.")
@_progress
@_rows
@_as_json
def fit(
    target: str,
    dim: int | None,
    data: Path | None,
    include_paths: tuple[Path, ...],
    observed: tuple[str, ...],
    predictive: tuple[str, ...],
    initial: str | None,
    out: Path | None,
    draws: Path | None,
    num_draws: int,
    check: bool,
    rows: int,
    json_: bool,
    **options: Any,
) -> None:
    """Fit, check, save and print."""
    # What can be known to fail is refused before the work, not after it.
    if out is not None:
        _check_out(out, ".npz")
    if draws is not None:
        with _naming("--draws"):
            check_format(check_folder(draws))
    if options["max_gradients"] is None and options["max_seconds"] is None:
        options["max_gradients"] = 10_000
    files: dict[str, Path] = {}
    problem: ValueError | None = None
    # What a Stan program prints must not get among what is printed here.
    with contextlib.redirect_stdout(sys.stderr):
        with warnings.catch_warnings():
            warnings.showwarning = _note
            warnings.simplefilter("always", FitWarning)
            loaded = load_target(
                target,
                dim,
                data=data,
                include_paths=include_paths,
                observed=observed,
                predictive=predictive,
                progress=options["progress"],
            )
        result = run_fit(loaded, initial=load_point(initial, WAYS), **options)
        # A model that may crash is not to do so here, after the fit.
        where = (options["isolate"], options["score_timeout"], options["workers"])
        with evaluating(loaded, *where) as evaluated:
            result = dataclasses.replace(result, target=evaluated)
            if check and result.status != "interrupted":
                result.check(seed=options["seed"])
            try:
                if out is not None:
                    with _naming("--out"):
                        files["fit"] = result.save(out)
                if draws is not None and result.num_updates:
                    with _naming("--draws"):
                        write_draws(result, draws, num_draws, seed=options["seed"])
                    files["draws"] = draws
            except ValueError as error:
                problem = error  # what was fitted is printed all the same
        if result.num_updates:
            result.summary  # noqa: B018  (computed here, and kept)
    _print(result, json_, rows, files)
    if problem is not None:
        raise problem
    _exit(result)


@cli.command("compile")
@click.argument("program", type=click.Path(dir_okay=False, path_type=Path))
@_include_paths
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Copy the library to this .so file, with what it needs beside it.",
)
@_progress
def compile_(
    program: Path, include_paths: tuple[Path, ...], out: Path | None, progress: bool | None
) -> None:
    """Compile the Stan program PROGRAM, and print where the library is.

    It stays in the cache, so that a fit of the program need not wait. BridgeStan's clients load
    it too.
    """
    if program.suffix != ".stan":
        raise ValueError(f"PROGRAM must end in .stan; got {program.name}.")
    if out is not None:
        _check_out(out, *_LIBRARIES)
    library = compile_stan(program, include_paths=include_paths, progress=progress)
    click.echo(library if out is None else copy_library(library, out))


@cli.command()
@click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
@_rows
@_as_json
def show(path: Path, rows: int, json_: bool) -> None:
    """Print the saved fit PATH."""
    with _naming("PATH"):
        fit = load(path)
    _print(fit, json_, rows, {})
    _exit(fit)


def _print(fit: Fit, json_: bool, rows: int, files: dict[str, Path]) -> None:
    if hasattr(signal, "SIGPIPE"):
        # All is done but the printing. Left to themselves, click and rich make a failure of a
        # reader that has seen enough.
        signal.signal(signal.SIGPIPE, signal.SIG_DFL)
    if json_:
        click.echo(json.dumps(as_json(fit, files), indent=2, allow_nan=False))
    else:
        print_report(fit, rows, files)


def _exit(fit: Fit) -> None:
    """Turn how the fit ended into the exit code."""
    if fit.status == "interrupted":
        sys.exit(EXIT_INTERRUPTED)
    if not fit.status.ok or fit.num_updates == 0 or fit.verdict == "fail":
        sys.exit(EXIT_FAILED)


def _check_out(path: Path, *endings: str) -> None:
    with _naming("--out"):
        check_folder(path)
    if path.suffix not in endings and (path.suffix or endings != (".npz",)):
        raise ValueError(f"--out must end in {' or '.join(endings)}; got {path.name}.")


@contextlib.contextmanager
def _naming(option: str) -> Iterator[None]:
    """Put errors about a Python function's ``path`` in terms of the command line."""
    try:
        yield
    except ValueError as error:
        raise ValueError(str(error).replace("`path`", option)) from error


def _note(message: Warning | str, *_: Any, **__: Any) -> None:
    """Show what a model's front end warns of."""
    click.echo(f"scorevi: note: {_as_options(str(message))}", err=True)


def _as_options(text: str) -> str:
    """Put a message that names arguments of the Python functions in terms of the options."""
    options = {str(option.name): option.opts[0] for option in fit.params if option.name != "target"}
    options["program"] = "PROGRAM"
    return re.sub(r"`(\w+)`", lambda found: options.get(found[1], found[0]), text)


def main() -> None:
    """Run the command line; errors come out as one line."""
    warnings.simplefilter("ignore", FitWarning)  # the report says it
    debug = "--debug" in sys.argv[1:]
    arguments = [argument for argument in sys.argv[1:] if argument != "--debug"]
    try:
        cli(arguments, prog_name="scorevi", standalone_mode=False)
    except click.exceptions.Exit as error:
        sys.exit(error.exit_code)
    except click.exceptions.NoArgsIsHelpError as error:
        error.show()
        sys.exit(EXIT_USAGE)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        command = context.command_path if context else "scorevi"
        click.echo(f"{command}: error: {error.format_message()} (see --help)", err=True)
        sys.exit(EXIT_USAGE)
    except (KeyboardInterrupt, click.Abort):
        click.echo("scorevi: interrupted", err=True)
        sys.exit(EXIT_INTERRUPTED)
    except Exception as error:
        if debug:
            traceback.print_exc()
        else:
            text = str(error) if isinstance(error, CompileError) else " ".join(str(error).split())
            text = _as_options(text)
            if not isinstance(error, (ValueError, ImportError)):
                text = f"{type(error).__name__}: {text} (--debug shows where)"
            click.echo(f"scorevi: error: {text}", err=True)
        sys.exit(EXIT_USAGE)
