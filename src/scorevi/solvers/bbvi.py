r"""BBVI: stochastic gradient ascent of the ELBO, the baseline of the GSM paper (its Algorithm 2).

With draws :math:`\theta = \mu + L z` held to their noise z, the ELBO is
:math:`E[\log p(\mu + L z)] + \sum_i \log L_{ii}` up to a constant, for lower triangular L. Its
gradients, averaged over the batch with scores g, are

.. math::

    \nabla_\mu = \bar g, \qquad
    \nabla_{L_{ij}} = \overline{g_i z_j} \;\; (i > j), \qquad
    \nabla_{\log L_{ii}} = \overline{g_i z_i}\, L_{ii} + 1,

where the logarithm keeps the diagonal positive. Adam (Kingma and Ba, ICLR 2015) takes the steps,

.. math::

    m \leftarrow \beta_1 m + (1 - \beta_1) \nabla, \quad
    s \leftarrow \beta_2 s + (1 - \beta_2) \nabla^2, \quad
    \Delta = \epsilon \, \frac{m / (1 - \beta_1^t)}{\sqrt{s / (1 - \beta_2^t)} + 10^{-8}},

with learning rate ε, β₁ = 0.9 and β₂ = 0.999. A step costs O(B·D²).
"""

from __future__ import annotations

import dataclasses
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, as_count, is_positive, namespace
from scorevi.families import Gaussian
from scorevi.solvers.base import Batch

_BETA1, _BETA2, _EPSILON = 0.9, 0.999, 1e-8
"""Adam's default settings."""


class BBVIState(NamedTuple):
    """The current approximation, its factor lower triangular, and Adam's memory."""

    q: Gaussian
    first: AnyArray
    """The running mean of the gradient, (D + 1, D): a row for the mean, then the factor's."""
    second: AnyArray
    """The running mean of its square, (D + 1, D)."""
    count: AnyArray
    """Steps taken."""


class BBVIInfo(NamedTuple):
    """What a step found."""

    gradient: AnyArray
    """The gradient of the ELBO, (D + 1, D): by the mean; by the factor, its diagonal in logs."""


@dataclass(frozen=True)
class BBVI:
    """Black-box variational inference: Adam on the ELBO.

    Parameters
    ----------
    batch_size
        Draws averaged in a step.
    learning_rate
        A positive number, or several to choose the best of: see :meth:`variants`.

    Examples
    --------
    >>> import scorevi
    >>> fit = scorevi.fit(scorevi.Gaussian.standard(2), solver=BBVI(learning_rate=0.001))
    >>> fit.status == "converged"
    True
    """

    batch_size: int = 8
    learning_rate: float | tuple[float, ...] = 1e-2
    name = "bbvi"
    family = Gaussian
    compilable = True

    def __post_init__(self) -> None:
        object.__setattr__(self, "batch_size", as_count("batch_size", self.batch_size))
        several = isinstance(self.learning_rate, (tuple, list))
        rates = tuple(self.learning_rate) if several else (self.learning_rate,)  # type: ignore[arg-type]
        if not rates or not all(is_positive(rate) for rate in rates):
            raise ValueError(
                "`learning_rate` must be a positive number or a tuple of them; "
                f"got {self.learning_rate!r}."
            )
        rates = tuple(float(rate) for rate in rates)  # type: ignore[arg-type]
        object.__setattr__(self, "learning_rate", rates if several else rates[0])

    def variants(self) -> tuple[BBVI, ...]:
        """Return one solver for each learning rate.

        Examples
        --------
        >>> [solver.learning_rate for solver in BBVI(learning_rate=(0.1, 0.01)).variants()]
        [0.1, 0.01]
        """
        if not isinstance(self.learning_rate, tuple):
            return (self,)
        return tuple(dataclasses.replace(self, learning_rate=rate) for rate in self.learning_rate)

    def batch_size_for(self, dim: int) -> int:
        """Return the batch size, which is the same in every dimension."""
        del dim
        return self.batch_size

    def init(self, q: Gaussian) -> BBVIState:
        """Start from q, with its Cholesky factor."""
        self._rate()
        nothing = np.zeros((q.dim + 1, q.dim))
        # An array, so that the compiled loop sees the same type however the state came about.
        count = np.zeros((), dtype=np.int64)
        return BBVIState(_triangular(q.mean, q.cholesky), nothing, nothing, count)

    def step(self, state: BBVIState, batch: Batch) -> tuple[BBVIState, BBVIInfo]:
        """Take one step of Adam up the ELBO."""
        xp = namespace(batch.z)
        q, count = state.q, state.count + 1
        gradient = _gradient(q.factor, batch.z, batch.score)
        first = _BETA1 * state.first + (1.0 - _BETA1) * gradient
        second = _BETA2 * state.second + (1.0 - _BETA2) * gradient * gradient
        scale = xp.sqrt(second / (1.0 - _BETA2**count)) + _EPSILON
        change = self._rate() * first / (1.0 - _BETA1**count) / scale
        growth = xp.exp(change[1:].diagonal())
        factor = xp.tril(q.factor + change[1:], -1) + xp.diag(q.factor.diagonal() * growth)
        moved = _triangular(q.mean + change[0], factor)
        return BBVIState(moved, first, second, count), BBVIInfo(gradient)

    def _rate(self) -> float:
        if isinstance(self.learning_rate, tuple):
            raise ValueError(
                "`learning_rate` must be one number to take a step; "
                f"got {self.learning_rate}. Run each of variants() and keep the best."
            )
        return self.learning_rate


def _gradient(factor: AnyArray, z: AnyArray, score: AnyArray) -> AnyArray:
    """Return the gradient of the ELBO, (D + 1, D)."""
    xp = namespace(z)
    size = z.shape[0]
    by_factor = score.T @ (z / size)
    by_log = by_factor.diagonal() * factor.diagonal() + 1.0
    return xp.vstack([score.sum(axis=0) / size, xp.tril(by_factor, -1) + xp.diag(by_log)])


def _triangular(mean: AnyArray, factor: AnyArray) -> Gaussian:
    """Return the Gaussian of a lower triangular factor with a positive diagonal."""
    return Gaussian(mean, factor, namespace(factor).log(factor.diagonal()).sum())
