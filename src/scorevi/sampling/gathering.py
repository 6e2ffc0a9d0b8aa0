"""One target for several chains: their points go to its workers together."""

from __future__ import annotations

import threading

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Evaluation, Failure, Parameter, Target, failure
from scorevi.base.variables import Variables


class Gathered:
    """A target that waits until each chain has asked for a point, and evaluates all at once.

    A chain does little between two points, so none waits long for another; and a target in several
    processes has a point for each of them.

    Parameters
    ----------
    target
        What is evaluated.
    chains
        How many threads ask; each says by :meth:`leave` that it will ask no more.
    """

    thread_safe = True

    def __init__(self, target: Target, chains: int) -> None:
        self._target = target
        self._asking = chains
        self._changed = threading.Condition()
        self._points: dict[int, Array] = {}
        self._answers: dict[int, Evaluation] = {}
        self._number = 0

    @property
    def dim(self) -> int:
        """The number of unconstrained dimensions."""
        return self._target.dim

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The names and shapes that the vector theta is made of."""
        return self._target.parameters

    @property
    def has_log_density(self) -> bool:
        """Whether evaluations carry the log density."""
        return self._target.has_log_density

    @property
    def variables(self) -> Variables:
        """What the user calls things."""
        return self._target.variables

    def leave(self) -> None:
        """Say that one of the chains will ask no more."""
        with self._changed:
            self._asking -= 1
            self._changed.notify_all()

    def evaluate(self, theta: Array) -> Evaluation:
        """Wait until somebody has evaluated at one point (1, D)."""
        with self._changed:
            number = self._number
            self._number += 1
            self._points[number] = np.array(theta[0])
            self._changed.notify_all()
            self._changed.wait_for(lambda: number in self._answers)
            return self._answers.pop(number)

    def serve(self, patience: float) -> bool:
        """Evaluate what all chains have asked for; False if not all of them have, for so long.

        For one lasting thread, because the processes that a thread starts may end with it.
        """
        with self._changed:
            everyone = self._changed.wait_for(lambda: self._asking <= len(self._points), patience)
            if not everyone or not self._points:
                return False
            numbers, points = list(self._points), np.array(list(self._points.values()))
            self._points.clear()
        why = Failure("raised", "the evaluation was interrupted")
        score, log_density = np.full(points.shape, np.nan), np.full(len(points), np.nan)
        answer = Evaluation(score, log_density, dict.fromkeys(range(len(points)), why))
        try:
            answer = self._target.evaluate(points)
        except Exception as error:
            answer = answer._replace(failures=dict.fromkeys(range(len(points)), failure(error)))
        finally:  # nobody is left waiting
            self._hand_out(numbers, answer)
        return True

    def _hand_out(self, numbers: list[int], answer: Evaluation) -> None:
        score, log_density, failures = answer
        with self._changed:
            for row, number in enumerate(numbers):
                self._answers[number] = Evaluation(
                    score[row : row + 1],
                    None if log_density is None else log_density[row : row + 1],
                    {0: failures[row]} if row in failures else {},
                )
            self._changed.notify_all()
