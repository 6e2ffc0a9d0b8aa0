"""Waiting for events, never for a clock.

The ceiling is there so that what never happens is told as such. It is far beyond what a busy
machine needs.
"""

import signal
import threading
import time
from pathlib import Path

CEILING = 240.0


class Clock:
    """Stands for ``time.perf_counter``: it goes on when told, and a little when it is read."""

    def __init__(self, tick=0.0):
        self.now, self._tick = 0.0, tick

    def __call__(self):
        self.now += self._tick
        return self.now

    def pass_by(self, seconds):
        """Let time pass."""
        self.now += seconds


def wait_until(happened, what, process=None):
    """Return once something has happened; fail if it does not, or if a process ends before."""
    end = time.monotonic() + CEILING
    while not happened():
        if process is not None and process.poll() is not None and not happened():
            raise AssertionError(f"the process ended with {process.returncode} before {what}")
        assert time.monotonic() < end, f"waited {CEILING:.0f} s for {what}"
        time.sleep(0.002)


def wait_until_gone(pids):
    """Return once none of these processes is there any more."""
    wait_until(lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids), f"the end of {pids}")


class InterruptWhen(threading.Thread):
    """Sends Ctrl-C to this process once something has happened."""

    def __init__(self, happened, what):
        super().__init__(daemon=True)
        self._happened, self._what = happened, what
        self._main = threading.main_thread().ident

    def run(self):
        """Wait, and send; the thread that waits for a score hears it."""
        wait_until(self._happened, self._what)
        signal.pthread_kill(self._main, signal.SIGINT)

    def __enter__(self):
        self.start()
        return self

    def __exit__(self, *_):
        self.join()
