"""The command line as a process of its own."""

import subprocess
import sys


def run(folder, *arguments, **options):
    return subprocess.run(
        [sys.executable, "-m", "scorevi", *map(str, arguments)],
        cwd=folder,
        capture_output=True,
        text=True,
        timeout=120,
        env=environment(),
        check=False,
        **options,
    )
