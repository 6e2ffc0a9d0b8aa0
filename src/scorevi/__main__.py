"""``python -m scorevi`` is the command line."""

from scorevi.cli import main

main()
