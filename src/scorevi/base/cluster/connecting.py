"""From what a user says of a cluster to a client with workers behind it."""

from __future__ import annotations

import os
import pydoc
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, TypeAlias

from scorevi._version import __version__
from scorevi.base.extras import require
from scorevi.base.target import TargetLost

if TYPE_CHECKING:
    from distributed import Client

ClientLike: TypeAlias = "Client | str | None"
"""A Dask client, the address of a scheduler, or None for processes of our own."""
_CONNECT_SECONDS = 10.0
"""How long a scheduler has to answer."""
_WORKER_SECONDS = 30.0
"""How long a scheduler that has no workers has to get one."""


def is_client(client: Any) -> bool:
    """Return whether this is a client that its user opened, and will close."""
    return client is not None and not isinstance(client, str)


def check_client(client: Any) -> ClientLike:
    """Refuse what stands for no cluster; a cluster stands for the address of its scheduler.

    Nothing is connected to here.
    """
    distributed = require("distributed")
    client = getattr(client, "scheduler_address", client)  # of a LocalCluster, for one
    if client is None or isinstance(client, (distributed.Client, str)):
        if getattr(client, "asynchronous", False):
            raise ValueError(
                "`client` must be a client that waits for its answers; got an asynchronous one. "
                "Give the address of its scheduler."
            )
        return client
    raise ValueError(
        "`client` must be a distributed.Client, the address of a Dask scheduler such as "
        f"'tcp://10.0.0.1:8786', or None for processes on this machine; got "
        f"{type(client).__name__}."
    )


@contextmanager
def connected(client: ClientLike, workers: int | None = None) -> Iterator[Client]:
    """Give a client with workers that have this version of scorevi.

    What is opened here ends with the block: a connection, or a cluster of processes.

    Parameters
    ----------
    client
        The user's own, the address of a scheduler, or None for processes of our own.
    workers
        How many processes, where they are our own; one for each core if left out.
    """
    distributed = require("distributed")
    if client is None:
        from scorevi.base.cluster.local import local_cluster

        with (
            local_cluster(workers or os.cpu_count() or 1) as cluster,
            distributed.Client(cluster, set_as_default=False) as own,
        ):
            yield _ready(own)
    elif isinstance(client, str):
        with _reached(distributed, client) as own:
            yield _ready(own)
    else:
        if client.status != "running":
            raise TargetLost(
                f"`client` must be connected to its scheduler; this one is {client.status}. Open a "
                "new one, or give the scheduler's address."
            )
        yield _ready(client)


def _reached(distributed: Any, address: str) -> Client:
    try:
        found: Client = distributed.Client(address, timeout=_CONNECT_SECONDS, set_as_default=False)
    except (OSError, ValueError) as error:
        reason = str(error).strip().rstrip(".").splitlines()[-1:] or [type(error).__name__]
        raise TargetLost(
            f"`client` must be the address of a Dask scheduler that can be reached; {address} did "
            f"not answer within {_CONNECT_SECONDS:g} s ({reason[0]}). Start one with `dask "
            "scheduler`, or leave `client` out for processes on this machine."
        ) from None
    return found


def _ready(client: Client) -> Client:
    """Return the client once it has a worker; refuses workers of another version of scorevi."""
    distributed = require("distributed")
    try:
        client.wait_for_workers(1, timeout=_WORKER_SECONDS)
    except distributed.TimeoutError:
        raise TargetLost(
            f"`client` must have workers; the scheduler at {client.scheduler.address} has none, "
            f"and got none within {_WORKER_SECONDS:g} s. Start some with `dask worker "
            f"{client.scheduler.address}`."
        ) from None
    # A function of Python's own, which workers without scorevi know too.
    found = client.run(pydoc.locate, "scorevi._version.__version__", on_error="ignore")
    others = {
        address: version or "none" for address, version in found.items() if version != __version__
    }
    if others:
        told = "; ".join(f"{address} has {version}" for address, version in sorted(others.items()))
        raise TargetLost(
            f"`client` must have workers with the scorevi of this process, {__version__}; {told}. "
            "Install the same version everywhere."
        )
    return client
