"""Racers: short fits from several places, of which the best one is gone on with.

A racer is judged by draws of its own q, so that the ELBO of each is what it is worth, whatever way
led there.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.estimates import robust_elbo
from scorevi.base.evaluate import Evaluator
from scorevi.base.linalg import flat_direction
from scorevi.base.pairs import Pair
from scorevi.families import Gaussian, LowRank, Points, is_sound
from scorevi.solvers.base import Batch
from scorevi.solvers.low_rank import LowRankReplay
from scorevi.solvers.replay import Replay

_JUDGED = 40
"""The last draws, by which a racer is judged."""
_EXACT = 1e-12
"""The residual of a draw, beyond those that determine a Gaussian, where q is exact."""
_FIRST_LOOK = 8
"""Steps before the scores are asked for a direction along which the posterior has no end."""
_SETTLED_DRAWS = 12
"""Draws that must agree with q."""


class Racer:
    """A short fit, by :class:`~scorevi.solvers.Replay` or what fits the family that it is of.

    Attributes
    ----------
    given
        Pairs that it began with.
    pairs
        All that it has drawn, of a Gaussian.
    is_lost
        Whether it cannot go on.
    """

    def __init__(
        self,
        evaluator: Evaluator,
        q: Gaussian | LowRank,
        *pairs: Pair,
        solver: LowRankReplay | None = None,
    ) -> None:
        self._evaluator = evaluator
        chosen: Any = Replay() if solver is None else solver
        self._solver = chosen
        self._state: Any = chosen.init(q)
        self._needed = q.dim + 2 if solver is None else solver.pairs_to_determine(q.dim) + 1
        if pairs:
            self._state = self._solver.remember(self._state, pairs)
        self._volume = q.log_volume
        self.given = pairs
        self.pairs: list[Pair] = []
        self._residuals: list[float] = []
        self._values: list[float] = []
        self.is_lost = False
        self._steps = 0

    @property
    def q(self) -> Any:
        """Where it is."""
        return self._state.q

    @property
    def state(self) -> Any:
        """Its solver's."""
        return self._state

    @property
    def residuals(self) -> Array:
        """Of its draws, |h + z|²/D; infinite where there was no usable score."""
        return np.array(self._residuals)

    def is_settled(self, residual: float) -> bool:
        """Whether the last draws, and no fewer than determine a Gaussian, agree with q.

        The posterior is near Gaussian there; ``residual`` is the Fisher residual that is allowed.
        """
        count = len(self._residuals)
        if count > self._needed and self._residuals[-1] < _EXACT:
            return True
        enough = count >= max(_SETTLED_DRAWS, self._needed)
        return enough and float(np.mean(self._residuals[-_SETTLED_DRAWS:])) < residual

    @property
    def elbo(self) -> float:
        """E_q[log p − log q] by its last draws; minus infinity where most of them are no use."""
        return -math.inf if self.is_lost else robust_elbo(self.values[-_JUDGED:])[0]

    @property
    def values(self) -> Array:
        """Of its draws, log p − log q; minus infinity where there was no usable score."""
        return np.array(self._values)

    def look(self, rng: np.random.Generator, size: int) -> Batch:
        """Draw from its q; returns the draws with a usable score."""
        q = self.q
        points = getattr(self._state, "proposal", q).points(rng.standard_normal((size, q.dim)))
        evaluation, good = self._evaluator.noted(points.theta)
        log_density = evaluation.log_density
        if log_density is None:
            log_density = np.full(size, math.nan)
        kept = Points(*(column[good] for column in points))
        batch = Batch.of(q, kept, evaluation.score[good], log_density[good])
        mismatch = batch.z + batch.whitened_score
        residuals = np.full(size, math.inf)
        residuals[good] = np.vecdot(mismatch, mismatch) / q.dim
        self._residuals += residuals.tolist()
        values = np.full(size, -math.inf)
        values[good] = log_density[good] - batch.log_q
        self._values += values.tolist()
        if isinstance(q, LowRank):
            return batch  # what is kept of it, its solver keeps
        rows = zip(batch.theta, batch.score, log_density[good], batch.log_q, strict=True)
        self.pairs += [Pair(point, score, float(p), float(q)) for point, score, p, q in rows]
        return batch

    def move(self, batch: Batch) -> None:
        """Take a step by draws that :meth:`look` returned."""
        if not len(batch.z):
            return
        try:
            state, _ = self._solver.step(self._state, batch)
        except np.linalg.LinAlgError:
            self.is_lost = True
            return
        self._steps += 1
        if not is_sound(state.q, self._volume) or self._has_no_end():
            self.is_lost = True
        else:
            self._state = state

    def _has_no_end(self) -> bool:
        """Look, whenever the number of steps doubles, for a direction that no score points along.

        A fit would follow it for ever.
        """
        if self._steps < _FIRST_LOOK or self._steps.bit_count() != 1:
            return False
        if len(self.pairs) < self.q.dim + 2:
            return False  # too few to tell
        scores = self.q.whiten_score(np.array([pair.score for pair in self.pairs]))
        return flat_direction(np.asarray(scores)) is not None

    def run(self, rng: np.random.Generator, gradients: int, settled: float) -> bool:
        """Go on until it is settled or lost, or so many gradients are spent; returns if settled."""
        end = self._evaluator.spent + gradients
        while self._evaluator.spent < end and not (self.is_settled(settled) or self.is_lost):
            size = min(self._state.batch_size, end - self._evaluator.spent)
            self.move(self.look(rng, size))
        return self.is_settled(settled)
