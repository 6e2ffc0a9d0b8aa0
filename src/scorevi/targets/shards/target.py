"""A sum of shards as a target."""

from __future__ import annotations

import threading
from contextlib import ExitStack
from dataclasses import dataclass, field
from types import TracebackType
from typing import TYPE_CHECKING, Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.cluster import ClientLike, connected, is_client
from scorevi.base.evaluate import Evaluator, diagnose
from scorevi.base.target import Evaluation, Failure, Parameter, Target, TargetLost, describe
from scorevi.base.variables import Variables
from scorevi.targets.shards.session import Builder, Session

if TYPE_CHECKING:
    from scorevi.targets.shards.worker import Part


class _Opening:
    """The shards of a target while they are on a cluster, for all who need them at the time."""

    def __init__(self) -> None:
        self.lock = threading.Lock()
        self.count = 0
        self.session: Session | None = None
        self.stack = ExitStack()


@dataclass(frozen=True, eq=False, repr=False)
class ShardedTarget:
    """A target made by :func:`from_shards`.

    Within ``with target:`` its shards stay on the cluster, for a fit and what comes after it.
    Where the user's own client holds them they do so until the target is gone.
    """

    dim: int
    builders: tuple[Builder, ...]
    prior: Target | None
    parameters: tuple[Parameter, ...]
    variables: Variables
    has_log_density: bool
    client: ClientLike
    workers: int
    opening: _Opening = field(default_factory=_Opening, init=False)

    thread_safe = True

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate all shards at the rows of theta, and sum up in their order."""
        return self.summed(theta, self.parts(theta))

    def parts(self, theta: Array) -> list[Part]:
        """Return what each shard says about the rows of theta, and where and how long it took."""
        with self:
            session = self.opening.session
            assert session is not None
            try:
                return session.evaluate(np.ascontiguousarray(theta, dtype=np.float64))
            except TargetLost:
                with self.opening.lock:
                    self.opening.session = None  # whoever tries again builds it anew
                raise

    def summed(self, theta: Array, parts: list[Part]) -> Evaluation:
        """Add up the prior and the shards; what is bad in one of them is bad in the sum."""
        terms = [] if self.prior is None else [("the prior", Evaluator(self.prior)(theta))]
        terms += [(f"shard {index}", part.evaluation) for index, part in enumerate(parts)]
        score, log_density = np.zeros(theta.shape), np.zeros(len(theta))
        failures: dict[int, Failure] = {}
        for name, term in terms:
            score = score + term.score
            if self.has_log_density:
                assert term.log_density is not None
                log_density = log_density + term.log_density
            for row in np.flatnonzero(~Evaluator.usable(term)):
                why = term.failures.get(int(row)) or diagnose(term, int(row))
                failures.setdefault(int(row), Failure(why.cause, f"{name}: {why.detail}"))
        return Evaluation(score, log_density if self.has_log_density else None, failures)

    def __enter__(self) -> ShardedTarget:
        opening = self.opening
        with opening.lock:
            if opening.session is None:
                opening.stack.close()
                with ExitStack() as stack:
                    client = stack.enter_context(connected(self.client, self.workers))
                    opening.session = Session(client, self.builders)
                    opening.stack = stack.pop_all()
            opening.count += 1
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        where: TracebackType | None,
    ) -> None:
        del kind, error, where
        opening = self.opening
        with opening.lock:
            opening.count -= 1
            if opening.count == 0 and not is_client(self.client):
                opening.session = None
                opening.stack.close()

    def __repr__(self) -> str:
        return describe(self, f"of {len(self.builders)} shards")

    def __reduce__(self) -> tuple[Any, ...]:
        raise TypeError(
            "a target of shards cannot be sent to another process, which would have no cluster"
        )
