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
from scorevi.families import Approximation, Gaussian
from scorevi.trust.examination import Examination

_STRETCH = 3.0
TIMES = 2
"""Wider draws for each fresh one."""


def look_wider(exam: Examination) -> tuple[Array, Array]:
    """Return the fresh draws and wider ones, with log p − log mixture, −∞ where bad."""
    fresh = exam.fresh
    assert fresh.log_ratio is not None
    rng = stream(exam.seed, WIDER)
    return _look(exam, exam.q, rng, fresh.theta, fresh.log_ratio + fresh.log_q)


def look_again(exam: Examination, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return draws of, and wider than, the Gaussian with the moments that were found instead."""
    rng = stream(exam.seed, WIDER, 1)
    q = Gaussian.from_moments(mean, covariance)
    theta = np.asarray(q.unwhiten(rng.standard_normal((len(exam.fresh.theta), q.dim))))
    return _look(exam, q, rng, theta, _log_density(exam, theta))


def _look(
    exam: Examination,
    q: Approximation,
    rng: np.random.Generator,
    own: Array,
    own_log_p: Array,
) -> tuple[Array, Array]:
    """Add wider draws to those of q itself, and weigh all of them against their mixture.

    Those of a mixture are from wider than the Gaussian with its moments.
    """
    count = TIMES * len(own)
    white = q.coordinates
    axes = white.factor / q.sd[:, None]  # row j: the whitened direction of parameter j
    widened = 1.0 + math.sqrt(2.0 / q.dim)
    z = rng.standard_normal((count, q.dim))
    half = count // 2
    z[:half] *= widened
    along = axes[rng.integers(q.dim, size=count - half)]
    z[half:] += (_STRETCH - 1.0) * np.vecdot(z[half:], along)[:, None] * along
    theta = np.asarray(white.unwhiten(z))
    log_p = np.concatenate([own_log_p, _log_density(exam, theta)])
    theta = np.concatenate([own, theta])
    wider = white.log_density(theta) + _log_wider(white.whiten(theta), axes, widened)
    inner, outer = math.log(1.0 / (1.0 + TIMES)), math.log(TIMES / (1.0 + TIMES))
    return theta, log_p - np.logaddexp(inner + q.log_density(theta), outer + wider)


def _log_density(exam: Examination, theta: Array) -> Array:
    """Evaluate; −∞ where it is no use."""
    evaluation = exam.evaluator(theta)
    good = exam.evaluator.usable(evaluation)
    assert evaluation.log_density is not None
    return np.where(good, evaluation.log_density, -np.inf)


def _log_wider(z: Array, axes: Array, widened: float) -> Array:
    """Return the log density of wider draws over N(0, I), in whitened coordinates, (n,)."""
    dim = z.shape[1]
    squares = (z @ axes.T) ** 2
    along = np.logaddexp.reduce(_log_excess(squares, _STRETCH), axis=1) - math.log(dim)
    around = _log_excess(np.vecdot(z, z), widened) - (dim - 1) * math.log(widened)
    return np.asarray(np.logaddexp(along, around) - math.log(2.0))


def _log_excess(square: Array, scale: float) -> Array:
    """Return log of N(0, scale²)/N(0, 1) where the square of the coordinate is given."""
    return 0.5 * square * (1.0 - scale**-2) - math.log(scale)
