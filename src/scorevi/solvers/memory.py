r"""What remembered pairs say about the current q: the regression at the heart of replay.

All in the whitened coordinates of the current q. For pairs (z, h), weighted as if drawn from q,
regress the mismatch h + z on [1, z]. By Stein's identity the intercept estimates
:math:`a = E_q[h]` and the slope :math:`M = I + E_q[\nabla^2 \log p]`; both vanish at the q that
maximises the ELBO. On a Gaussian target the regression has no residual, and D + 2 pairs both
determine and confirm it.

What of the score is not linear is noise to this regression, but not white noise: to the next order
it is quadratic in z. Generalised least squares with the kernel of the second Hermite polynomials,

.. math:: k(z, z') = \tfrac12\big[(z \cdot z')^2 - |z|^2 - |z'|^2 + D\big],

takes that part out. The polynomials are orthogonal to 1 and z under q, so nothing is biased by it.

A draw beyond a wall, where the score is thousands of times the usual, would decide over all
coefficients, and turn q at random in the directions that have nothing to do with the wall. So
mismatches are shortened to 10 √D and twice their median. A q that has arrived has none as long; on
the way the steps are bounded in any case, and only the direction counts.

References
----------
Salimans and Knowles (2013), Fixed-form variational posterior approximation through stochastic
linear regression, *Bayesian Analysis* 8: the regression view of variational inference.
"""

from __future__ import annotations

import math
from typing import Literal, NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array

_LINEAR = 1e-9
"""A relative residual below which the score is linear as far as anyone can tell."""
_SPANNED = 1e-7
"""Points on an optimiser's path may be many and yet lie in few directions."""
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
"""Relative error of the scores themselves and of the regression."""
_QUADRATIC = 0.03
"""Variance of the quadratic part over D, next to that of the rest."""
_MILD = 2.0
"""What a line may leave of the scores, root mean square, for the rest to be taken as quadratic."""
_DISAGREES = 3.0
"""Standard errors between two estimates of the same coefficient."""
_LONGEST = 10.0, 2.0
"""The longest mismatch that counts in full: in units of √D, and of the median, added up."""
_SPARE = 4
"""Pairs beyond those that a line takes, and half as many again, to say how well it fits."""
_MOST_FOR_KERNEL = 1024
"""The kernel's matrix is of the size of the memory; beyond this it would dominate the cost."""


class Evidence(NamedTuple):
    """What the pairs say."""

    intercept: Array
    """a, shape (D,)."""
    precision: Array
    """I − M, the estimate of −E_q[∇² log p], symmetric, shape (D, D)."""
    trust: float
    """signal / (signal + noise) of the coefficients: 1 on a Gaussian target."""
    linear: bool
    """Whether the score is linear, to rounding."""
    bent: float = 0.0
    """What a line leaves of the scores, root mean square; infinite where the pairs cannot tell."""
    rounding: float = 0.0
    """Where it is linear: the size of an eigenvalue of the precision that may be rounding alone."""


def weights(z: Array, log_q_then: Array, log_det: float, needed: float) -> Array:
    """Return min(1, q_now/q_then) of each pair, tempered to an effective sample size.

    Parameters
    ----------
    z
        The pairs in whitened coordinates, (n, D).
    log_q_then
        The log density under the q that each was drawn from, (n,), without (D/2) log 2π.
    log_det
        log|det L| of the current q.
    needed
        The effective sample size to keep: the powers of the weights are lowered until it is met.
    """
    log_weights = np.minimum(0.0, -0.5 * np.vecdot(z, z) - log_det - log_q_then)
    log_weights = log_weights * _largest_power(log_weights, min(needed, 0.999 * len(z)))
    return np.asarray(np.exp(log_weights - log_weights.max()), dtype=np.float64)


def regress(z: Array, h: Array, weight: Array) -> Evidence | None:
    """Regress h + z on [1, z]; None where the pairs do not span the space, and so cannot say."""
    mismatch = h + z
    count, dim = z.shape
    design = np.concatenate([np.ones((count, 1)), z], axis=1)
    root = np.sqrt(weight)[:, None]
    if count < dim + 2:
        return None
    ortho, upper = np.linalg.qr(design * root)
    pivots = np.abs(np.diag(upper))
    if pivots.min() < _SPANNED * pivots.max():
        return None
    coefficients = scipy.linalg.solve_triangular(upper, ortho.T @ (mismatch * root))
    residual = mismatch - design @ coefficients
    scale = math.sqrt(float(np.vecdot(mismatch, mismatch).max())) + math.sqrt(dim)
    if math.sqrt(float(np.vecdot(residual, residual).max())) < _LINEAR * scale:
        # Of h itself, not as a difference from −z: the target may be very wide next to q.
        coefficients = scipy.linalg.solve_triangular(upper, ortho.T @ (h * root))
        rounding = _ROUNDING * float(np.linalg.norm(h * root)) / float(pivots.min())
        slope = _symmetric(coefficients[1:])
        return Evidence(coefficients[0], -slope, 1.0, True, rounding=rounding)
    bent = _bent(residual, weight, dim)
    mismatch = _shortened(mismatch)
    hat = scipy.linalg.solve_triangular(upper, ortho.T) * root.T
    found = _Coefficients(hat, hat @ mismatch, mismatch - design @ (hat @ mismatch))
    if bent <= _MILD and 3 * (dim + 1) <= count <= _MOST_FOR_KERNEL:
        without = _without_quadratic(z, mismatch, design, weight)
        found = without if without.agrees_with(found) else found
    hat, coefficients, residual = found
    intercept, slope = coefficients[0], _symmetric(coefficients[1:])
    variance = np.vecdot(residual, residual) * (count / max(1, count - dim - 1))
    # The slope is symmetrised, which halves its noise.
    spread = 0.5 * np.vecdot(hat[1:].T, hat[1:].T) + hat[0] ** 2
    power = float(intercept @ intercept + np.vdot(slope, slope))
    trust = max(0.0, 1.0 - float(spread @ variance) / power) if power > 0 else 0.0
    return Evidence(intercept, np.eye(dim) - slope, trust, False, bent)


class _Coefficients(NamedTuple):
    """Those of a regression on [1, z]."""

    hat: Array
    """What makes them of the mismatches, (D + 1, n)."""
    values: Array
    """(D + 1, D)."""
    residual: Array
    """What they leave, (n, D)."""

    def agrees_with(self, plain: _Coefficients) -> bool:
        """Whether intercept and slope along each axis are those of the plain regression.

        That one is right whatever the scores are like, and its noise is known.
        """
        own = plain.residual**2
        errors = np.stack([plain.hat[0] ** 2 @ own, np.vecdot(plain.hat[1:] ** 2, own.T)])
        off = self.values - plain.values
        differences = np.stack([off[0], np.diag(off[1:])])
        return bool((differences**2 <= _DISAGREES**2 * errors).all())


def _without_quadratic(z: Array, mismatch: Array, design: Array, weight: Array) -> _Coefficients:
    """Return generalised least squares with the kernel of quadratic functions as noise."""
    dim = z.shape[1]
    squares = np.vecdot(z, z)
    noise = 0.5 * ((z @ z.T) ** 2 - squares[:, None] - squares + dim) * (_QUADRATIC / dim)
    noise[np.diag_indices(len(z))] += 1.0 / weight
    lower = np.linalg.cholesky(noise)
    white = _solve(lower, np.concatenate([design, mismatch], axis=1))
    ortho, upper = np.linalg.qr(white[:, : dim + 1])
    hat = scipy.linalg.solve_triangular(upper, _solve(lower, ortho, transposed=True).T)
    left = white[:, dim + 1 :] - white[:, : dim + 1] @ (hat @ mismatch)
    residual = _solve(lower, left, transposed=True) / weight[:, None]
    return _Coefficients(hat, hat @ mismatch, residual)


def _bent(residual: Array, weight: Array, dim: int) -> float:
    """Return the root mean square of what is not linear, each coefficient's share added back."""
    count = len(residual)
    spare = count - dim - 1
    if spare < _SPARE + dim / 2:
        return math.inf
    square = float(weight @ np.vecdot(residual, residual)) / float(weight.sum())
    return math.sqrt(square * count / (spare * dim))


def _shortened(mismatch: Array) -> Array:
    """Return the rows, those that are far too long shortened."""
    lengths = np.sqrt(np.vecdot(mismatch, mismatch))
    own, common = _LONGEST
    longest = own * math.sqrt(mismatch.shape[1]) + common * float(np.median(lengths))
    share = longest / np.maximum(lengths, longest)
    return np.asarray(mismatch * share[:, None], dtype=np.float64)


def _symmetric(slope: Array) -> Array:
    return np.asarray(0.5 * (slope + slope.T), dtype=np.float64)


def _solve(lower: Array, right: Array, *, transposed: bool = False) -> Array:
    trans: Literal[0, 1] = 1 if transposed else 0
    return np.asarray(scipy.linalg.solve_triangular(lower, right, lower=True, trans=trans))


def _largest_power(log_weights: Array, needed: float) -> float:
    """Return the largest power, at most 1, at which the effective sample size is met."""
    if _effective_size(log_weights) >= needed:
        return 1.0
    low, high = 0.0, 1.0
    for _ in range(20):
        middle = 0.5 * (low + high)
        if _effective_size(middle * log_weights) >= needed:
            low = middle
        else:
            high = middle
    return low


def _effective_size(log_weights: Array) -> float:
    weight = np.exp(log_weights - log_weights.max())
    return float(weight.sum() ** 2 / (weight @ weight))
