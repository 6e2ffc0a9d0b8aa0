r"""Draws from wider than q, for tails that no draw of q itself has seen.

The weights of draws from a q that is too narrow may look even: the few draws that would tell are
the ones that are missing. So twice as many draws come from around q, half of them from q widened
on all sides by :math:`1 + \sqrt{2/D}`, half from q stretched by 3 along one parameter, the others
following as q says. All draws together are weighted against the mixture that they come from. No
weight is then more than three times p/q, in any number of dimensions.

Of a mixture each component is widened; and those at the edges are moved outside of it, by two of
their standard deviations along the line on which the components lie, narrower and wider too: beyond
the last of them there may be more of the posterior, such as the neck of a funnel. Of a nested
approximation the scales are stretched, and what is given them is widened.

Where they find other moments than q has, tails may be longer than even these draws reach: as many
draws again come from the Gaussian with those moments, and from around it.
"""

from __future__ import annotations

import math
from typing import Protocol

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.noise import WIDER, stream
from scorevi.families import Approximation, Gaussian, LowRank, Mixture, Nested
from scorevi.trust.examination import Examination

_STRETCH = 3.0
_BEYOND = 2.0
"""Standard deviations of a component, by which it is moved."""
_ALONE = 0.4
"""How much the others may add there, in nats: there is an edge."""
_ACROSS = (0.7, 1.0, 1.4)
"""Its width across that way, over what it was."""
TIMES = 2
"""Wider draws for each fresh one."""
_TOO_MANY = 1000
"""Parameters, of a diagonal and directions, of which no number of wider draws would tell."""


def look_wider(exam: Examination) -> tuple[Array, Array]:
    """Return the fresh draws and wider ones, with log p − log mixture, −∞ where bad."""
    fresh = exam.fresh
    assert fresh.log_ratio is not None
    rng = stream(exam.seed, WIDER)
    return _look(exam, exam.q, rng, fresh.theta, fresh.log_ratio + fresh.log_q)


def look_again(exam: Examination, mean: Array, covariance: Array) -> tuple[Array, Array]:
    """Return draws of, and wider than, the Gaussian with the moments that were found instead.

    Of a diagonal and directions, mean and variances, (D,) each, with the correlations of q.
    """
    rng = stream(exam.seed, WIDER, 1)
    q = _with_moments(exam.q, mean, covariance)
    theta = np.asarray(q.unwhiten(rng.standard_normal((len(exam.fresh.theta), q.dim))))
    return _look(exam, q, rng, theta, log_density_at(exam.evaluator, theta))


def _look(
    exam: Examination,
    q: Approximation,
    rng: np.random.Generator,
    own: Array,
    own_log_p: Array,
) -> tuple[Array, Array]:
    """Add wider draws to those of q itself, and weigh all of them against their mixture."""
    count = TIMES * len(own)
    wider = wider_than(q)
    theta = wider.sample(count, rng)
    log_p = np.concatenate([own_log_p, log_density_at(exam.evaluator, theta)])
    theta = np.concatenate([own, theta])
    inner, outer = math.log(1.0 / (1.0 + TIMES)), math.log(TIMES / (1.0 + TIMES))
    log_q = np.logaddexp(inner + q.log_density(theta), outer + wider.log_density(theta))
    return theta, log_p - log_q


def is_affordable(q: Approximation) -> bool:
    """Return whether as many wider draws of a q can be had as would tell anything."""
    return not (isinstance(q, LowRank) and q.dim > _TOO_MANY)


def wider_than(q: Approximation) -> Wider:
    """Return what the wider draws of a q come from."""
    if isinstance(q, Nested):
        return q.wider(1.0 + math.sqrt(2.0 / q.dim), _STRETCH)
    return _WiderMixture(q) if isinstance(q, Mixture) else _WiderGaussian(q)


def _with_moments(q: Approximation, mean: Array, covariance: Array) -> Gaussian | LowRank:
    if isinstance(q, LowRank):
        return q.stretched(mean, np.sqrt(covariance) / q.sd)
    return Gaussian.from_moments(mean, covariance)


class Wider(Protocol):
    """A distribution around a q, and wider."""

    def sample(self, count: int, rng: np.random.Generator, /) -> Array:
        """Draw so many points, (count, D)."""

    def log_density(self, theta: Array, /) -> Array:
        """Return the log density, normalised, at the rows of theta, (n,)."""


class _WiderGaussian:
    """Half q widened on all sides, half q stretched along one parameter."""

    def __init__(self, q: Gaussian | LowRank) -> None:
        self._q = q
        self._widened = 1.0 + math.sqrt(2.0 / q.dim)

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        dim = self._q.dim
        z = rng.standard_normal((count, dim))
        half = count // 2
        z[:half] *= self._widened
        chosen = rng.integers(dim, size=count - half)
        units = np.zeros((count - half, dim))
        units[np.arange(count - half), chosen] = 1.0 / self._q.sd[chosen]
        along = np.asarray(self._q.whiten_score(units))  # the whitened directions of parameters
        z[half:] += (_STRETCH - 1.0) * np.vecdot(z[half:], along)[:, None] * along
        return np.asarray(self._q.unwhiten(z))

    def log_density(self, theta: Array) -> Array:
        z = self._q.whiten(theta)
        dim = z.shape[1]
        squares = ((theta - self._q.mean) / self._q.sd) ** 2
        along = np.logaddexp.reduce(_log_excess(squares, _STRETCH), axis=1) - math.log(dim)
        around = _log_excess(np.vecdot(z, z), self._widened) - (dim - 1) * math.log(self._widened)
        return np.asarray(self._q.log_density(theta) + np.logaddexp(along, around) - math.log(2.0))


class _WiderMixture:
    """Half q with each component widened, half its components at the edges, moved beyond them."""

    def __init__(self, q: Mixture) -> None:
        parts = [part.scaled(1.0 + math.sqrt(2.0 / q.dim)) for part in q.components]
        beyond = _beyond(q)
        inner = 0.5 if beyond else 1.0
        weights = [*(inner * q.weights), *(0.5 / len(beyond) for _ in beyond)]
        self._wider = Mixture(weights, [*parts, *beyond])

    def sample(self, count: int, rng: np.random.Generator) -> Array:
        return self._wider.sample(count, rng)

    def log_density(self, theta: Array) -> Array:
        return self._wider.log_density(theta)


def _beyond(q: Mixture) -> list[Gaussian]:
    """Return copies of the components at the edges, outside of q, narrower and wider.

    Along the line on which the components lie; beyond the last of them there may be a neck.
    """
    axis = np.linalg.solve(q.coordinates.factor.T, q.main_axis)
    ways = [part.factor.T @ axis for part in q.components]
    ways = [way / np.linalg.norm(way) for way in ways]
    found = []
    for side in (-_BEYOND, _BEYOND):
        places = [
            part.mean + side * (part.factor @ way)
            for part, way in zip(q.components, ways, strict=True)
        ]
        log_parts = q.log_parts(np.array(places))
        alone = np.logaddexp.reduce(log_parts, axis=1) - np.diag(log_parts) < _ALONE
        for k in np.flatnonzero(alone):
            part, way = q.components[k], ways[k]
            for scale in _ACROSS:
                root = scale * np.eye(q.dim) + (1.0 - scale) * np.outer(way, way)
                log_det = (q.dim - 1) * math.log(scale)
                found.append(part.moved(side * way, root, log_det))
    return found


def log_density_at(evaluator: Evaluator, theta: Array) -> Array:
    """Evaluate; −∞ where it is no use."""
    evaluation = evaluator(theta)
    good = evaluator.usable(evaluation)
    assert evaluation.log_density is not None
    return np.where(good, evaluation.log_density, -np.inf)


def _log_excess(square: Array, scale: float) -> Array:
    """Return log of N(0, scale²)/N(0, 1) where the square of the coordinate is given."""
    return 0.5 * square * (1.0 - scale**-2) - math.log(scale)
