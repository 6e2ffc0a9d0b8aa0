"""Clusters of two processes on this machine, whose workers are killed for real."""

import contextlib
import functools
import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
from waiting import wait_until

import scorevi

DIM, ROWS, SHARDS = 3, 400, 5


def observations(number, rows=ROWS):
    """Return the data of one shard: a design and outcomes."""
    rng = np.random.default_rng([7, number])
    design = rng.standard_normal((rows, DIM))
    chance = 1.0 / (1.0 + np.exp(-design @ [1.0, -0.5, 0.2]))
    return design, (rng.random(rows) < chance).astype(float)


def likelihood(design, outcome, **options):
    """Return the log likelihood of a logistic regression as a target."""

    def score(beta):
        return (outcome - 1.0 / (1.0 + np.exp(-beta @ design.T))) @ design

    def log_density(beta):
        link = beta @ design.T
        return link @ outcome - np.logaddexp(0.0, link).sum(axis=1)

    return scorevi.from_function(score, DIM, log_density, batched=True, **options)


def load(number, log=None):
    """Build a shard, and note in a file that it was built."""
    if log is not None:
        with Path(log).open("a") as file:
            file.write(f"{number}\n")
    return likelihood(*observations(number))


def builders(log=None):
    return [functools.partial(load, number, log) for number in range(SHARDS)]


def built(log):
    """Return how many shards have been built."""
    return len(log.read_text().split()) if log.exists() else 0


def whole():
    """Return the same posterior as one target in this process."""
    parts = [observations(number) for number in range(SHARDS)]
    design, outcome = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
    data, prior = likelihood(design, outcome), scorevi.Gaussian.standard(DIM)
    return scorevi.from_function(
        lambda beta: data.score(beta) + prior.score(beta),
        DIM,
        lambda beta: data.log_density(beta) + prior.log_density(beta),
        batched=True,
    )


class Events:
    """A prior that counts its evaluations, and does something at some of them.

    It is evaluated in this process, once a step.
    """

    has_log_density = True

    def __init__(self, actions=None):
        self.dim, self.count, self._actions = DIM, 0, actions or {}
        self._prior = scorevi.targets.as_target(scorevi.Gaussian.standard(DIM))
        self.parameters, self.variables = self._prior.parameters, self._prior.variables

    def evaluate(self, theta):
        self.count += 1
        if self.count in self._actions:
            self._actions[self.count]()
        return self._prior.evaluate(theta)


def worker_pids(client):
    return sorted(client.run(os.getpid).values())


def kill(pid):
    """Kill a process, and wait until it is gone."""
    os.kill(pid, signal.SIGKILL)
    wait_until(lambda: not is_alive(pid), f"{pid} to end")


def is_alive(pid):
    try:
        return psutil.Process(pid).status() != psutil.STATUS_ZOMBIE
    except psutil.NoSuchProcess:
        return False


def children():
    """Return the processes that this one has started itself; a nanny is, its worker is not."""
    return {child.pid for child in psutil.Process().children()}


def family(pids):
    """Return processes with all that they have started."""
    return {child.pid for pid in pids for child in psutil.Process(pid).children(recursive=True)} | (
        set(pids)
    )


def assert_same(one, other):
    """Assert that two fits are the same to the last bit, but for the time that they took."""
    assert np.array_equal(one.q.mean, other.q.mean)
    assert np.array_equal(one.q.factor, other.q.factor)
    assert one.status == other.status
    assert (one.num_gradients, one.num_updates) == (other.num_gradients, other.num_updates)
    for name in ("num_gradients", "elbo", "fisher"):
        assert np.array_equal(getattr(one.trace, name), getattr(other.trace, name), equal_nan=True)


@contextlib.contextmanager
def deployed(folder):
    """Start a scheduler and a worker as their commands do; yields the address and the processes."""
    file = folder / "scheduler.json"
    here = ("--host", "127.0.0.1", "--no-dashboard")
    commands = (
        ("scheduler", *here, "--port", "0", "--scheduler-file", file),
        ("worker", *here, "--scheduler-file", file, "--no-nanny", "--nthreads", "1"),
    )
    with contextlib.ExitStack() as stack:
        processes = []
        for command in commands:
            process = subprocess.Popen(
                [sys.executable, "-m", "dask", *map(str, command)],
                cwd=folder,
                env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
                stderr=subprocess.DEVNULL,
            )
            stack.enter_context(process)
            stack.callback(process.kill)
            processes.append(process)
            wait_until(lambda: _address(file), "the scheduler to say where it is", process)
        yield _address(file), processes


def _address(file):
    try:
        return json.loads(file.read_text())["address"]
    except (OSError, ValueError):
        return ""
