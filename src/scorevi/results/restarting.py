"""Fits from several starts: here, in threads, or on the workers of a Dask cluster."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial
from typing import TYPE_CHECKING, Any, TypeAlias

from scorevi.base.cluster import ClientLike, check_client, connected, wait_for
from scorevi.base.sending import Sent, arrived, same, sent
from scorevi.base.target import Target
from scorevi.base.threads import taking_turns
from scorevi.engine.restarts import Restarts
from scorevi.engine.run import Run
from scorevi.engine.settings import Settings
from scorevi.engine.stopping import StopRule
from scorevi.engine.watching import Watcher
from scorevi.results.of_run import of_run
from scorevi.solvers import Solver
from scorevi.targets.shards import ShardedTarget

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

Rule: TypeAlias = Callable[[], "list[StopRule]"]
"""Makes the stop rule of one run."""
Finished: TypeAlias = "tuple[Fit, str]"
"""A fit, and what is worth a warning."""


def placed(target: Target, client: Any, restarts: int) -> tuple[Target, ClientLike]:
    """Say what a client is for: the shards of a target, or else the restarts of its fit.

    Returns the target, and the client that is left for the restarts.
    """
    client = check_client(client)
    if isinstance(target, ShardedTarget):
        return dataclasses.replace(target, client=client), None
    if not restarts:
        raise ValueError(
            "`client` must be left out, unless the target is made by scorevi.from_shards or there "
            "are `restarts`: one fit of one target has nothing to hand out."
        )
    return target, client


def restarts_of(
    run: Run, count: int, rule: Rule, client: ClientLike
) -> Restarts[Finished] | RestartsThere:
    """Return runs like another one, from other starts, to be made here or on a cluster."""
    if client is not None and count:
        return RestartsThere(run, count, rule, client)
    return Restarts(run, count, partial(_completed, rule=rule))


class RestartsThere:
    """Runs like another one, as tasks on a cluster; see :class:`Restarts`."""

    def __init__(self, run: Run, count: int, rule: Rule, client: ClientLike) -> None:
        self.interrupted = False
        self._run, self._count, self._rule = run, count, rule
        self._client = client
        self._work: list[Any] = []

    @contextmanager
    def beside(self) -> Iterator[tuple[Watcher, ...]]:
        """Let them begin now; nobody need look."""
        run = self._run
        parcel = _parcel(run.evaluator.target)
        with connected(self._client) as self._connected:
            # One task, so that it goes to each worker once.
            there = self._connected.submit(same, parcel, pure=False)
            self._work = [
                self._connected.submit(
                    _completed_there,
                    *(there, run.solver, run.settings, index, self._rule),
                    pure=False,
                )
                for index in range(self._count)
            ]
            yield ()

    def made(self) -> list[Finished]:
        """Wait for them; returns what was made, Ctrl-C or not."""
        self.interrupted = self._run.status == "interrupted"
        if not self.interrupted:
            try:
                wait_for(self._connected, self._work)
            except KeyboardInterrupt:
                self.interrupted = True
        done = [one for one in self._work if one.status == "finished"]
        self._connected.cancel([one for one in self._work if one not in done])
        return list(self._connected.gather(done))


def _parcel(target: Target) -> Sent:
    try:
        return sent(target)
    except Exception as error:
        raise ValueError(
            "`target` must be something that can be sent to a worker for restarts there; pickling "
            f"it raised {type(error).__name__}: {error}. Leave `client` out, or open files and "
            "connections inside the function."
        ) from error


def _completed(run: Run, rule: Rule) -> Finished:
    run.complete(*rule())
    return of_run(run)


def _completed_there(
    parcel: Sent, solver: Solver, settings: Settings, index: int, rule: Rule
) -> Finished:
    target: Target = arrived(parcel)
    with taking_turns(target):
        return _completed(Run(target, solver, settings).from_elsewhere(index), rule)
