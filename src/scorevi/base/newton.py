"""How far the best Gaussian is from q, marginal by marginal, by the scores at draws from q."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.linalg import quadratics
from scorevi.base.valley import Told, Valley, valley

_LEAST_CURVED = 0.2
"""Of curvatures in units of q's own, below which they are not believed."""
_PER_FEATURE, _RIDGE = 4, 1e-10
"""Draws for each polynomial that is taken out, and what keeps a few draws from being singular."""
_BLOCK = 2048
"""Parameters that are looked at together, where there are more of them than draws tell apart."""
_ERRORS = 2.0
"""Standard errors of what scores may be at most."""
_ENOUGH, _MOST = 3, 1000
"""Draws, over D + 1, that tell of a valley; and no more than so many are asked."""


class Steps(NamedTuple):
    """How far each marginal should still move, with standard errors, (D,) each."""

    mean: Array
    """In standard deviations."""
    mean_error: Array
    log_sd: Array
    log_sd_error: Array
    lengthening: float
    """By what factor bends of the score, at most, make the way longer than the score says."""


def steps(
    shift: Array,
    offset: Array,
    z: Array,
    mismatch: Array,
    images: Callable[[Array], Array],
    *,
    normal: bool = True,
) -> Steps:
    r"""Return where mismatched scores of draws from q say that its marginals should go.

    With t the coordinate of a parameter and s the mismatch of the score along it, both in standard
    deviations of q, E[s] and E[s t] vanish at the best Gaussian. They change with mean and log sd
    by the second and third derivatives of the log density, and by the next ones, which the draws
    tell too: :math:`E[s (t^2 - 1)]` and :math:`E[s (t^3 - 3t)]`. So this is Newton's step for each
    marginal. Where the score is bent it may be several times E[s]; and along a curved valley
    (:mod:`scorevi.base.valley`), where all of q changes with one parameter, several times that.

    Parameters
    ----------
    shift, offset
        s and t of the draws, (n, D).
    z, mismatch
        The same in whitened coordinates: draws, and the scores of the target there less those of q.
    images
        Maps rows of whitened space to parameters in standard deviations.
    normal
        Whether q is one Gaussian. Of others z has mean 0 and covariance I too, but cubes of it have
        means of their own and take no noise out, and products with polynomials are no derivatives:
        the step is then that of the slope alone.
    """
    count, dim = z.shape
    if dim > _BLOCK and count <= _PER_FEATURE * dim:
        # Nothing but its own draws tells of a parameter then: some at a time take less room.
        parts = [slice(first, first + _BLOCK) for first in range(0, dim, _BLOCK)]
        few = [
            _newton(shift[:, part], offset[:, part], z[:, :0], z[:, :0], images, normal=normal)
            for part in parts
        ]
        mean, mean_error, log_sd, log_sd_error = (
            np.concatenate([steps[column] for steps in few]) for column in range(4)
        )
        longest = max(steps.lengthening for steps in few)
        return Steps(mean, mean_error, log_sd, log_sd_error, longest)
    return _newton(shift, offset, z, mismatch, images, normal=normal)


def _newton(
    shift: Array,
    offset: Array,
    z: Array,
    mismatch: Array,
    images: Callable[[Array], Array],
    *,
    normal: bool,
) -> Steps:
    square = offset * offset
    wider = shift * offset
    averages = _Averages(z, offset, mismatch, normal=normal)
    if not normal:
        (slope,), _ = averages(wider)
        precision = np.maximum(1.0 - slope, _LEAST_CURVED)
        (mean, log_sd), (mean_error, log_sd_error) = averages(shift, 0.5 * wider)
        return Steps(
            mean / precision,
            mean_error / precision,
            log_sd / precision,
            log_sd_error / precision,
            1.0,
        )
    (slope, bend, twist), _ = averages(wider, shift * (square - 1.0), wider * (square - 3.0))
    precision = np.maximum(1.0 - slope, _LEAST_CURVED)
    across = np.maximum(2.0 * precision - twist, _LEAST_CURVED)
    determinant = np.maximum(precision * across - bend**2, _LEAST_CURVED * precision * across)
    moves = (across * shift + bend * wider) / determinant
    widens = (bend * shift + precision * wider) / determinant
    own = across * np.maximum(precision, 1.0) / determinant
    (mean, log_sd), (mean_error, log_sd_error) = averages(moves, widens)
    longest = float(own.max())
    found = _valley(z, mismatch)
    if found is not None:
        whole, beyond = _along(found, z, mismatch)
        along = images(found.direction[None])[0]
        wider = 0.5 * np.diag(images(images(found.bend).T))
        mean, log_sd = mean + beyond.value * along, log_sd + whole.value * wider
        mean_error = np.hypot(mean_error, math.sqrt(beyond.variance) * along)
        log_sd_error = np.hypot(log_sd_error, math.sqrt(whole.variance) * wider)
        longest = max(longest, found.lengthening)
    return Steps(mean, mean_error, log_sd, log_sd_error, longest)


def together(rows: Array) -> tuple[float, float]:
    """Return |E_q m|², which no parameter's shift squared exceeds, without bias, and its error.

    By the inner products of different draws, whose noise is independent.
    """
    count = len(rows)
    pairs = count * (count - 1)
    own = np.vecdot(rows, rows)
    total = rows.sum(axis=0)
    value = (float(total @ total) - float(own.sum())) / pairs
    small = rows.T @ rows if rows.shape[1] < count else rows @ rows.T
    squares = float(np.vdot(small, small)) - float(own @ own)
    # Each two draws are in the sum twice.
    return value, math.sqrt(2.0 * max(0.0, squares / pairs - value**2) / pairs)


class _Averages:
    """E_q of functions of draws, with standard errors, by less noise than their means have.

    Most of what makes such a function vary is smooth in z, and what a polynomial has to do with it
    is known to average out under q. So it is regressed on z, its second Hermite polynomials, along
    the directions in which the scores are most bent where there are too many of them, and where q
    is normal the third one of its own parameter; the intercept is what is asked for.
    """

    def __init__(self, z: Array, offset: Array, mismatch: Array, *, normal: bool) -> None:
        count, dim = z.shape
        columns = [np.ones((count, 1))]
        number = int(math.sqrt(2.0 * max(0.0, count / _PER_FEATURE - dim))) if dim else 0
        if number > 0:
            y = z
            if number < dim:
                y = z @ np.linalg.eigh(mismatch.T @ mismatch)[1][:, -number:]
            columns += [z, quadratics(y)]
        self._design = np.concatenate(columns, axis=1)
        self._gram = self._design.T @ self._design
        self._gram[np.diag_indices(len(self._gram))] += _RIDGE * count
        self._share = self._design @ np.linalg.solve(self._gram, np.eye(len(self._gram), 1))[:, 0]
        cubes = offset * (offset * offset - 3.0) if normal else np.zeros_like(offset)
        self._cubes, self._cube_means = self._fitted(cubes)
        self._power = np.maximum(np.vecdot(self._cubes.T, self._cubes.T), 1e-300)
        self._spare = max(1, count - len(self._gram) - 1)

    def __call__(self, *functions: Array) -> tuple[list[Array], list[Array]]:
        """Return averages and errors of functions with a column for each parameter, (n, D)."""
        means, errors = [], []
        for values in functions:
            left, mean = self._fitted(values)
            slope = np.vecdot(self._cubes.T, left.T) / self._power
            left = left - slope * self._cubes
            means.append(mean - slope * self._cube_means)
            variance = self._share**2 @ left**2 * (len(left) / self._spare)
            errors.append(np.sqrt(variance))
        return means, errors

    def _fitted(self, values: Array) -> tuple[Array, Array]:
        """Return what the common polynomials leave, and the intercept."""
        coefficients = np.linalg.solve(self._gram, self._design.T @ values)
        return values - self._design @ coefficients, coefficients[0]


def _along(found: Valley, z: Array, mismatch: Array) -> tuple[Told, Told]:
    """Return how far the best Gaussian is along a valley, and by how much beyond what scores say.

    Neither is more than what all scores together allow for, which in many dimensions are known
    better than the bend is.
    """
    shift, beyond, bend = found.way(z[-_MOST:], mismatch[-_MOST:])
    square, error = together(mismatch)
    score = math.sqrt(max(0.0, square) + _ERRORS * error)
    most = found.lengthening * (score + 0.5 * found.strength * abs(bend.value))
    return _no_more(shift, most), _no_more(beyond, most)


def _no_more(told: Told, most: float) -> Told:
    upper = abs(told.value) + _ERRORS * math.sqrt(told.variance)
    share = min(1.0, most / max(upper, 1e-300))
    return Told(share * told.value, share**2 * told.variance)


def _valley(z: Array, mismatch: Array) -> Valley | None:
    """Return the valley that the last draws tell of."""
    z, mismatch = z[-_MOST:], mismatch[-_MOST:]
    count, dim = z.shape
    if dim == 0 or count < _ENOUGH * (dim + 1) or not np.isfinite(mismatch).all():
        return None
    design = np.concatenate([np.ones((count, 1)), z], axis=1)
    line = np.linalg.lstsq(design, mismatch, rcond=None)[0]
    return valley(z, mismatch - design @ line)
