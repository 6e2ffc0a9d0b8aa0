r"""Draws from wider than q, for tails that no draw of q itself has seen.

The weights of draws from a q that is too narrow may look even: the few draws that would tell are
the ones that are missing. So as many draws again come from around q, half of them from q widened
on all sides by :math:`1 + \sqrt{2/D}`, half from q stretched by 3 along one parameter, the others
following as q says. All draws together are weighted against the mixture that they come from. No
weight is then more than twice p/q, in any number of dimensions.
"""

from __future__ import annotations

import math

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import WIDER, stream
from scorevi.trust.examination import Examination

_STRETCH = 3.0


def look_wider(exam: Examination) -> tuple[Array, Array]:
    """Return the fresh draws and as many wider ones, with log p − log mixture, −∞ where bad."""
    q, fresh, evaluator = exam.q, exam.fresh, exam.evaluator
    assert fresh.log_ratio is not None
    count = len(fresh.z)
    axes = q.factor / q.sd[:, None]  # row j: the direction, in whitened coordinates, of parameter j
    rng = stream(exam.seed, WIDER)
    widened = 1.0 + math.sqrt(2.0 / q.dim)
    z = rng.standard_normal((count, q.dim))
    half = count // 2
    z[:half] *= widened
    along = axes[rng.integers(q.dim, size=count - half)]
    z[half:] += (_STRETCH - 1.0) * np.vecdot(z[half:], along)[:, None] * along
    theta = np.asarray(q.unwhiten(z))
    evaluation = evaluator(theta)
    good = evaluator.usable(evaluation)
    assert evaluation.log_density is not None
    log_ratio = np.where(good, evaluation.log_density - q.log_density(theta), -np.inf)
    both = np.concatenate([fresh.z, z])
    log_ratio = np.concatenate([fresh.log_ratio, log_ratio]) - _log_mixture(both, axes, widened)
    return np.concatenate([fresh.theta, theta]), log_ratio


def _log_mixture(z: Array, axes: Array, widened: float) -> Array:
    """Return log(mixture/q) at draws in whitened coordinates, (n,)."""
    dim = z.shape[1]
    squares = (z @ axes.T) ** 2
    along = np.logaddexp.reduce(_log_excess(squares, _STRETCH), axis=1) - math.log(dim)
    around = _log_excess(np.vecdot(z, z), widened) - (dim - 1) * math.log(widened)
    parts = [np.full(len(z), math.log(0.5)), math.log(0.25) + along, math.log(0.25) + around]
    return np.asarray(np.logaddexp.reduce(parts, axis=0))


def _log_excess(square: Array, scale: float) -> Array:
    """Return log of N(0, scale²)/N(0, 1) where the square of the coordinate is given."""
    return 0.5 * square * (1.0 - scale**-2) - math.log(scale)
