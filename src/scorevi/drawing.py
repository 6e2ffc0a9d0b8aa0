"""Batches of draws from q with good scores: what is bad is dropped, counted and drawn anew."""

from __future__ import annotations

import math

import numpy as np

from scorevi._arrays import Array
from scorevi.diagnostics import fisher_residual
from scorevi.evaluate import Evaluator
from scorevi.gaussian import Gaussian
from scorevi.noise import Noise
from scorevi.solvers.base import Batch
from scorevi.targets.base import Evaluation

_TRIES_BEFORE_SEARCH = 10


class NothingGood(Exception):
    """The first draws of a run all had bad scores."""


class Drawing:
    """The draws of one run: where their noise comes from, and who evaluates them."""

    def __init__(self, evaluator: Evaluator, noise: Noise) -> None:
        self._evaluator = evaluator
        self._noise = noise

    def batch(
        self, q: Gaussian, size: int, evaluation: Evaluation | None, *, first: bool
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
        z = self._noise.take(size)
        offset = q.image(z)
        theta = q.mean + offset
        if evaluation is None:
            evaluation = self._evaluator(theta)
        else:
            self._evaluator.spent += size
        score, log_density, _ = evaluation
        white = q.whiten_score(score)
        fisher = float(fisher_residual(z, white))
        # A sum is finite only if all its terms are: one test for the usual case.
        if math.isfinite(fisher) and (
            log_density is None or math.isfinite(float(log_density.sum()))
        ):
            return Batch(z, offset, theta, score, white, log_density), fisher
        return self._filled_up(q, size, self._good_rows(q, z, offset, evaluation), first)

    def _filled_up(self, q: Gaussian, size: int, batch: Batch, first: bool) -> tuple[Batch, float]:
        """Fill up a batch of which some draws were dropped."""
        while (missing := size - len(batch.z)) > 0:
            nothing_good_yet = first and len(batch.z) == 0
            if nothing_good_yet and self._evaluator.bad.total >= _TRIES_BEFORE_SEARCH:
                raise NothingGood
            z = self._noise.take(missing)
            offset = q.image(z)
            more = self._good_rows(q, z, offset, self._evaluator(q.mean + offset))
            columns = zip(batch, more, strict=True)
            batch = Batch(*(None if a is None else np.concatenate([a, b]) for a, b in columns))
        return batch, float(fisher_residual(batch.z, batch.whitened_score))

    def _good_rows(self, q: Gaussian, z: Array, offset: Array, evaluation: Evaluation) -> Batch:
        theta = q.mean + offset
        score, log_density, _ = evaluation
        white = q.whiten_score(score)
        good = self._evaluator.usable(evaluation)
        good &= np.isfinite(np.vecdot(white, white))
        self._evaluator.note_bad(theta, evaluation, good)
        return Batch(
            z[good],
            offset[good],
            theta[good],
            score[good],
            white[good],
            None if log_density is None else log_density[good],
        )
