"""One target for several chains: their points are evaluated together.

So a target in several processes has a point for each of them, one that is computed on whole arrays
is called once for all chains, one that no two threads may evaluate at once is evaluated by one.
"""

from __future__ import annotations

import threading
from dataclasses import dataclass

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Evaluation, Failure, Parameter, Target, failure
from scorevi.base.variables import Variables


class Gathering:
    """Waits until each chain has asked for a point, and evaluates all at once.

    A chain does little between two points, so none waits long for another. Points are in the order
    of the chains, whoever came first: what a batch gives may depend on its order in the last bit.

    Parameters
    ----------
    target
        What is evaluated.
    chains
        How many threads ask; each says by :meth:`leave` that it will ask no more.
    """

    def __init__(self, target: Target, chains: int) -> None:
        self.target = target
        self._asking = chains
        self._changed = threading.Condition()
        self._points: dict[int, Array] = {}
        self._answers: dict[int, Evaluation] = {}
        self.interrupted = threading.Event()
        """Set where an evaluation was interrupted, so that its answers are none."""
        self.retried = 0
        """Points of batches that raised, and were evaluated again one by one."""

    def leave(self) -> None:
        """Say that one of the chains will ask no more."""
        with self._changed:
            self._asking -= 1
            self._changed.notify_all()

    def ask(self, chain: int, theta: Array) -> Evaluation:
        """Wait until somebody has evaluated at the point of a chain."""
        with self._changed:
            self._answers.pop(chain, None)  # of a point before, answered twice
            self._points[chain] = np.array(theta)
            self._changed.notify_all()
            self._changed.wait_for(lambda: chain in self._answers)
            return self._answers.pop(chain)

    def serve(self, patience: float) -> bool:
        """Evaluate what all chains have asked for; False if not all of them have, for so long.

        For one lasting thread, because the processes that a thread starts may end with it. That is
        the one which Ctrl-C interrupts, at any moment: a point is forgotten only when its answer is
        there, so that whoever still waits is served the next time.
        """
        with self._changed:
            everyone = self._changed.wait_for(lambda: self._asking <= len(self._points), patience)
            if not everyone or not self._points:
                return False
            chains = sorted(self._points)
            points = np.array([self._points[chain] for chain in chains])
        size = len(points)
        why = Failure("raised", "the evaluation was interrupted")
        unknown = np.full(points.shape, np.nan), np.full(size, np.nan)
        answer = Evaluation(*unknown, dict.fromkeys(range(size), why))
        try:
            answer = self.target.evaluate(points)
        except Exception as error:
            if size > 1:
                answer = self._one_by_one(points)
            else:
                answer = Evaluation(*unknown, {0: failure(error)})
        except BaseException:
            self.interrupted.set()
            raise
        finally:  # nobody is left waiting
            self._hand_out(chains, answer)
        return True

    def _one_by_one(self, points: Array) -> Evaluation:
        """Find out which point was to blame; the others are evaluated again."""
        score, log_density = np.full(points.shape, np.nan), np.full(len(points), np.nan)
        failures = {}
        self.retried += len(points)
        for row, point in enumerate(points):
            try:
                one = self.target.evaluate(point[None])
            except Exception as error:
                failures[row] = failure(error)
                continue
            score[row] = one.score[0]
            log_density[row] = np.nan if one.log_density is None else one.log_density[0]
            if one.failures:
                failures[row] = one.failures[0]
        return Evaluation(score, log_density, failures)

    def _hand_out(self, chains: list[int], answer: Evaluation) -> None:
        score, log_density, failures = answer
        with self._changed:
            for row, chain in enumerate(chains):
                self._answers[chain] = Evaluation(
                    np.array(score[row : row + 1]),
                    None if log_density is None else np.array(log_density[row : row + 1]),
                    {0: failures[row]} if row in failures else {},
                )
                del self._points[chain]
            self._changed.notify_all()


@dataclass(frozen=True, eq=False)
class Place:
    """The target of one chain, which gathers its points with those of the others."""

    gathering: Gathering
    chain: int

    @property
    def dim(self) -> int:
        """The number of unconstrained dimensions."""
        return self.gathering.target.dim

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The names and shapes that the vector theta is made of."""
        return self.gathering.target.parameters

    @property
    def has_log_density(self) -> bool:
        """Whether evaluations carry the log density."""
        return self.gathering.target.has_log_density

    @property
    def variables(self) -> Variables:
        """What the user calls things."""
        return self.gathering.target.variables

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate at one point (1, D)."""
        return self.gathering.ask(self.chain, theta[0])
