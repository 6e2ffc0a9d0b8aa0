"""Draws from q that its fit has not seen, and what the target says there."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import CHECK, stream
from scorevi.base.pairs import Draws
from scorevi.families import Approximation

DRAWS = 400


class Fresh(NamedTuple):
    """Draws from q, and what the target says there."""

    z: Array
    theta: Array
    score: Array
    """NaN where it is no use."""
    log_ratio: Array | None
    """log p − log q; −∞ where it is no use."""
    log_q: Array
    good: Mask

    @property
    def draws(self) -> Draws | None:
        """The same with log densities; None where the target has none."""
        if self.log_ratio is None:
            return None
        return Draws(self.theta, self.score, self.log_ratio + self.log_q, self.log_q)


def first(fresh: Fresh, size: int) -> Fresh:
    """Return the first draws alone."""
    return Fresh(*(None if column is None else column[:size] for column in fresh))  # type: ignore[arg-type]


def draw(q: Approximation, size: int, seed: int, evaluator: Evaluator, *, after: int = 0) -> Fresh:
    """Draw from q and evaluate; ``after`` so many draws of the same seed."""
    noise = stream(seed, CHECK).standard_normal((after + size, q.noise_width))[after:]
    theta, z, _, log_q = q.points(noise)
    evaluation = evaluator(theta)
    good = evaluator.usable(evaluation)
    score = np.where(good[:, None], evaluation.score, np.nan)
    log_ratio = None
    if evaluation.log_density is not None:
        log_ratio = np.where(good, evaluation.log_density - log_q, -np.inf)
    return Fresh(z, theta, score, log_ratio, log_q, good)


def joined(one: Fresh, two: Fresh) -> Fresh:
    """Return the draws of both."""
    columns = zip(one, two, strict=True)
    both: list[Any] = [None if a is None else np.concatenate([a, b]) for a, b in columns]
    return Fresh(*both)
