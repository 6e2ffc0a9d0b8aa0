"""The search for a mode: SciPy's L-BFGS-B, with every evaluation counted and kept."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import scipy.optimize

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator, Exhausted
from scorevi.base.pairs import Pair
from scorevi.families import Approximation, Gaussian, LowRank

_MAX_RESTARTS = 5
_MEMORY = 20
_WITHIN = 6.0
"""Standard deviations beyond the typical distance of a draw."""


def is_within(q: Approximation, point: Array) -> bool:
    """Whether a point lies where draws from q do, or not far outside."""
    return float(q.distance(point)) < math.sqrt(q.dim) + _WITHIN


def wall(away: Array, highest: float) -> tuple[float, Array]:
    """Return value and slope, to be minimised, of a point that is no use, so far from the best.

    The line search interpolates: a finite, high wall sloping back the way it came. A score may fail
    where it once was fine; the slope is finite at no distance at all.
    """
    distance = max(float(np.linalg.norm(away)), 1e-300)
    height = max(1.0, abs(highest))
    return -highest + height, min(height / distance, 1e150) * (away / distance)


class Ascent:
    """L-BFGS to a mode, keeping all it sees; a bad evaluation is a wall, not the end.

    Attributes
    ----------
    pairs
        All usable evaluations.
    path
        Those of them that were higher than all before.
    converged
        Whether the optimiser says that it has arrived.
    """

    def __init__(self, evaluator: Evaluator) -> None:
        self.pairs: list[Pair] = []
        self.path: list[Pair] = []
        self.converged = False
        self._evaluator = evaluator
        self._left = math.inf
        self._known: Gaussian | LowRank | None = None

    @property
    def highest(self) -> float:
        """The highest log density seen."""
        return self.path[-1].log_density if self.path else -math.inf

    def visit(self, theta: Array) -> bool:
        """Evaluate a point; False where it is no use."""
        if self._left <= 0:
            raise Exhausted
        self._left -= 1
        pair = self._evaluator.point(theta)
        if pair is None:
            return False
        self.pairs.append(pair)
        if pair.log_density > self.highest:
            self.path.append(pair)
            if self._known is not None and is_within(self._known, pair.theta):
                raise Exhausted
        return True

    def climb(
        self,
        start: Array,
        at_most: float = math.inf,
        unless_within: Gaussian | LowRank | None = None,
    ) -> None:
        """Climb until it converges, or ``at_most`` evaluations or the budget are spent.

        It also ends where it comes to be within a Gaussian that is known.
        """
        self._left, self._known = at_most, unless_within
        previous = -math.inf
        for _ in range(_MAX_RESTARTS):
            try:
                result: Any = scipy.optimize.minimize(
                    self._objective,
                    self.path[-1].theta if self.path else start,
                    jac=True,
                    method="L-BFGS-B",
                    options={"maxiter": 1000, "maxfun": 10**9, "ftol": 1e-12, "maxcor": _MEMORY},
                )
            except Exhausted:
                return
            # A line search that ran into a wall may end far from a mode: go on from the best.
            gain = self.highest - previous
            previous = self.highest
            self.converged = bool(result.success)
            if self.converged or not gain > 1e-9 * (1.0 + abs(previous)):
                return

    def _objective(self, theta: Array) -> tuple[float, Array]:
        if self.visit(theta):
            return -self.pairs[-1].log_density, -self.pairs[-1].score
        if not self.path:
            return 0.0, np.zeros_like(theta)  # nothing to climb from: ends at once
        return wall(theta - self.path[-1].theta, self.highest)


def curvature_gaussian(path: list[Pair]) -> Gaussian | None:
    r"""Return a Gaussian at the end of a path, its covariance the BFGS inverse Hessian.

    None where the path has not seen any curvature. A step s with a change y of the score turns
    the inverse H into :math:`V H V^\top + s s^\top / s^\top y` with
    :math:`V = I - s y^\top / s^\top y`. For a root R of H that is

    .. math:: R \leftarrow R + s\,(u - R^\top y / s^\top y)^\top, \qquad
              u = w / (|w| \sqrt{s^\top y}), \quad w = R^{-1} s,

    because :math:`V R u = 0`: in O(D²), and positive definite as it stands.
    """
    pairs, scale = _curved(path), curvature_scale(path)
    if scale is None:
        return None
    root = np.eye(len(path[-1].theta)) * scale
    turns: list[tuple[Array, Array]] = []
    for step, change in pairs:
        product = math.sqrt(float(step @ change))
        white = step / scale
        for direction, turn in turns:  # the inverse of R, one update after the other
            white = white - direction * float(turn @ white)
        length = float(np.linalg.norm(white))
        turn = white / (length * product) - (change / product) @ root / product
        root += np.outer(step, turn)
        turns.append((white, turn * (product / length)))
    if not np.isfinite(root).all():
        return None
    # The triangular root, which does not depend on the way that led to it.
    lower = Gaussian(path[-1].theta, root, 0.0).cholesky
    diagonal = np.diag(lower)
    if not (diagonal > 0).all():
        return None
    return Gaussian(path[-1].theta, lower, float(np.log(diagonal).sum()))


def _curved(path: list[Pair]) -> list[tuple[Array, Array]]:
    """Return the last steps of a path and changes of the score, where these show curvature."""
    pairs = []
    for one, two in itertools.pairwise(path[-_MEMORY - 1 :]):
        step, change = two.theta - one.theta, one.score - two.score
        if float(step @ change) > 1e-10 * float(np.linalg.norm(step) * np.linalg.norm(change)):
            pairs.append((step, change))
    return pairs


def curvature_scale(path: list[Pair]) -> float | None:
    """Return the width that the last step has seen; None where it has seen no curvature."""
    pairs = _curved(path)
    if not pairs:
        return None
    step, change = pairs[-1]
    return math.sqrt(float(step @ change) / float(change @ change))


def curvature_low_rank(path: list[Pair]) -> LowRank | None:
    """Return the same as a diagonal and directions, without a D × D array.

    The inverse Hessian differs from a multiple of I within what steps and changes span alone, so
    that all is done there.
    """
    last = path[-_MEMORY - 1 :]
    rows = [np.subtract(two.theta, one.theta) for one, two in itertools.pairwise(last)]
    rows += [np.subtract(two.score, one.score) for one, two in itertools.pairwise(last)]
    if not rows or not np.isfinite(rows).all():
        return None
    span = np.array(rows) / np.maximum(np.linalg.norm(rows, axis=1, keepdims=True), 1e-300)
    basis = np.linalg.qr(span.T)[0]
    end = path[-1].theta
    small = [
        Pair((pair.theta - end) @ basis, pair.score @ basis, pair.log_density) for pair in last
    ]
    within = curvature_gaussian(small)
    scale = curvature_scale(small)
    if within is None or scale is None:
        return None
    values, turn = np.linalg.eigh(within.covariance / scale**2)
    if not (values > 0).all():
        return None
    dim = len(end)
    widths = np.sqrt(values)
    log_det = dim * math.log(scale) + float(np.log(widths).sum())
    return LowRank(end, np.full(dim, scale), np.asarray(basis @ turn), widths, log_det)
