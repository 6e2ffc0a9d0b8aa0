"""``scorevi completion``: what a shell runs so that the Tab key knows the commands and options."""

from __future__ import annotations

import click
from click.shell_completion import get_completion_class

_HELP = """Print what makes the Tab key complete commands, options and files.

\b
  bash:  eval "$(scorevi completion bash)"      in ~/.bashrc
  zsh:   eval "$(scorevi completion zsh)"       in ~/.zshrc
  fish:  scorevi completion fish > ~/.config/fish/completions/scorevi.fish
"""


@click.command(help=_HELP)
@click.argument("shell", type=click.Choice(["bash", "zsh", "fish"]))
@click.pass_context
def completion(context: click.Context, shell: str) -> None:
    """Print the script of one shell."""
    kind = get_completion_class(shell)
    assert kind is not None
    click.echo(kind(context.find_root().command, {}, "scorevi", "_SCOREVI_COMPLETE").source())
