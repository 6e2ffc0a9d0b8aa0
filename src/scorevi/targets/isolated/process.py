"""One worker process, as this side sees it: it is asked, it answers or dies, it ends."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import subprocess
import sys
import time
from typing import Any

from scorevi.base.arrays import Array
from scorevi.targets.isolated.worker import IN_WORKER, LENGTH

_COMMAND = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from scorevi.targets.isolated.worker import main; main()"
)


class Process:
    """A process that evaluates one point at a time."""

    def __init__(self, jax: bool, content: bytes) -> None:
        # In a group of its own, so that Ctrl-C in a terminal does not reach it.
        self._process = subprocess.Popen(
            [sys.executable, "-c", _COMMAND, json.dumps(sys.path)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env={**os.environ, IN_WORKER: "1"},
            process_group=0,
        )
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        self._questions = self._process.stdin
        self.answers: Any = self._process.stdout
        self.ready = False
        self.row: int | None = None
        self.since = 0.0
        for part in (b"jax" if jax else b"", content):
            self._write(LENGTH.pack(len(part)) + part)

    def ask(self, point: Array) -> bool:
        """Send a point; False if nobody is there to take it."""
        self.since = time.monotonic()
        return self._write(point.tobytes())

    def cause_of_death(self) -> str:
        """Return in words how the process ended."""
        code = self._process.wait()
        if code >= 0:
            return f"the process that computed the score exited with code {code}"
        name = signal.Signals(-code).name
        more = ", perhaps for lack of memory" if name == "SIGKILL" else ""
        return f"the process that computed the score was ended by {name}{more}"

    def dismiss(self) -> None:
        """Tell the process that there is no more to do."""
        with contextlib.suppress(OSError):
            self._questions.close()

    def end(self, patience: float) -> None:
        """Make sure that the process is gone."""
        self.dismiss()
        try:
            self._process.wait(patience if self.row is None else 0.0)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self.answers.close()

    def _write(self, content: bytes) -> bool:
        try:
            self._questions.write(content)
            self._questions.flush()
        except BrokenPipeError:
            return False
        return True
