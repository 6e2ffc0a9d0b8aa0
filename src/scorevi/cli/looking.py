"""The commands that look at a saved fit again: ``show``, ``plot`` and ``report``."""

from __future__ import annotations

from pathlib import Path
from typing import cast

import click

from scorevi.base.files import check_folder
from scorevi.cli.options import json_option, rows_option
from scorevi.cli.output import exit_as, naming, print_fit
from scorevi.results.fit import Fit
from scorevi.results.loading import load
from scorevi.results.plots import KINDS, Kind, save_figure

_path_argument = click.argument("path", type=click.Path(dir_okay=False, path_type=Path))
_PLOT_HELP = """Draw the saved fit PATH.

KIND is overview, marginals, pairs, course, correlation or weights. Prints where the picture is.

\b
Examples:
  scorevi plot fit.npz
  scorevi plot fit.npz pairs --parameter mu --parameter log_tau -o pairs.svg
"""
_title_option = click.option("--title", default="", help="A heading.")


@click.command()
@_path_argument
@rows_option
@json_option
def show(path: Path, rows: int, json_: bool) -> None:
    """Print the saved fit or sample PATH."""
    with naming("PATH"):
        fit = load(path)
    print_fit(fit, json_, rows, {})
    exit_as(fit)


@click.command(help=_PLOT_HELP)
@_path_argument
@click.argument("kind", type=click.Choice(KINDS), default="overview")
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    help="The file to write; its ending says the format.  [default: PATH with KIND, as PNG]",
)
@click.option(
    "--parameter",
    "parameters",
    multiple=True,
    metavar="NAME",
    help="A parameter to draw, of marginals, pairs and correlations; may be repeated.",
)
@_title_option
def plot(path: Path, kind: str, out: Path | None, parameters: tuple[str, ...], title: str) -> None:
    """Draw the saved fit PATH."""
    fit = _fit(path)
    out = out or path.with_name(f"{path.name.removesuffix('.npz')}-{kind}.png")
    with naming("--out"):
        check_folder(out)
        figure = fit.plot(cast("Kind", kind), list(parameters) or None, title=title)
        save_figure(figure, out)
    click.echo(out)


@click.command()
@_path_argument
@click.option(
    "--out",
    "-o",
    type=click.Path(dir_okay=False, path_type=Path),
    default="report.html",
    show_default=True,
    help="The file to write.",
)
@_title_option
def report(path: Path, out: Path, title: str) -> None:
    """Write a report on the saved fit PATH: one HTML file, which needs no network.

    The verdict first, tables to sort and search, pictures with values, and what is needed to make
    the fit again. Prints where it is.
    """
    fit = _fit(path)
    with naming("--out"):
        click.echo(fit.report(out, title=title))


def _fit(path: Path) -> Fit:
    with naming("PATH"):
        found: object = load(path)
    if not isinstance(found, Fit):
        raise ValueError(f"PATH must be a saved fit; {path} is a {type(found).__name__.lower()}.")
    return found
