"""The command ``sample``."""

from __future__ import annotations

import contextlib
import sys
from pathlib import Path
from typing import Any

import click

from scorevi.base.files import check_folder
from scorevi.cli.options import (
    file_options,
    json_option,
    progress_option,
    rows_option,
    safety_options,
    seed_option,
    target_options,
)
from scorevi.cli.output import check_out, exit_as, load_model, naming, print_fit, unless
from scorevi.results.sample_export import write_sample
from scorevi.results.writing import check_format
from scorevi.sample import MOST
from scorevi.sample import sample as run_sample
from scorevi.sampling.drawing import METHODS
from scorevi.solvers import FAMILIES

_HELP = """Draw from the posterior TARGET itself: by importance weights of a fit, or by NUTS.

TARGET is what `scorevi fit` takes. A fit comes first; where its weights cannot correct it, NUTS
samples in its coordinates, which needs nutpie: pip install 'scorevi[sample]'; of a model in JAX
BlackJAX does so in compiled code: pip install 'scorevi[sample-jax]'.

\b
Examples:
  scorevi sample model.stan --data data.json --draws draws.nc
  scorevi sample model.py:target --num-draws 4000 --ess 1000 --out sample.npz
"""


@click.command(help=_HELP)
@click.argument("target")
@target_options
@click.option(
    "--num-draws",
    type=click.IntRange(1),
    default=1000,
    show_default=True,
    help="How many draws at least, of all chains together.",
)
@click.option(
    "--ess",
    type=click.FloatRange(0, min_open=True),
    default=400.0,
    show_default=True,
    help="How large the effective sample of every parameter is to be.",
)
@click.option(
    "--method", type=click.Choice(METHODS), help="One of the two.  [default: the cheapest]"
)
@click.option(
    "--family",
    type=click.Choice(FAMILIES),
    default="auto",
    show_default=True,
    help="Of the fit: one Gaussian, or as many as the posterior asks for.",
)
@click.option("--chains", type=click.IntRange(4), default=4, show_default=True, help="How many.")
@click.option(
    "--max-gradients",
    type=int,
    help=f"Gradient evaluations to spend at most, the fit's included.  [default: {MOST}]",
)
@click.option("--max-seconds", type=float, help="Seconds to spend at most.")
@seed_option
@file_options
@safety_options
@progress_option
@rows_option
@json_option
def sample(
    target: str,
    dim: int | None,
    data: Path | None,
    include_paths: tuple[Path, ...],
    observed: tuple[str, ...],
    predictive: tuple[str, ...],
    num_draws: int,
    out: Path | None,
    draws: Path | None,
    rows: int,
    json_: bool,
    **options: Any,
) -> None:
    """Fit, draw, save and print."""
    if out is not None:
        check_out(out, ".npz")
    if draws is not None:
        with naming("--draws"):
            check_format(check_folder(draws))
    files: dict[str, Path] = {}
    problem: ValueError | None = None
    # What a Stan program prints must not get among what is printed here.
    with contextlib.redirect_stdout(sys.stderr):
        loaded = load_model(
            sample,
            target,
            dim,
            data=data,
            include_paths=include_paths,
            observed=observed,
            predictive=predictive,
            progress=options["progress"],
        )
        result = run_sample(loaded, num_draws, **options)
        out = unless("--out", out, result.size == 0, "drawn")
        draws = unless("--draws", draws, result.size == 0, "drawn")
        try:
            if out is not None:
                with naming("--out"):
                    files["sample"] = result.save(out)
            if draws is not None:
                with naming("--draws"):
                    write_sample(result, draws)
                files["draws"] = draws
        except ValueError as error:
            problem = error  # what was drawn is printed all the same
        if result.size:
            result.summary  # noqa: B018  (computed here, and kept)
    print_fit(result, json_, rows, files)
    if problem is not None:
        raise problem
    exit_as(result)
