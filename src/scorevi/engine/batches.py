"""Batches of draws from q with good scores: what is bad is dropped, counted and drawn anew."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Mask
from scorevi.base.estimates import elbo_estimate, fisher_residual
from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import Noise
from scorevi.base.target import Evaluation
from scorevi.families import Family
from scorevi.solvers.base import Batch

_TRIES_BEFORE_SEARCH = 10


class NothingGood(Exception):
    """The first draws of a run all had bad scores."""


class Taken(NamedTuple):
    """A full batch of draws with good scores, and what it says of the q that it was drawn from."""

    batch: Batch
    fisher: float
    """The Fisher residual."""
    elbo: float
    """NaN without a log density."""

    @classmethod
    def of(cls, batch: Batch) -> Taken:
        """Judge the q of a batch by it."""
        fisher = float(fisher_residual(batch.z, batch.whitened_score))
        if batch.log_density is None:
            return cls(batch, fisher, math.nan)
        return cls(batch, fisher, float(elbo_estimate(batch.log_density, batch.log_q)))


class Batches:
    """The draws of one run: where their noise comes from, and who evaluates them."""

    def __init__(self, evaluator: Evaluator, noise: Noise) -> None:
        self.evaluator = evaluator
        self._noise = noise

    def take(
        self, q: Family, size: int, evaluation: Evaluation | None = None, *, first: bool = False
    ) -> Taken:
        """Return a full batch of draws with good scores, and what it says of q.

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
        points = q.points(self._noise.take(size, q.noise_width))
        if evaluation is None:
            evaluation = self.evaluator(points.theta)
        else:
            self.evaluator.spent += size
        score, log_density, _ = evaluation
        batch = Batch.of(q, points, score, log_density)
        taken = Taken.of(batch)
        # A sum is finite only if all its terms are: one test for the usual case.
        if math.isfinite(taken.fisher) and (log_density is None or math.isfinite(taken.elbo)):
            return taken
        return self._filled_up(q, size, self._good_rows(batch, evaluation), first)

    def _filled_up(self, q: Family, size: int, batch: Batch, first: bool) -> Taken:
        """Fill up a batch of which some draws were dropped."""
        while (missing := size - len(batch.z)) > 0:
            nothing_good_yet = first and len(batch.z) == 0
            if nothing_good_yet and self.evaluator.bad.total >= _TRIES_BEFORE_SEARCH:
                raise NothingGood
            points = q.points(self._noise.take(missing, q.noise_width))
            evaluation = self.evaluator(points.theta)
            more = Batch.of(q, points, evaluation.score, evaluation.log_density)
            columns = zip(batch, self._good_rows(more, evaluation), strict=True)
            batch = Batch(*(None if a is None else np.concatenate([a, b]) for a, b in columns))
        return Taken.of(batch)

    def _good_rows(self, batch: Batch, evaluation: Evaluation) -> Batch:
        good = self.evaluator.usable(evaluation)
        good &= np.isfinite(np.vecdot(batch.whitened_score, batch.whitened_score))
        self.evaluator.note_bad(batch.theta, evaluation, good)
        return Batch(*(_rows(column, good) for column in batch))


def _rows(column: Any, which: Mask) -> Any:
    return None if column is None else column[which]
