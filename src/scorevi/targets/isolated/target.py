"""A target whose points are handed out to worker processes, and the answers taken in."""

from __future__ import annotations

import json
import os
import selectors
import sys
import threading
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array, as_count, as_seconds
from scorevi.base.target import Evaluation, Failure, Parameter, Target, opened
from scorevi.base.variables import Variables
from scorevi.targets.isolated.pickled import pickled
from scorevi.targets.isolated.process import Process
from scorevi.targets.isolated.worker import IN_WORKER, receive
from scorevi.targets.jax import JaxTarget
from scorevi.targets.shards import ShardedTarget

_PATIENCE = 1.0
"""Seconds that a worker has to leave of its own accord."""


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
        with opened(target):
            yield target
        return
    if isinstance(target, ShardedTarget):
        raise ValueError(
            "`isolate`, `score_timeout` and `workers` must be left out for a target of shards: its "
            "scores are computed by the workers of its cluster, and those that die are replaced. "
            "How many there are says from_shards(workers=...), or the client."
        )
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
    isolated_target = IsolatedTarget(target, pickled(target), workers or 1, timeout)
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
        self._workers: list[Process] = []
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

    def _answering(self) -> list[Process]:
        """Wait for answers, no longer than until the next worker is overdue."""
        patience = None
        if self._timeout is not None:
            since = [worker.since for worker in self._workers if worker.row is not None]
            if since:
                patience = max(0.0, min(since) + self._timeout - time.monotonic())
        return [key.data for key, _ in self._selector.select(patience)]

    def _overdue(self) -> list[Process]:
        if self._timeout is None:
            return []
        limit = time.monotonic() - self._timeout
        return [
            worker for worker in self._workers if worker.row is not None and worker.since <= limit
        ]

    def _add(self) -> None:
        worker = Process(isinstance(self.inside, JaxTarget), self._content)
        self._workers.append(worker)
        self._selector.register(worker.answers, selectors.EVENT_READ, worker)

    def _remove(self, worker: Process) -> None:
        self._selector.unregister(worker.answers)
        self._workers.remove(worker)
        worker.end(0.0)

    def _replace(self, worker: Process) -> None:
        self._remove(worker)
        self._add()

    def _take_ready(self, worker: Process) -> None:
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
