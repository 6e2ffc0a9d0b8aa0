r"""BaM: batch and match (Cai et al., ICML 2024, arXiv 2402.14758).

A step minimises an estimate, from the whole batch, of the Fisher divergence between q and the
target, plus KL from the current q over λ. In whitened coordinates, with batch means
:math:`\bar z, \bar h` and covariances C of z and Γ of h, it reads

.. math::

    U = \lambda\Gamma + \tfrac{\lambda}{1+\lambda} \bar h \bar h^\top, \qquad
    V = I + \lambda C + \tfrac{\lambda}{1+\lambda} \bar z \bar z^\top, \qquad
    S U S + S = V, \qquad w = \tfrac{\lambda}{1+\lambda} (S \bar h + \bar z),

where w is the new mean and S the new covariance. U and V - I are the same weighted sum over the
draws, :math:`U = a^\top a` and :math:`V = I + v^\top v`, with rows

.. math:: a = \sqrt{\lambda/B}\,\big(h - \bar h + \bar h / \sqrt{1 + \lambda}\big), \quad
          v \text{ so of } z.

With any :math:`V = G G^\top`, and the singular values σ and right singular vectors Q of
:math:`b = a G`, the solution is

.. math:: S = G\, (I - Q^\top Q + Q^\top x\, Q)\, G^\top, \qquad x = 2 / (1 + \sqrt{1 + 4\sigma^2}),

which is the paper's S without its difference of large terms, and positive definite as it stands.
Nor is S applied to the mean score by subtraction. The sum of the rows a is a multiple of it, so
with the left singular vectors P of b

.. math:: S \bar h = \sqrt{\tfrac{1 + \lambda}{\lambda B}}\; G\, Q^\top (x\sigma\, P^\top 1),

where xσ is below one however steep the scores are.

A step costs O(B·D²) where B is below D/2, by changes along B directions for V and B more for x;
otherwise it takes O(D³ + B·D²) in dense form.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, as_count, is_positive, namespace
from scorevi.base.linalg import cholesky, identity
from scorevi.families import Gaussian
from scorevi.solvers.base import Batch

_NARROWEST = 1e-10
"""The most that a low-rank step narrows q in any direction: rounding would lose much less."""


class BaMState(NamedTuple):
    """The current approximation, and the number of steps taken."""

    q: Gaussian
    count: AnyArray


class BaMInfo(NamedTuple):
    """What a step used and found."""

    weight: AnyArray
    """λ, the inverse regulariser: how far the step trusts the batch over the current q."""
    pull: AnyArray
    """The singular values σ, descending: how hard the batch narrowed q along each direction."""


@dataclass(frozen=True)
class BaM:
    """Batch and match: closed-form steps that use a large batch as a whole.

    Parameters
    ----------
    batch_size
        Draws in a step; None for twice the dimension, within 8 and 256.
    schedule
        λ of step t = 0, 1, …: "decay" for the paper's B·D/(t + 1), which averages the noise of
        non-Gaussian targets out; a positive number for the same λ in every step; or a function
        of t, which for JAX targets is a traced whole number.

    Examples
    --------
    >>> import scorevi
    >>> fit = scorevi.fit(scorevi.Gaussian.standard(2), solver=BaM(batch_size=8, schedule=10.0))
    >>> fit.status == "converged"
    True
    """

    batch_size: int | None = None
    schedule: str | float | Callable[[Any], Any] = "decay"
    name = "bam"
    family = Gaussian
    compilable = True

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            size = as_count("batch_size", self.batch_size, optional=True)
            object.__setattr__(self, "batch_size", size)
        if self.schedule == "decay" or is_positive(self.schedule):
            return
        wanted = "`schedule` must be 'decay', a positive number, or a function of the step that"
        if not callable(self.schedule):
            raise ValueError(f"{wanted} returns one; got {self.schedule!r}.")
        first = self.schedule(0)
        if not is_positive(first):
            raise ValueError(f"{wanted} returns one; got a function that returns {first!r} at 0.")

    def batch_size_for(self, dim: int) -> int:
        """Return the batch size, by default twice the dimension, but at least 8 and at most 256."""
        # Measured over 2 or 3 seeds. Gaussian targets want about D draws or more. Sinh-arcsinh and
        # logistic targets of 20 to 128 dimensions lose nats between D/2 and D, and gain up to 3 D
        # or 4 D; in 3 to 10 dimensions 4 to 16 draws do as well or better. 2 D is a compromise, and
        # at most 256, so that the usual budgets hold several steps.
        return self.batch_size or min(256, max(8, 2 * dim))

    def init(self, q: Gaussian) -> BaMState:
        """Start from q."""
        # An array, so that the compiled loop sees the same type however the state came about.
        return BaMState(q, np.zeros((), dtype=np.int64))

    def step(self, state: BaMState, batch: Batch) -> tuple[BaMState, BaMInfo]:
        """Match the scores of the batch, as far as λ lets q move."""
        size, dim = batch.z.shape
        weight = self._weight(state.count, size, dim)
        move = _dense if 2 * size >= dim else _low_rank
        q, of_mean_h, pull = move(state.q, batch.z, batch.whitened_score, weight)
        shift = weight / (1.0 + weight) * (of_mean_h + batch.offset.sum(axis=0) / size)
        q = Gaussian(state.q.mean + shift, q.factor, q.log_det)
        return BaMState(q, state.count + 1), BaMInfo(weight, pull)

    def _weight(self, count: AnyArray, size: int, dim: int) -> AnyArray:
        """Return λ for a step."""
        if isinstance(self.schedule, str):
            return size * dim / (count + 1.0)
        return self.schedule(count) if callable(self.schedule) else self.schedule


class Match(NamedTuple):
    """The new covariance S in factor form, in whitened coordinates."""

    root: AnyArray
    """A lower triangular square root of S, its diagonal not negative, (D, D)."""
    of_mean_score: AnyArray
    """S h̄, (D,)."""
    pull: AnyArray
    """σ, descending."""


def match(z: AnyArray, h: AnyArray, weight: AnyArray) -> Match:
    """Return the covariance that matches the scores h at z, both (B, D), as far as λ lets it."""
    xp = namespace(z)
    size, dim = z.shape
    a, v = _weighted(h, weight), _weighted(z, weight)
    wide = cholesky(v.T @ v + identity(xp, dim))
    left, sigma, right = xp.linalg.svd(a @ wide, full_matrices=True)
    narrow = _narrowing(xp.concat([sigma, xp.zeros(max(0, dim - size))]))
    # The Cholesky root of S, by QR of another root: small eigenvalues beside large ones survive,
    # the more so with the large rows first, and no sign or order of the vectors shows.
    upper = xp.linalg.qr(((right * narrow[:, None]) @ wide.T)[::-1], mode="r")
    root = (upper * xp.sign(upper.diagonal())[:, None]).T
    along = _of_mean_score(left[:, : len(sigma)], sigma, right[: len(sigma)], weight)
    return Match(root, wide @ along, sigma)


def _weighted(rows: AnyArray, weight: AnyArray) -> AnyArray:
    """Return r with rᵀr = λ·covariance + λ/(1 + λ)·mean·meanᵀ of the rows, (B, D)."""
    xp = namespace(rows)
    size = rows.shape[0]
    mean = rows.sum(axis=0) / size
    return xp.sqrt(weight / size) * ((rows - mean) + mean / xp.sqrt(1.0 + weight))


def _narrowing(sigma: AnyArray) -> AnyArray:
    """Return √x. The hypotenuse does not overflow where σ² would."""
    xp = namespace(sigma)
    return xp.sqrt(2.0 / (1.0 + xp.hypot(xp.ones_like(sigma), 2.0 * sigma)))


def _of_mean_score(left: AnyArray, sigma: AnyArray, right: AnyArray, weight: AnyArray) -> AnyArray:
    """Return G⁻¹ S h̄ from the singular vectors and values of b, (D,)."""
    xp = namespace(sigma)
    bounded = _narrowing(sigma) ** 2 * sigma
    size = left.shape[0]
    return xp.sqrt((1.0 + weight) / (weight * size)) * ((bounded * left.sum(axis=0)) @ right)


def _dense(
    q: Gaussian, z: AnyArray, h: AnyArray, weight: AnyArray
) -> tuple[Gaussian, AnyArray, AnyArray]:
    """Return q with the new factor, L S h̄ and σ, through D × D matrices."""
    found = match(z, h, weight)
    log_det = namespace(z).log(found.root.diagonal()).sum()
    moved = q.moved(0.0 * q.mean, found.root, log_det)
    return moved, q.factor @ found.of_mean_score, found.pull


def _low_rank(
    q: Gaussian, z: AnyArray, h: AnyArray, weight: AnyArray
) -> tuple[Gaussian, AnyArray, AnyArray]:
    """Return q with the new factor, L S h̄ and σ, through changes along B directions each."""
    xp = namespace(z)
    a, v = _weighted(h, weight), _weighted(z, weight)
    _, spread, along = xp.linalg.svd(v, full_matrices=False)
    gain = xp.hypot(xp.ones_like(spread), spread)
    q = _stretched(q, along, gain)
    b = a + ((a @ along.T) * (gain - 1.0)) @ along
    left, sigma, along = xp.linalg.svd(b, full_matrices=False)
    of_mean_h = q.factor @ _of_mean_score(left, sigma, along, weight)
    narrow = xp.maximum(_narrowing(sigma), _NARROWEST)
    return _stretched(q, along, narrow), of_mean_h, sigma


def _stretched(q: Gaussian, along: AnyArray, gain: AnyArray) -> Gaussian:
    """Scale the whitened space along orthonormal rows."""
    xp = namespace(gain)
    core = (gain - 1.0)[:, None] * identity(xp, len(gain))
    return q.moved_along(0.0 * q.mean, along, q.image(along), core, xp.log(gain).sum())
