"""A cluster on this machine, of processes that begin and end with it.

The scheduler lives in this process. Each worker is a process with a nanny of its own, which puts a
new one in its place where it dies. They are started afresh, not by ``multiprocessing``, which would
import the user's script again. Where this process is killed, they see that the scheduler is gone,
and end.
"""

from __future__ import annotations

import asyncio
import json
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import dask
from distributed import Scheduler, SpecCluster
from distributed.deploy.subprocess import SubprocessWorker
from distributed.utils import silence_logging_cmgr

_HERE = "127.0.0.1"
_QUIET = logging.CRITICAL
"""That a worker was lost is nothing to warn of: another one takes its place."""
_NANNY = {
    "host": _HERE,
    "nthreads": 1,
    # What is on a worker is needed in every step; to put it aside would help nobody.
    "memory_limit": 0,
    "dashboard": False,
    "silence_logs": _QUIET,
    "death_timeout": 60,
}


class _Process(SubprocessWorker):  # type: ignore[misc]
    """A worker that imports what this process can, and does not hear its Ctrl-C."""

    async def _start(self) -> None:
        spec = json.dumps({"cls": self.worker_class, "opts": self.worker_kwargs})
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, "-m", "dask", "spec", self.scheduler, "--spec", spec),
            env={
                **os.environ,
                "PYTHONPATH": os.pathsep.join(filter(None, sys.path)),
                "DASK_LOGGING__DISTRIBUTED": "critical",
                # Nobody looks at it, and it takes a sample every 10 ms.
                "DASK_DISTRIBUTED__WORKER__PROFILE__ENABLED": "False",
            },
            process_group=0,
        )


@contextmanager
def local_cluster(workers: int) -> Iterator[SpecCluster]:
    """Start a cluster, and end all of its processes with the block."""
    if sys.platform == "win32":
        raise ValueError(
            "`client` must be given on Windows, where no cluster is started here: "
            "distributed.Client(n_workers=2), for one."
        )
    worker: dict[str, Any] = {"cls": _Process, "options": {"worker_kwargs": _NANNY}}
    scheduler = {
        "cls": Scheduler,
        "options": {
            "host": _HERE,
            "port": 0,
            "protocol": "tcp://",
            "dashboard": False,
            "dashboard_address": f"{_HERE}:0",
        },
    }
    with silence_logging_cmgr(_QUIET):
        # Shards stay where they are.
        with dask.config.set({"distributed.scheduler.work-stealing": False}):
            cluster = SpecCluster(
                workers=dict.fromkeys(range(workers), worker),
                scheduler=scheduler,
                worker=worker,
                silence_logs=False,  # which would end before the cluster does
                name="scorevi",
            )
        with cluster:
            yield cluster
