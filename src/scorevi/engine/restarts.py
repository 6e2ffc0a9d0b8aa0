"""Runs from several starts, side by side where the target allows it."""

from __future__ import annotations

import math
import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Generic, TypeVar

from scorevi.base.target import is_thread_safe
from scorevi.engine.run import Run
from scorevi.engine.watching import Watcher

_AWAKE = 0.2
"""Seconds between two looks at whether the user has said to stop."""
_SLOW = 2e-3
"""Seconds of a call of the target from which on threads are worth it: beside quicker ones they wait
for each other, since most of the time is Python's own."""


T = TypeVar("T")


class Restarts(Generic[T]):
    """Runs like another one, from other starts; a watcher of that one, to see how long it takes.

    Parameters
    ----------
    run
        The one that they are like.
    count
        How many.
    complete
        Lets a run go on to its end, and returns what was made of it.
    """

    def __init__(self, run: Run, count: int, complete: Callable[[Run], T]) -> None:
        self.interrupted = False
        """Whether the user said to stop, so that some were not made or not finished."""
        self._run = run
        self._complete = complete
        self._others = [run.from_elsewhere(index) for index in range(count)]
        self._work: list[Future[T]] = []
        self._pool: ThreadPoolExecutor | None = None

    @contextmanager
    def beside(self) -> Iterator[tuple[Watcher, ...]]:
        """Let them begin beside that run, which the watchers are to look at.

        In threads, if several may evaluate the target and it takes long; otherwise they are made in
        turn when it has ended.
        """
        if not self._others or not is_thread_safe(self._run.evaluator.target):
            yield ()
            return
        with ThreadPoolExecutor(min(len(self._others), os.cpu_count() or 1)) as self._pool:
            try:
                yield (self,)
            except BaseException:
                self._halt()  # the pool waits for what is under way
                raise

    @property
    def next_update(self) -> float:
        """None in particular."""
        return math.inf

    def begin(self, run: Run) -> None:
        """Nothing is known yet."""

    def look(self, run: Run) -> None:
        """Begin in threads, where the target has turned out to take long."""
        is_slow = _SLOW <= run.evaluator.quickest < math.inf
        if self._pool is not None and not self._work and is_slow:
            self._work = [self._pool.submit(self._complete, other) for other in self._others]

    def end(self, run: Run) -> None:
        """Leave the rest to :meth:`made`."""

    def made(self) -> list[T]:
        """Wait for those that have begun, or make them; returns what was made, Ctrl-C or not."""
        if self._run.status == "interrupted":
            self._halt()
        if not self._work:
            return self._in_turn()
        try:
            # Now and then awake: a signal that comes just before the wait would not end it.
            while wait(self._work, timeout=_AWAKE).not_done:
                pass
        except KeyboardInterrupt:
            self._halt()
            wait(self._work)
        # Raises what a run raised.
        return [one.result() for one in self._work if not one.cancelled()]

    def _in_turn(self) -> list[T]:
        made: list[T] = []
        for other in self._others:
            if self.interrupted:
                break
            made.append(self._complete(other))
            self.interrupted = other.status == "interrupted"
        return made

    def _halt(self) -> None:
        self.interrupted = True
        for other in self._others:
            other.interrupt()
        for one in self._work:
            one.cancel()
