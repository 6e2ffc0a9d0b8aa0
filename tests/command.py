"""The command line: in this process, and as one of its own."""

import io
import os
import signal
import subprocess
import sys
import warnings
from contextlib import chdir, redirect_stderr, redirect_stdout
from pathlib import Path
from unittest import mock

from scorevi.cli import main


def environment():
    plain = {key: value for key, value in os.environ.items() if "COLOR" not in key}
    return {**plain, "TERM": "xterm", "COLUMNS": "100"}


def command_line(arguments):
    return [sys.executable, "-m", "scorevi", *map(str, arguments)]


def run_process(folder, *arguments):
    """Run a command in a process, which takes a second for the imports alone."""
    return subprocess.run(
        command_line(arguments),
        cwd=folder,
        capture_output=True,
        text=True,
        env=environment(),
        check=False,
    )


def run(folder, *arguments):
    """Run a command in this process, and leave the process as it was."""
    out, err = (io.TextIOWrapper(io.BytesIO(), encoding="utf-8") for _ in range(2))
    signals = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGPIPE)}
    modules = set(sys.modules)
    line = ["scorevi", *map(str, arguments)]
    with (
        chdir(folder),
        mock.patch.object(sys, "argv", line),
        mock.patch.object(sys, "path", list(sys.path)),
        mock.patch.dict(os.environ, environment(), clear=True),
        warnings.catch_warnings(),
        redirect_stdout(out),
        redirect_stderr(err),
    ):
        try:
            main()
        except SystemExit as exit_:
            code = exit_.code or 0
        else:
            code = 0
        finally:
            for number, handler in signals.items():
                signal.signal(number, handler)
            for name in set(sys.modules) - modules:
                if _lies_in(folder, sys.modules[name]):
                    del sys.modules[name]
    texts = []
    for stream in (out, err):
        stream.flush()
        texts.append(stream.buffer.getvalue().decode())
    return subprocess.CompletedProcess(line, code, *texts)


def _lies_in(folder, module):
    file = getattr(module, "__file__", None)
    return file is not None and Path(folder).resolve() in Path(file).resolve().parents
