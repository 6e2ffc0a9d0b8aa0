"""What runs on a worker: to build a shard, and to evaluate it."""

from __future__ import annotations

import threading
import time
import traceback
from typing import Any, NamedTuple

import numpy as np

from scorevi._version import __version__
from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.sending import Sent, received
from scorevi.base.target import Evaluation, Target
from scorevi.base.threads import taking_turns
from scorevi.targets.taking import as_target


class Recipe(NamedTuple):
    """How a shard is built, and what it must be like."""

    number: int
    builder: Sent
    dim: int
    has_log_density: bool
    version: str


class Part(NamedTuple):
    """What one shard says about a batch of points."""

    evaluation: Evaluation
    worker: str
    """The address of the worker that it was on."""
    seconds: float
    """How long that took there."""


class ShardError(Exception):
    """A shard cannot be built."""


class Shard:
    """What a builder made, on the worker where it was made.

    Where Dask moves it to another worker it goes there as its recipe, and is built there when it
    is next evaluated: no data that a builder loaded ever travel.
    """

    def __init__(self, recipe: Recipe, arguments: tuple[Any, ...]) -> None:
        self.recipe = recipe
        self._arguments = arguments
        self._built: Target | None = None
        self._lock = threading.Lock()
        self._size = 0

    @property
    def target(self) -> Target:
        """The target, built if it is not yet."""
        with self._lock:
            if self._built is None:
                before = _memory()
                self._built = _build(self.recipe, self._arguments)
                self._size = max(0, _memory() - before)
            return self._built

    def __reduce__(self) -> tuple[Any, ...]:
        return Shard, (self.recipe, self._arguments)

    def __sizeof__(self) -> int:
        # Dask weighs by it whether to move a shard.
        return self._size + len(self.recipe.builder.content)


def build(recipe: Recipe, *arguments: Any) -> Shard:
    """Build a shard; what its builder is given may be results of other tasks."""
    shard = Shard(recipe, arguments)
    shard.target  # noqa: B018  (built here and now)
    return shard


def evaluate(shard: Shard, theta: Array) -> Part:
    """Evaluate a shard at the rows of theta; a row that fails does not touch the others."""
    target = shard.target
    began = time.perf_counter()
    # As the user's functions may write to it; what Dask hands out is read-only.
    theta = np.array(theta, dtype=np.float64)
    with np.errstate(all="ignore"), taking_turns(target):
        found = Evaluator(target)(theta)
    return Part(found, _address(), time.perf_counter() - began)


def _build(recipe: Recipe, arguments: tuple[Any, ...]) -> Target:
    where = f"shard {recipe.number} on the worker {_address()}"
    if recipe.version != __version__:
        raise ShardError(
            f"{where}, which has scorevi {__version__} where this process has {recipe.version}; "
            "install the same version everywhere"
        )
    try:
        target = as_target(received(recipe.builder)(*arguments))
    except Exception as error:
        raise ShardError(f"{where} raised {_last_line(error)}") from None
    if target.dim != recipe.dim:
        raise ShardError(f"{where} has {target.dim} dimensions, where `dim` is {recipe.dim}")
    if recipe.has_log_density and not target.has_log_density:
        raise ShardError(f"{where} has no log density; say log_density=False for scores alone")
    return target


def _last_line(error: Exception) -> str:
    """Return the last line of a traceback, and where it comes from."""
    line = " ".join("".join(traceback.format_exception_only(error)).split())
    frames = traceback.extract_tb(error.__traceback__)
    return f"{line} ({frames[-1].filename}, line {frames[-1].lineno})" if frames else line


def _address() -> str:
    from distributed import get_worker

    try:
        return str(get_worker().address)
    except ValueError:
        return "in this process"


def _memory() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)
