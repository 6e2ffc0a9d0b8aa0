"""The sign of the score against the log density: a wrong one shows in the first few batches."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.estimates import predicted_and_actual
from scorevi.base.pairs import Pair
from scorevi.base.status import Status

_ENOUGH = 20


class SignCheck:
    """A comparison of scores and log densities between the first pairs that a run sees."""

    def __init__(self, slopes: Sequence[tuple[float, float]] = ()) -> None:
        self.slopes = list(slopes)
        """Changes of the log density as the scores predict them, and as they are."""

    @property
    def done(self) -> bool:
        """Whether enough pairs were seen."""
        return len(self.slopes) >= _ENOUGH

    def add_rows(self, theta: Array, score: Array, log_density: Array) -> Status | None:
        """Compare the first two draws of a batch."""
        rows = zip(theta[:2], score[:2], log_density[:2], strict=True)
        return self.add(*(Pair(t, g, float(v)) for t, g, v in rows))

    def add(self, *pairs: Pair) -> Status | None:
        """Compare each pair with the next; returns how the run must end, if it must."""
        if self.done:
            return None
        self.slopes += [predicted_and_actual(a, b) for a, b in itertools.pairwise(pairs)]
        if len(self.slopes) < _ENOUGH:
            return None
        predicted, actual = np.array(self.slopes).T
        scale = float(np.linalg.norm(predicted) * np.linalg.norm(actual))
        if not scale > 0 or not float(predicted @ actual) < -0.5 * scale:
            return None
        return Status(
            "bad-scores",
            "the score contradicts the log density: between draws the log density falls where "
            "the score says that it rises",
            "Check the sign of the score, and compare it with finite differences of the "
            "log density.",
        )
