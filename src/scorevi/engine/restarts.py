"""Runs from several starts, side by side where the target allows it."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import Generic, TypeVar

from scorevi.base.target import is_thread_safe
from scorevi.engine.run import Run

_AWAKE = 0.2
"""Seconds between two looks at whether the user has said to stop."""


T = TypeVar("T")


class Restarts(Generic[T]):
    """Runs like another one, from other starts.

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

    @contextmanager
    def beside(self) -> Iterator[None]:
        """Let them begin now, in threads, if several threads may evaluate the target."""
        if not self._others or not is_thread_safe(self._run.evaluator.target):
            yield
            return
        with ThreadPoolExecutor(min(len(self._others), os.cpu_count() or 1)) as pool:
            self._work = [pool.submit(self._complete, other) for other in self._others]
            try:
                yield
            except BaseException:
                self._halt()  # the pool waits for what is under way
                raise

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
