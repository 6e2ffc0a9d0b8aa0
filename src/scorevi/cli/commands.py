"""The short commands: ``demo`` and ``compile``."""

from __future__ import annotations

from pathlib import Path

import click

from scorevi.cli.options import (
    include_path_option,
    json_option,
    progress_option,
    seed_option,
)
from scorevi.cli.output import check_out, exit_as, naming, print_fit
from scorevi.cli.schools import save_schools
from scorevi.fit import fit as run_fit
from scorevi.targets import synthetic as examples
from scorevi.targets.stan.build import compile_stan, copy_library

_LIBRARIES = (".so", ".dylib")


@click.command()
@click.option(
    "--picture",
    type=click.Path(dir_okay=False, path_type=Path),
    default="scorevi-demo.png",
    show_default=True,
    help="Where to save the picture.",
)
@seed_option
@json_option
def demo(picture: Path, seed: int, json_: bool) -> None:
    """Fit the eight-schools posterior, print it and save a picture of it.

    The data come with the package; no compiler is needed. The picture needs matplotlib:
    pip install 'scorevi[plots]'.
    """
    fit = run_fit(examples.eight_schools(), seed=seed)
    fit.check(seed=seed)
    files = {}
    try:
        with naming("--picture"):
            save_schools(fit, picture)
        files["picture"] = picture
    except ImportError as error:
        click.echo(f"scorevi: no picture: {error}", err=True)
    print_fit(fit, json_, 0, files)
    exit_as(fit)


@click.command("compile")
@click.argument("program", type=click.Path(dir_okay=False, path_type=Path))
@include_path_option
@click.option(
    "--out",
    type=click.Path(dir_okay=False, path_type=Path),
    help="Copy the library to this .so file, with what it needs beside it.",
)
@progress_option
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
        check_out(out, *_LIBRARIES)
    library = compile_stan(program, include_paths=include_paths, progress=progress)
    click.echo(library if out is None else copy_library(library, out))
