"""Batches of draws from q with good scores: what is bad is dropped, counted and drawn anew."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scorevi.base.arrays import Mask
from scorevi.base.estimates import fisher_residual
from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import Noise
from scorevi.base.target import Evaluation
from scorevi.families import Family
from scorevi.solvers.base import Batch

_TRIES_BEFORE_SEARCH = 10


class NothingGood(Exception):
    """The first draws of a run all had bad scores."""


class Batches:
    """The draws of one run: where their noise comes from, and who evaluates them."""

    def __init__(self, evaluator: Evaluator, noise: Noise) -> None:
        self._evaluator = evaluator
        self._noise = noise

    def take(
        self, q: Family, size: int, evaluation: Evaluation | None = None, *, first: bool = False
    ) -> tuple[Batch, float]:
        """Return a full batch of draws with good scores, and its Fisher residual.

        Parameters
        ----------
        q
            What is drawn from.
        size
            The number of draws.
        evaluation
            That of the next ``size`` draws, if it is already known and paid for.
        first
            Whether no batch was ever full. :class:`NothingGood` is then raised after a few bad
            draws and no good one.
        """
        points = q.points(self._noise.take(size))
        if evaluation is None:
            evaluation = self._evaluator(points.theta)
        else:
            self._evaluator.spent += size
        score, log_density, _ = evaluation
        batch = Batch.of(q, points, score, log_density)
        fisher = float(fisher_residual(batch.z, batch.whitened_score))
        # A sum is finite only if all its terms are: one test for the usual case.
        if math.isfinite(fisher) and (
            log_density is None or math.isfinite(float(log_density.sum()))
        ):
            return batch, fisher
        return self._filled_up(q, size, self._good_rows(batch, evaluation), first)

    def _filled_up(self, q: Family, size: int, batch: Batch, first: bool) -> tuple[Batch, float]:
        """Fill up a batch of which some draws were dropped."""
        while (missing := size - len(batch.z)) > 0:
            nothing_good_yet = first and len(batch.z) == 0
            if nothing_good_yet and self._evaluator.bad.total >= _TRIES_BEFORE_SEARCH:
                raise NothingGood
            points = q.points(self._noise.take(missing))
            evaluation = self._evaluator(points.theta)
            more = Batch.of(q, points, evaluation.score, evaluation.log_density)
            columns = zip(batch, self._good_rows(more, evaluation), strict=True)
            batch = Batch(*(None if a is None else np.concatenate([a, b]) for a, b in columns))
        return batch, float(fisher_residual(batch.z, batch.whitened_score))

    def _good_rows(self, batch: Batch, evaluation: Evaluation) -> Batch:
        good = self._evaluator.usable(evaluation)
        good &= np.isfinite(np.vecdot(batch.whitened_score, batch.whitened_score))
        self._evaluator.note_bad(batch.theta, evaluation, good)
        return Batch(*(_rows(column, good) for column in batch))


def _rows(column: Any, which: Mask) -> Any:
    return None if column is None else column[which]
