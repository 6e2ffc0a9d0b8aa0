"""The command ``fit``."""

from __future__ import annotations

import contextlib
import shlex
import sys
from pathlib import Path
from typing import Any

import click
from click.shell_completion import CompletionItem

from scorevi.base.files import check_folder
from scorevi.base.target import opened
from scorevi.cli.loading import load_point
from scorevi.cli.options import (
    file_options,
    json_option,
    progress_option,
    rows_option,
    safety_options,
    scheduler_option,
    seed_option,
    target_options,
)
from scorevi.cli.output import check_out, exit_as, load_model, naming, print_fit, unless
from scorevi.fit import fit as run_fit
from scorevi.results.page import check_page
from scorevi.results.protected import protected
from scorevi.results.restarting import placed
from scorevi.results.writing import check_format, write_draws
from scorevi.solvers import FAMILIES, SOLVERS
from scorevi.starts.start import WAYS

_FIT_HELP = """Fit the posterior TARGET: a Stan program, or module:name or file.py:name.

\b
The name may stand for
  - a target, made by scorevi.from_function, from_jax, from_numpyro, from_pymc, from_stan
    or from_shards
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


@click.command(help=_FIT_HELP)
@click.argument("target", shell_complete=lambda *_: [CompletionItem("", type="file")])
@target_options
@click.option(
    "--solver",
    type=click.Choice(["auto", *SOLVERS]),
    default="auto",
    show_default=True,
    help="How.",
)
@click.option(
    "--family",
    type=click.Choice(FAMILIES),
    default="auto",
    show_default=True,
    help="What the posterior asks for; one Gaussian; a mixture; or, in very many dimensions, one "
    "Gaussian with few directions or none.",
)
@click.option("--components", type=int, help="The most components of a mixture.")
@click.option("--rank", type=int, help="The most directions of the family low-rank.  [default: 16]")
@click.option(
    "--max-gradients",
    type=int,
    help="Gradient evaluations to spend at most, the start's included.  "
    "[default: 10000, or no limit with --max-seconds]",
)
@click.option("--max-seconds", type=float, help="Seconds to spend at most.")
@click.option("--batch-size", type=int, help="Draws per update.  [default: the solver's]")
@seed_option
@click.option(
    "--initial",
    metavar="START",
    help="Where to start: mode, laplace, lbfgs, or a point as numbers with commas between "
    "them.  [default: chosen by trying; the standard normal for a solver by name]",
)
@file_options
@click.option(
    "--report",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Write a report to this .html file.",
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
    "--tolerance",
    type=click.FloatRange(0, min_open=True),
    default=0.1,
    show_default=True,
    help="How near the best Gaussian is near enough to stop, in standard deviations.",
)
@click.option(
    "--restarts",
    type=click.IntRange(0),
    default=0,
    show_default=True,
    help="More fits from other starts, side by side where TARGET allows it; the best is kept.",
)
@click.option(
    "--check/--no-check",
    default=True,
    show_default=True,
    help="Give a verdict on the fit, for some 700 to 2700 evaluations more.",
)
@safety_options
@scheduler_option
@progress_option
@rows_option
@json_option
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
    report: Path | None,
    num_draws: int,
    check: bool,
    rows: int,
    json_: bool,
    **options: Any,
) -> None:
    """Fit, check, save and print."""
    # What can be known to fail is refused before the work, not after it.
    if out is not None:
        check_out(out, ".npz")
    if draws is not None:
        with naming("--draws"):
            check_format(check_folder(draws))
    if report is not None:
        with naming("--report"):
            check_page(report)
    if options["max_gradients"] is None and options["max_seconds"] is None:
        options["max_gradients"] = 10_000
    files: dict[str, Path] = {}
    problem: ValueError | None = None
    # What a Stan program prints must not get among what is printed here.
    with contextlib.redirect_stdout(sys.stderr), contextlib.ExitStack() as stack:
        loaded = load_model(
            fit,
            target,
            dim,
            data=data,
            include_paths=include_paths,
            observed=observed,
            predictive=predictive,
            progress=options["progress"],
            by_value=options["client"] is not None,
        )
        if options["client"] is not None:
            loaded, options["client"] = placed(loaded, options["client"], options["restarts"])
        stack.enter_context(opened(loaded))  # for the fit, its verdict and its draws
        result = run_fit(loaded, initial=load_point(initial, WAYS), **options)
        result.origin = result.origin._replace(command=shlex.join(["scorevi", *sys.argv[1:]]))
        # A file says by its being there that something was fitted; draws do not say how it ended.
        out = unless("--out", out, result.num_updates == 0)
        draws = unless("--draws", draws, result.num_updates == 0 or not result.status.ok)
        with protected(result) as result:
            if check and result.status != "interrupted":
                result.check(seed=options["seed"])
            try:
                if out is not None:
                    with naming("--out"):
                        files["fit"] = result.save(out)
                if draws is not None:
                    with naming("--draws"):
                        write_draws(result, draws, num_draws, seed=options["seed"])
                    files["draws"] = draws
                if report is not None:
                    with naming("--report"):
                        files["report"] = result.report(report)
            except ValueError as error:
                problem = error  # what was fitted is printed all the same
        if result.num_updates:
            result.summary  # noqa: B018  (computed here, and kept)
    print_fit(result, json_, rows, files)
    if problem is not None:
        raise problem
    exit_as(result)
