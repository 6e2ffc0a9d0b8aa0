"""Targets in processes of their own: a crash, a hang or a slow score is no longer ours.

Every point is evaluated by itself, in one of several worker processes. A worker that dies, or does
not answer in time, is replaced; its point has no score, for a reason that is reported, and the
other points are not touched. The result does not depend on the number of workers.

Workers are started afresh, not forked: a fork of a process with threads, as JAX and BLAS have
them, may hang. The target goes to them by ``cloudpickle``, which takes closures and lambdas.
"""

from __future__ import annotations

import contextlib
import dataclasses
import json
import os
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Array, as_count, as_seconds
from scorevi.base.target import Evaluation, Failure, Parameter, Target
from scorevi.base.variables import Variables
from scorevi.targets.jax import JaxTarget
from scorevi.targets.worker import IN_WORKER, LENGTH, receive

_COMMAND = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[1]); "
    "from scorevi.targets.worker import main; main()"
)
_PATIENCE = 1.0
"""Seconds that a worker has to leave of its own accord."""
_BY_VALUE = threading.Lock()
"""What cloudpickle sends by value is a setting of the whole process."""


class Isolation(NamedTuple):
    """Where scores are computed, as :func:`scorevi.fit` was told; by default in this process."""

    isolate: bool = False
    score_timeout: float | None = None
    workers: int | None = None


@contextmanager
def evaluating(
    target: Target, isolate: bool, timeout: float | None, workers: int | None
) -> Iterator[Target]:
    """Give what evaluates a target: the target itself, or workers, which end with the block.

    Parameters
    ----------
    target
        What is evaluated.
    isolate
        Whether that is to be in another process.
    timeout
        Seconds that a point may take; None for any time.
    workers
        How many processes; None for one, if ``isolate`` or ``timeout`` call for it.
    """
    timeout = as_seconds("score_timeout", timeout)
    if workers is not None:
        workers = as_count("workers", workers, optional=True)
    if not isolate and timeout is None and workers is None:
        yield target
        return
    if sys.platform == "win32":
        raise ValueError(
            "`isolate`, `score_timeout` and `workers` need a system whose pipes can be waited for, "
            "such as Linux or macOS; this is Windows. Leave them out, or use WSL."
        )
    if IN_WORKER in os.environ:
        raise ValueError(
            "`isolate` and `workers` must not be used while a model is imported by a worker; put "
            'the call of fit under `if __name__ == "__main__":`.'
        )
    isolated_target = IsolatedTarget(target, _pickled(target), workers or 1, timeout)
    try:
        isolated_target.start()
        yield isolated_target
    finally:
        isolated_target.close()


class IsolatedTarget:
    """A target whose points are evaluated by workers; see :func:`evaluating`."""

    thread_safe = True

    def __init__(self, target: Target, content: bytes, workers: int, timeout: float | None) -> None:
        self.inside = target
        """The target itself, in this process."""
        self._content = content
        self._timeout = timeout
        self._count = workers
        self._workers: list[_Worker] = []
        self._selector = selectors.DefaultSelector()
        self._lock = threading.Lock()

    @property
    def dim(self) -> int:
        """The number of unconstrained dimensions."""
        return self.inside.dim

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The names and shapes that the vector theta is made of."""
        return self.inside.parameters

    @property
    def has_log_density(self) -> bool:
        """Whether evaluations carry the log density."""
        return self.inside.has_log_density

    @property
    def variables(self) -> Variables:
        """What the user calls things; computed in this process."""
        return self.inside.variables

    def start(self) -> None:
        """Start the workers, and wait until they have the target."""
        for _ in range(self._count):
            self._add()
        for worker in self._workers:
            self._take_ready(worker)

    def close(self) -> None:
        """End all workers."""
        for worker in self._workers:
            worker.dismiss()
        for worker in self._workers:
            worker.end(_PATIENCE)
        self._workers = []
        self._selector.close()

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate at the rows of theta, each by whichever worker is free.

        Threads take turns, each with all of the workers.
        """
        with self._lock:
            return self._evaluate(theta)

    def _evaluate(self, theta: Array) -> Evaluation:
        theta = np.ascontiguousarray(theta, dtype=np.float64)
        score = np.full(theta.shape, np.nan)
        log_density = np.full(len(theta), np.nan)
        failures: dict[int, Failure] = {}
        waiting = deque(range(len(theta)))
        try:
            while waiting or any(worker.row is not None for worker in self._workers):
                self._hand_out(waiting, theta)
                for worker in self._answering():
                    if not worker.ready:
                        self._take_ready(worker)
                        continue
                    row, worker.row = worker.row, None
                    answer = receive(worker.answers)
                    if answer is None:
                        if row is not None:
                            failures[row] = Failure("died", worker.cause_of_death())
                        self._replace(worker)
                    elif row is not None:
                        numbers = np.frombuffer(answer, count=self.dim + 1)
                        score[row], log_density[row] = numbers[:-1], numbers[-1]
                        if text := answer[numbers.nbytes :]:
                            failures[row] = Failure(*json.loads(text))
                for worker in self._overdue():
                    assert worker.row is not None
                    reason = f"there was no score within {self._timeout:g} s"
                    failures[worker.row] = Failure("timeout", reason)
                    self._replace(worker)
        except BaseException:
            # An answer that is still on its way must not be taken for that of a later point.
            for worker in [worker for worker in self._workers if worker.row is not None]:
                self._remove(worker)
            raise
        return Evaluation(score, log_density if self.has_log_density else None, failures)

    def _hand_out(self, waiting: deque[int], theta: Array) -> None:
        while len(self._workers) < self._count:  # after an interrupted evaluation
            self._add()
        for worker in list(self._workers):
            if waiting and worker.ready and worker.row is None:
                row = waiting.popleft()
                if worker.ask(theta[row]):
                    worker.row = row
                else:  # it died while it had nothing to do
                    waiting.appendleft(row)
                    self._replace(worker)

    def _answering(self) -> list[_Worker]:
        """Wait for answers, no longer than until the next worker is overdue."""
        patience = None
        if self._timeout is not None:
            since = [worker.since for worker in self._workers if worker.row is not None]
            if since:
                patience = max(0.0, min(since) + self._timeout - time.monotonic())
        return [key.data for key, _ in self._selector.select(patience)]

    def _overdue(self) -> list[_Worker]:
        if self._timeout is None:
            return []
        limit = time.monotonic() - self._timeout
        return [
            worker for worker in self._workers if worker.row is not None and worker.since <= limit
        ]

    def _add(self) -> None:
        worker = _Worker(isinstance(self.inside, JaxTarget), self._content)
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)

    def _remove(self, worker: _Worker) -> None:
        self._selector.unregister(worker.answers)
        self._workers.remove(worker)
        worker.end(0.0)

    def _replace(self, worker: _Worker) -> None:
        self._remove(worker)
        self._add()

    def _take_ready(self, worker: _Worker) -> None:
        """Read the message that the target has arrived, or what went wrong."""
        message = receive(worker.answers)
        if message == b"":
            worker.ready = True
            return
        reason = worker.cause_of_death() if message is None else message.decode()
        self._remove(worker)
        raise ValueError(
            f"`target` could not be loaded in a worker process: {reason}. Leave `isolate` and "
            "`workers` out, or make the target of what can be imported or pickled."
        )


class _Worker:
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


def _pickled(target: Target) -> bytes:
    """Return the target as bytes, without what only this process needs."""
    import cloudpickle

    lean: Any = target
    if dataclasses.is_dataclass(lean):
        lean = dataclasses.replace(lean, variables=Variables())  # type: ignore[type-var]
    try:
        with _BY_VALUE, _as_part_of_the_target(cloudpickle, sys.modules.get("__mp_main__")):
            content: bytes = cloudpickle.dumps(lean)
    except Exception as error:
        raise ValueError(
            "`target` must be something that can be sent to another process for `isolate` and "
            f"`workers`; pickling it raised {type(error).__name__}: {error}. Leave them out, or "
            "open files and connections inside the function."
        ) from error
    return content


@contextmanager
def _as_part_of_the_target(cloudpickle: Any, module: ModuleType | None) -> Iterator[None]:
    """Send what a module defines, instead of its name.

    A process that multiprocessing has spawned calls the user's script ``__mp_main__``, which the
    workers cannot import; of ``__main__``, cloudpickle knows that by itself.
    """
    if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
