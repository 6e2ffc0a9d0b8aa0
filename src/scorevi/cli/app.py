"""The group of all commands, and how it is run."""

from __future__ import annotations

import sys
import traceback
import warnings

import click

from scorevi._version import __version__
from scorevi.base.status import FitWarning
from scorevi.cli.commands import compile_, demo
from scorevi.cli.completion import completion
from scorevi.cli.doctor import doctor
from scorevi.cli.fit import fit
from scorevi.cli.looking import plot, report, show
from scorevi.cli.many import many
from scorevi.cli.output import EXIT_INTERRUPTED, EXIT_USAGE, as_options
from scorevi.cli.sample import sample
from scorevi.cli.study import study
from scorevi.targets.stan import CompileError

_EXIT_CODES = """\b
Exit codes:
  0    done
  1    it failed: it diverged, its scores were bad, or its verdict is fail
  2    the request could not be carried out; the last line says why
  130  interrupted"""

_HELP = """A posterior from its score, the gradient of its log density, and whether to believe it.

\b
Try it:       scorevi demo
Your model:   scorevi fit model.stan --data data.json --draws draws.nc
              scorevi fit model.py:target --out fit.npz
Exact draws:  scorevi sample model.stan --data data.json --draws draws.nc
Look again:   scorevi show fit.npz, scorevi plot fit.npz, scorevi report fit.npz
The paper:    scorevi study all --quick
In trouble:   scorevi doctor

--debug, anywhere on the line, shows the traceback of an error.
"""


@click.group(
    commands=[compile_, completion, demo, doctor, fit, many, plot, report, sample, show, study],
    help=_HELP,
    epilog=_EXIT_CODES,
    context_settings={"help_option_names": ["-h", "--help"]},
)
@click.version_option(__version__, prog_name="scorevi")
def cli() -> None:
    """Hold the commands together."""


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
            text = as_options(text, fit)
            if not isinstance(error, (ValueError, ImportError)):
                text = f"{type(error).__name__}: {text} (--debug shows where)"
            click.echo(f"scorevi: error: {text}", err=True)
        sys.exit(EXIT_USAGE)
