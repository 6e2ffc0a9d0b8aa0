"""One target for several chains: their points go to its workers together."""

from __future__ import annotations

import threading

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Evaluation, Failure, Parameter, Target
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
        """Evaluate at one point (1, D), together with those of the other chains."""
        with self._changed:
            number = self._number
            self._number += 1
            self._points[number] = np.array(theta[0])
            self._changed.notify_all()
            self._changed.wait_for(
                lambda: number in self._answers or len(self._points) >= self._asking
            )
            if number not in self._answers:
                self._evaluate_all()
                self._changed.notify_all()
            return self._answers.pop(number)

    def _evaluate_all(self) -> None:
        numbers, points = list(self._points), np.array(list(self._points.values()))
        self._points.clear()
        try:
            score, log_density, failures = self._target.evaluate(points)
        except Exception as error:
            why = Failure("raised", f"{type(error).__name__}: {error}")
            score, log_density = np.full(points.shape, np.nan), np.full(len(points), np.nan)
            failures = dict.fromkeys(range(len(points)), why)
        for row, number in enumerate(numbers):
            self._answers[number] = Evaluation(
                score[row : row + 1],
                None if log_density is None else log_density[row : row + 1],
                {0: failures[row]} if row in failures else {},
            )
