"""The command ``many``."""

from __future__ import annotations

import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import click

from scorevi.cli.loading import load_function
from scorevi.cli.options import json_option, progress_option, scheduler_option
from scorevi.cli.output import EXIT_FAILED
from scorevi.many import Fits, fit_many
from scorevi.solvers import SOLVERS

_HELP = """Make many fits, of targets that FACTORY makes of seeds, or go on with them.

FACTORY is module:name or file.py:name, a function of a whole number. Each fit is a file in the
folder of --out as soon as it is finished, and what is finished is not computed again.

\b
Examples:
  scorevi many sbc.py:factory --seeds 1000 --out fits
  scorevi many sbc.py:factory --seeds 1000 --out fits --scheduler tcp://10.0.0.1:8786
"""


@click.command(help=_HELP)
@click.argument("factory")
@click.option("--seeds", type=click.IntRange(1), required=True, help="How many fits to make.")
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    required=True,
    help="The folder of the fits.",
)
@click.option("--solver", type=click.Choice(["auto", *SOLVERS]), default="auto", help="How.")
@click.option("--max-gradients", type=int, default=10_000, show_default=True, help="Of each fit.")
@click.option("--check", is_flag=True, help="Give a verdict on each.")
@click.option("--processes", type=int, help="Processes to use.  [default: one for each core]")
@scheduler_option
@progress_option
@json_option
def many(factory: str, json_: bool, **options: Any) -> None:
    """Fit, and say how they ended."""
    by_value = options["client"] is not None
    fits = fit_many(load_function(factory, by_value=by_value), **options)
    told = _told(fits)
    if json_:
        click.echo(json.dumps(told, indent=2))
    else:
        click.echo(f"{len(fits)} fits, {fits.num_computed} of them computed now: {options['out']}")
        for what in ("statuses", "verdicts"):
            if told[what]:
                counted = (f"{count} {name}" for name, count in told[what].items())
                click.echo(f"  {what}: {', '.join(counted)}")
        for seed, reason in told["failures"].items():
            click.echo(f"  seed {seed} failed: {reason}")
    if fits.failures:
        sys.exit(EXIT_FAILED)


def _told(fits: Fits) -> dict[str, Any]:
    statuses: Counter[str] = Counter()
    verdicts: Counter[str] = Counter()
    for _, fit in fits.made():
        statuses[str(fit.status)] += 1
        if fit.verdict is not None:
            verdicts[str(fit.verdict)] += 1
    return {
        "fits": len(fits),
        "computed": fits.num_computed,
        "statuses": dict(sorted(statuses.items())),
        "verdicts": dict(sorted(verdicts.items())),
        "failures": {fits.seeds[place]: why for place, why in sorted(fits.failures.items())},
    }
