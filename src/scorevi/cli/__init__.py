"""The command line. No numerics here."""

from scorevi.cli.app import cli, main

__all__ = ["cli", "main"]
