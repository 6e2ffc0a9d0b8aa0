"""Fits from several starts: made side by side where the target allows it, and the best of them."""

from __future__ import annotations

import dataclasses
import math
import os
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from typing import TypeAlias

from scorevi.driver import Run
from scorevi.results import Fit, Restart
from scorevi.targets.base import is_thread_safe

Outcome: TypeAlias = tuple[Fit, str]
"""A fit, and what is worth a warning."""
Complete: TypeAlias = Callable[[Run], Outcome]


class Restarts:
    """Runs like another one, from other starts.

    Parameters
    ----------
    run
        The one that they are like.
    count
        How many.
    complete
        Lets a run go on to its end.
    """

    def __init__(self, run: Run, count: int, complete: Complete) -> None:
        self.interrupted = False
        """Whether the user said to stop, so that some were not made or not finished."""
        self._run = run
        self._complete = complete
        self._others = [run.from_elsewhere(index) for index in range(count)]
        self._work: list[Future[Outcome]] = []

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

    def outcomes(self) -> list[Outcome]:
        """Wait for those that have begun, or make them; returns what was made, Ctrl-C or not."""
        if self._run.status == "interrupted":
            self._halt()
        if not self._work:
            return self._in_turn()
        try:
            wait(self._work)
        except KeyboardInterrupt:
            self._halt()
            wait(self._work)
        return [one.result() for one in self._work if not one.cancelled()]

    def _in_turn(self) -> list[Outcome]:
        made: list[Outcome] = []
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


def best_of(fits: Sequence[Fit], best: Fit, asked: int) -> Fit:
    """Return the best of several fits with what they cost together, and what the others found.

    Parameters
    ----------
    fits
        All that were made.
    best
        The one of them to return.
    asked
        How many were to be made.
    """
    measure = "Fisher residual" if math.isnan(best.elbo) else "ELBO"
    notes = [f"the best of {len(fits)} runs by {measure}: {best.solver}, seed {best.seed}"]
    if len(fits) == 1 or not best.num_updates:
        notes = []
    if len(fits) < asked:
        notes.append(f"{asked - len(fits)} of {asked} runs were not made: the user stopped the fit")
    halted = sum(
        fit.status == "interrupted" and fit.num_updates > 0 for fit in fits if fit is not best
    )
    if halted:
        notes.append(f"{halted} of {asked} runs were stopped by the user on the way")
    futile = Counter(str(fit.status) for fit in fits if not fit.num_updates)
    if futile and best.num_updates:
        ways = ", ".join(f"{count} {status}" for status, count in sorted(futile.items()))
        notes.append(
            f"{futile.total()} of {asked} runs ended before their first update ({ways}), so that "
            "nothing was compared with them"
        )
    return dataclasses.replace(
        best,
        num_gradients=sum(fit.num_gradients for fit in fits),
        seconds=sum(fit.seconds for fit in fits),
        notes=(*notes, *best.notes),
        restarts=tuple(
            Restart(fit.seed, str(fit.status), fit.elbo, fit.q.mean, fit.q.sd)
            for fit in fits
            if fit is not best and fit.solver == best.solver and fit.num_updates
        ),
    )
