"""The command line as a process of its own."""

import os
import subprocess
import sys


def environment():
    plain = {key: value for key, value in os.environ.items() if "COLOR" not in key}
    return {**plain, "TERM": "xterm", "COLUMNS": "100"}


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
