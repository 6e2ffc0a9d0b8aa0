"""Shards on a cluster: built, evaluated, and built again where their worker was lost."""

from __future__ import annotations

import itertools
import uuid
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple, TypeVar

from scorevi.base.arrays import Array
from scorevi.base.cluster import gone, results_of, wait_for
from scorevi.base.extras import require
from scorevi.base.sending import same
from scorevi.base.target import TargetLost
from scorevi.targets.shards.worker import Part, Recipe, ShardError, build, evaluate

if TYPE_CHECKING:
    from distributed import Client, Future

_ATTEMPTS = 4
"""How often a step is tried: a task on which several workers died is given up by Dask."""
_LARGE = 100_000
"""Bytes of points above which they are sent once, and not with each task."""


T = TypeVar("T")


class Builder(NamedTuple):
    """A builder as it goes to a worker."""

    recipe: Recipe
    arguments: tuple[Any, ...]
    """What Dask hands to it there: futures, and what is delayed."""


class Session:
    """Shards that are held by the workers of a client.

    Parameters
    ----------
    client
        Connected, with workers.
    builders
        One for each shard.
    """

    def __init__(self, client: Client, builders: Sequence[Builder]) -> None:
        self._client = client
        self._builders = builders
        self._name = uuid.uuid4().hex[:12]
        self._numbers = itertools.count()
        self._last: list[Future] = []
        self._shards: list[Future] = [self._submit(builder) for builder in builders]
        self._retried(lambda: wait_for(client, self._shards))

    def evaluate(self, theta: Array) -> list[Part]:
        """Return what each shard says about the rows of theta, in the order of the shards."""
        return self._retried(lambda: self._evaluate(theta))

    def _evaluate(self, theta: Array) -> list[Part]:
        name = f"scorevi-evaluate-{self._name}{next(self._numbers):08x}"
        points: Any = theta
        if theta.nbytes > _LARGE:
            points = self._client.submit(same, theta, key=f"{name}-points")
        futures = self._client.map(
            evaluate,
            self._shards,
            [points] * len(self._shards),
            key=[(name, index) for index in range(len(self._shards))],
            pure=False,
        )
        # Those of the last step are let go of now. Dask says so in a message of its own, and lets
        # the next one wait for 10 ms: that must not be the next step's.
        self._last = futures
        return results_of(self._client, futures)

    def _retried(self, step: Callable[[], T]) -> T:
        """Do something that a loss of workers may undo, until it is done."""
        distributed = require("distributed")
        lost = (distributed.KilledWorker, distributed.CancelledError)
        for attempt in range(1, _ATTEMPTS + 1):
            try:
                return step()
            except ShardError as error:
                raise TargetLost(f"`builders` must build a target each; {error}.") from None
            except lost as error:
                if self._client.status != "running":
                    raise gone(self._client) from None
                if attempt == _ATTEMPTS:
                    raise TargetLost(_too_often(error)) from None
                self._replace()
        raise AssertionError

    def _replace(self) -> None:
        """Begin anew with the shards that Dask has given up."""
        for index, future in enumerate(self._shards):
            if future.status in ("error", "cancelled", "lost"):
                self._shards[index] = self._submit(self._builders[index])

    def _submit(self, builder: Builder) -> Future:
        arguments = [self._future(argument) for argument in builder.arguments]
        key = f"scorevi-shard-{self._name}{next(self._numbers):08x}"
        return self._client.submit(build, builder.recipe, *arguments, key=key, pure=False)

    def _future(self, argument: Any) -> Any:
        """Return an argument as the client takes it: what is delayed is begun."""
        if hasattr(argument, "__dask_graph__"):
            return self._client.compute(argument)
        return argument


def _too_often(error: Exception) -> str:
    return (
        "`builders` must build targets that can be evaluated; the workers that tried died again "
        f"and again, or their tasks were cancelled. The last: {error}"
    )
