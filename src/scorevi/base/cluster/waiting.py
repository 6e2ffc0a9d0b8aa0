"""Waiting for tasks, for as long as somebody is at work on them."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from scorevi.base.extras import require
from scorevi.base.target import TargetLost

if TYPE_CHECKING:
    from distributed import Client, Future

_LOOK_SECONDS = 1.0
"""Between two looks at whether there is anybody to wait for."""
_ALONE_SECONDS = 60.0
"""How long a cluster may be without any worker: one that was lost may be replaced."""


def wait_for(client: Client, futures: Sequence[Future]) -> None:
    """Return when all tasks have ended; raises what the first of them raised.

    Raises :class:`TargetLost` where there is no scheduler any more, or no worker comes.
    """
    _ended(client, futures, "ALL_COMPLETED")
    for future in futures:
        if future.status != "finished":
            future.result()


def first_of(client: Client, futures: Sequence[Future]) -> list[Future]:
    """Return the tasks that have ended, as soon as one has, however that went.

    Raises :class:`TargetLost` as :func:`wait_for` does.
    """
    return _ended(client, futures, "FIRST_COMPLETED")


def _ended(client: Client, futures: Sequence[Future], enough: str) -> list[Future]:
    distributed = require("distributed")
    alone = Alone(client)
    while True:
        try:
            with client.as_current():
                found = distributed.wait(list(futures), _LOOK_SECONDS, return_when=enough)
        except distributed.TimeoutError:
            alone.look()
            continue
        if client.status != "running":
            raise gone(client)
        return list(found.done)


def results_of(client: Client, futures: Sequence[Future]) -> list[Any]:
    """Return the results of all tasks, in order; raises as :func:`wait_for` does."""
    wait_for(client, futures)
    return client.gather(list(futures))  # type: ignore[no-any-return]


class Alone:
    """Looks whether a cluster has workers, and says so where it has had none for too long."""

    def __init__(self, client: Client, clock: Callable[[], float] = time.monotonic) -> None:
        self._client, self._clock = client, clock
        self._since: float | None = None

    def look(self) -> None:
        """Raise :class:`TargetLost` where nobody is there, and nobody comes."""
        if self._client.status != "running":
            raise gone(self._client)
        try:
            workers = self._client.scheduler_info()["workers"]
        except OSError:
            raise gone(self._client) from None
        if workers:
            self._since = None
            return
        now = self._clock()
        self._since = now if self._since is None else self._since
        if now - self._since >= _ALONE_SECONDS:
            raise TargetLost(
                f"All workers of the scheduler at {self._client.scheduler.address} were lost, and "
                f"none came within {_ALONE_SECONDS:g} s. Start some with `dask worker "
                f"{self._client.scheduler.address}`."
            )


def gone(client: Client) -> TargetLost:
    """Return the error that says that the scheduler is lost."""
    address = client.scheduler.address if client.scheduler is not None else "its address"
    return TargetLost(
        f"The connection to the Dask scheduler at {address} was lost. Begin again once it runs; "
        "with `checkpoint` and `resume` a fit goes on from where it was."
    )
