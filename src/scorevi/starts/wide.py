"""The climb of a wide Gaussian, which cannot run into the neck of a funnel.

The log density of a centered hierarchy grows without bound as its scale goes to zero, and a climb
of it ends there, however little the neck holds. The ELBO does not: a Gaussian of some width sees
what a neck costs. With a few draws of noise fixed, the ELBO of N(m, diag(s)²), in the coordinates
of some q, is an ordinary function of m and log s with an exact gradient, and L-BFGS climbs it.

References
----------
Giordano, Ingram and Broderick (2024), Black box variational inference with a deterministic
objective, *JMLR* 25.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
import scipy.optimize

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.families import Gaussian, LowRank
from scorevi.starts.climb import wall

DRAWS = 4
"""The fixed ones: two and their opposites."""
_MEMORY = 20
_RECENT, _GAIN = 8, 0.1
"""What is gained in so many evaluations must exceed this, in nats."""
_WIDER, _TEST, _HOME = 4.0, 64, 0.35
"""How much wider a Gaussian is that is to come back, in how many gradients, and how near in log."""
_WIDEST = 25.0
"""Of |log s|, so that nothing overflows."""


class Wide(NamedTuple):
    """Where a wide climb has come to."""

    shift: Array
    """Of the mean, in the coordinates that it climbed in."""
    log_width: Array
    """Log of the widths in these coordinates."""
    elbo: float
    """On the fixed draws, without (D/2) log 2πe; optimistic, as they were climbed on."""


class WideClimb:
    """A climb under way.

    Its points are of no use to a regression: they lie in the few directions of the fixed draws.

    Parameters
    ----------
    evaluator
        The target with its budget.
    q
        The coordinates.
    rng
        For the fixed draws.
    """

    def __init__(
        self, evaluator: Evaluator, q: Gaussian | LowRank, rng: np.random.Generator
    ) -> None:
        half = rng.standard_normal((DRAWS // 2, q.dim))
        noise = np.concatenate([half, -half])
        self._noise = noise / np.sqrt(np.mean(noise**2, axis=0))
        self._evaluator, self._coordinates = evaluator, q
        self.best: Wide | None = None

    @property
    def q(self) -> Gaussian | None:
        """The best so far, as a Gaussian."""
        if self.best is None:
            return None
        width = np.exp(self.best.log_width)
        assert isinstance(self._coordinates, Gaussian)
        return self._coordinates.moved(
            self.best.shift, np.diag(width), float(self.best.log_width.sum())
        )

    @property
    def elbo(self) -> float:
        """The best so far, on the fixed draws."""
        return -math.inf if self.best is None else self.best.elbo + self._coordinates.log_det

    def climb(
        self, width: float, at_most: float, until: Callable[[Wide], bool] | None = None
    ) -> None:
        """Climb until little is gained, or ``until`` says so of the best.

        Parameters
        ----------
        width
            That of all coordinates to begin with; ignored where it goes on from an earlier climb.
        at_most
            The most gradients.
        until
            What ends the climb.
        """
        dim = self._coordinates.dim
        self._left, self._until, self._course = at_most, until, list[float]()
        if self.best is None:
            start = np.concatenate([np.zeros(dim), np.full(dim, math.log(width))])
        else:
            start = np.concatenate([self.best.shift, self.best.log_width])
        bounds = [(None, None)] * dim + [(-_WIDEST, _WIDEST)] * dim
        how: Any = {"maxiter": 1000, "maxfun": 10**9, "ftol": 0.0, "gtol": 0.0, "maxcor": _MEMORY}
        try:
            scipy.optimize.minimize(
                self._objective, start, jac=True, method="L-BFGS-B", bounds=bounds, options=how
            )
        except _Enough:
            return

    def _value(self, shift: Array, log_width: Array) -> tuple[float, Array]:
        """Evaluate the draws of one Gaussian; minus infinity where half of them are no use."""
        width = np.exp(log_width)
        theta = self._coordinates.unwhiten(shift + width * self._noise)
        evaluation, good = self._evaluator.noted(theta)
        log_density = evaluation.log_density
        assert log_density is not None
        if 2 * good.sum() <= DRAWS:
            return -math.inf, np.zeros(2 * len(shift))
        white = self._coordinates.whiten_score(evaluation.score[good])
        value = float(log_density[good].mean() + log_width.sum()) + math.log(float(good.mean()))
        along = (white * self._noise[good]).mean(axis=0) * width + 1.0
        return value, np.concatenate([white.mean(axis=0), along])

    def _objective(self, x: Array) -> tuple[float, Array]:
        if self._left < DRAWS:
            raise _Enough
        self._left -= DRAWS
        shift, log_width = np.split(x, 2)
        value, slope = self._value(shift, log_width)
        if not math.isfinite(value):
            if self.best is None:
                raise _Enough  # nothing to climb from
            best = np.concatenate([self.best.shift, self.best.log_width])
            return wall(x - best, self.best.elbo)
        if self.best is None or value > self.best.elbo:
            self.best = Wide(shift.copy(), log_width.copy(), value)
            if self._until is not None and self._until(self.best):
                raise _Enough
        self._course.append(self.best.elbo)
        if len(self._course) > _RECENT and self.best.elbo - self._course[-1 - _RECENT] < _GAIN:
            raise _Enough
        return -value, -slope


class _Enough(Exception):
    """The climb has come to where it should, or gains nothing any more."""


def comes_back(evaluator: Evaluator, q: Gaussian | LowRank, rng: np.random.Generator) -> bool:
    """Whether a Gaussian four times as wide as q climbs back to it.

    It does where the posterior is near Gaussian around q. In the neck of a funnel, which looks the
    same to draws from there, it does not. Costs at most 64 gradients.
    """
    near = 0.5 * math.sqrt(q.dim)

    def is_home(wide: Wide) -> bool:
        width = float(np.abs(wide.log_width).mean())
        return float(np.linalg.norm(wide.shift)) < near and width < _HOME

    climb = WideClimb(evaluator, q, rng)
    climb.climb(_WIDER, _TEST, is_home)
    return climb.best is not None and is_home(climb.best)
