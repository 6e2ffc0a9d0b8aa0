r"""Draws from wider than q, for tails that no draw of q itself has seen.

The weights of draws from a q that is too narrow may look even: the few draws that would tell are
the ones that are missing. So twice as many draws come from around q, half of them from q widened
on all sides by :math:`1 + \sqrt{2/D}`, half from q stretched by 3 along one parameter, the others
following as q says. All draws together are weighted against the mixture that they come from. No
weight is then more than three times p/q, in any number of dimensions.

Where they find other moments than q has, tails may be longer than even these draws reach: as many
draws again come from the Gaussian with those moments, and from around it.
"""

from __future__ import annotations

import math

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import WIDER, stream
from scorevi.families import Gaussian
from scorevi.trust.examination import Examination

_STRETCH = 3.0
TIMES = 2
"""Wider draws for each fresh one."""


def look_wider(exam: Examination) -> tuple[Array, Array]:
    """Return the fresh draws and wider ones, with log p − log mixture, −∞ where bad."""
    fresh = exam.fresh
    assert fresh.log_ratio is not None
    rng = stream(exam.seed, WIDER)
    return _look(exam, exam.q, rng, fresh.z, fresh.theta, fresh.log_ratio)


def look_again(exam: Examination, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return draws of, and wider than, the Gaussian with the moments that were found instead."""
    rng = stream(exam.seed, WIDER, 1)
    q = Gaussian.from_moments(mean, covariance)
    z = rng.standard_normal((len(exam.fresh.z), q.dim))
    theta = np.asarray(q.unwhiten(z))
    return _look(exam, q, rng, z, theta, _log_ratio(exam, q, theta))


def _look(
    exam: Examination,
    q: Gaussian,
    rng: np.random.Generator,
    own: Array,
    own_theta: Array,
    own_ratio: Array,
) -> tuple[Array, Array]:
    """Add wider draws to those of q itself, and weigh all of them against their mixture."""
    count = TIMES * len(own)
    axes = q.factor / q.sd[:, None]  # row j: the direction, in whitened coordinates, of parameter j
    widened = 1.0 + math.sqrt(2.0 / q.dim)
    z = rng.standard_normal((count, q.dim))
    half = count // 2
    z[:half] *= widened
    along = axes[rng.integers(q.dim, size=count - half)]
    z[half:] += (_STRETCH - 1.0) * np.vecdot(z[half:], along)[:, None] * along
    theta = np.asarray(q.unwhiten(z))
    log_ratio = np.concatenate([own_ratio, _log_ratio(exam, q, theta)])
    log_ratio -= _log_mixture(np.concatenate([own, z]), axes, widened)
    return np.concatenate([own_theta, theta]), log_ratio


def _log_ratio(exam: Examination, q: Gaussian, theta: Array) -> Array:
    evaluation = exam.evaluator(theta)
    good = exam.evaluator.usable(evaluation)
    assert evaluation.log_density is not None
    return np.where(good, evaluation.log_density - q.log_density(theta), -np.inf)


def _log_mixture(z: Array, axes: Array, widened: float) -> Array:
    """Return log(mixture/q) at draws in whitened coordinates, (n,)."""
    dim = z.shape[1]
    squares = (z @ axes.T) ** 2
    along = np.logaddexp.reduce(_log_excess(squares, _STRETCH), axis=1) - math.log(dim)
    around = _log_excess(np.vecdot(z, z), widened) - (dim - 1) * math.log(widened)
    own, other = 1.0 / (1.0 + TIMES), 0.5 * TIMES / (1.0 + TIMES)
    parts = [np.full(len(z), math.log(own)), math.log(other) + along, math.log(other) + around]
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def _log_excess(square: Array, scale: float) -> Array:
    """Return log of N(0, scale²)/N(0, 1) where the square of the coordinate is given."""
    return 0.5 * square * (1.0 - scale**-2) - math.log(scale)
