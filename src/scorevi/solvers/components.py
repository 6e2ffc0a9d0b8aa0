r"""What remembered pairs say about one component of a mixture.

In the whitened coordinates of component k the natural gradient of the mixture's ELBO in its mean
and precision is the expectation under :math:`q_k` of the first and second derivatives of
:math:`\log p - \log q`, and by Stein's identity both are coefficients of a regression of

.. math:: f = L_k^\top (\nabla \log p - \nabla \log q)

on [1, z]: replay's own, with the mixture's score in the place of −z. What disturbs it most, in a
hierarchy, is that the precision changes along a few known directions t
(:mod:`scorevi.base.valley`). So t z is regressed on as well, as Hermite polynomials, which are
orthogonal to [1, z] under :math:`q_k`; and the coefficients of the score of p itself on them tell
how p goes on beyond.

Coefficients are trusted as far as they stand out from their noise, and in those coordinates in
which they do so most: those in which the residuals are independent, or those of the parameters,
since what changes in a hierarchy is often the variance of each by itself.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.families import Gaussian
from scorevi.solvers.memory import Evidence, of_symmetric, shortened, symmetric, trusted
from scorevi.solvers.weights import effective_size, largest_power, largest_share

_MOST_WEIGHT = 0.7
"""The largest log weight of a pair."""
_NEEDED, _AT_LEAST = 4.0, 2.0
"""Effective pairs over D + 1: until there are so many, weights heed the known directions alone; and
they are evened out where even that leaves fewer."""
_OWN = -0.7
"""The log share of q's density from which on a pair is a component's own."""
_NEGLIGIBLE = 1e-4
_PAIRS = 512
"""The most pairs that a regression is made of, or 4(D + 1)."""
_SPARE = 1.5
"""Effective pairs for each coefficient."""
_RIDGE = 1.0
_CLIPPED, _MOST_VARIANCE = 6.0, 4.0


class Pairs(NamedTuple):
    """Pairs as all components see them, (n, ...)."""

    z: Array
    """In the coordinates that the components are in."""
    h: Array
    """The target's score there."""
    mismatch: Array
    """The same less the mixture's."""
    log_ratio: Array
    """log p − log q; NaN where log p is not known."""
    log_q: Array
    log_parts: Array
    """log(w_k q_k), (n, K)."""
    log_then: Array
    """The log density of what each was drawn from."""
    log_shares: Array
    """log of each component's share along the known directions, (n, K)."""


class Local(NamedTuple):
    """What the pairs say about a component."""

    evidence: Evidence
    bends: tuple[Array, ...]
    """Of p, along each known direction: how much its precision falls in one unit, (D, D)."""
    z: Array
    """The pairs that count, in whitened coordinates."""
    residual: Array
    """What a line leaves of their mismatch."""
    weight: Array
    effective: float
    """How many pairs these are worth."""
    value: float
    """E[log p − log q], as it would be if the component fitted better: see :func:`value`."""
    value_error: float


def look(pairs: Pairs, k: int, part: Gaussian, axes: Array, own: Array) -> Local | None:
    """Return what pairs say about component k; None where they do not span the space.

    Parameters
    ----------
    pairs
        All that are remembered.
    k, part
        The component.
    axes
        The known directions in its whitened coordinates, unit columns, (D, d).
    own
        The rows that turn a whitened change of its precision into that of the parameters' own.
    """
    weight, kept, full = _weights(pairs, k, part.dim)
    z = part.whiten(pairs.z[kept])
    mismatch = np.asarray(part.whiten_score(pairs.mismatch[kept]))
    score = np.asarray(part.whiten_score(pairs.h[kept])) + z
    effective = float(weight.sum() ** 2 / (weight @ weight))
    found = _regress(z, mismatch, score, weight, effective, axes, own)
    if found is None:
        return None
    evidence, bends, residual = found
    known = np.isfinite(pairs.log_ratio) & (full > _NEGLIGIBLE)
    if not known.any():
        return None
    level, error = value(full[known], pairs.log_ratio[known])
    return Local(evidence, bends, z, residual, weight, effective, level, error)


def value(weight: Array, log_ratio: Array) -> tuple[float, float]:
    """Return what a component is worth to the mixture, and the error of that.

    Half of the variance is added to the mean, as for the logarithm of a mean of such numbers: noise
    in a component's covariance costs many dimensions much, and is no reason to leave out what it
    covers.
    """
    share = weight / weight.sum()
    middle = float(np.median(log_ratio))
    reach = _CLIPPED * (1.4826 * float(np.median(np.abs(log_ratio - middle))) + 1e-9)
    log_ratio = np.clip(log_ratio, middle - reach, middle + reach)
    mean = float(share @ log_ratio)
    square = (log_ratio - mean) ** 2
    variance = min(float(share @ square), _MOST_VARIANCE)
    return mean + 0.5 * variance, float(np.sqrt(share**2 @ square))


def _weights(pairs: Pairs, k: int, dim: int) -> tuple[Array, Mask, Array]:
    """Return how much pairs count for a regression, which of them do at all, and for averages.

    An average over component k is one over its own draws, however few; a line may be drawn through
    those of its neighbours as well.
    """
    ratio = pairs.log_parts[:, k] - pairs.log_then
    # Its own pairs count in full, however few of what they were drawn from was this component.
    share = pairs.log_parts[:, k] - pairs.log_q
    own = share >= min(_OWN, np.partition(share, -min(dim + 1, len(share)))[-(dim + 1) :].min())
    ratio = ratio - np.median(ratio[own])
    full = np.minimum(_MOST_WEIGHT, ratio)
    honest = np.exp(full - full.max())
    needed = _NEEDED * (dim + 1)
    if effective_size(full) < needed:
        along = np.minimum(_MOST_WEIGHT, pairs.log_shares[:, k])
        full = along + largest_share(along, full, needed, rounds=12) * (full - along)
    full = full * largest_power(full, min(_AT_LEAST * (dim + 1), 0.99 * len(full)))
    weight = np.exp(full - full.max())
    kept = weight > _NEGLIGIBLE
    most = max(_PAIRS, 4 * (dim + 1))
    if kept.sum() > most:
        kept = weight >= np.partition(weight, -most)[-most]
    return np.asarray(weight[kept]), kept, honest


def _regress(
    z: Array,
    mismatch: Array,
    score: Array,
    weight: Array,
    effective: float,
    axes: Array,
    own: Array,
) -> tuple[Evidence, tuple[Array, ...], Array] | None:
    count, dim = z.shape
    affordable = max(0, int((effective / _SPARE - dim - 1) // dim))
    t = z @ axes[:, :affordable]
    columns = [np.ones((count, 1)), z]
    columns += [t[:, j, None] * z - axes[:, j] for j in range(t.shape[1])]
    columns.append(t**3 - 3.0 * t)
    design = np.concatenate(columns, axis=1)
    number = design.shape[1]
    gram = (design.T * weight) @ design
    ridge = np.where(np.arange(number) > dim, _RIDGE, 1e-9) * weight.max()
    gram[np.diag_indices(number)] += ridge
    try:
        hat = np.linalg.solve(gram, design.T * weight)
    except np.linalg.LinAlgError:
        return None
    inflation = effective / max(1.0, effective - number)
    raw = shortened(mismatch)
    values = hat @ raw
    left = raw - design @ values
    basis = np.linalg.eigh((left.T * (weight / weight.sum())) @ left)[1]
    turned = np.concatenate([hat[:1], basis.T @ hat[1 : dim + 1]])
    noise = turned**2 @ ((left @ basis) ** 2 * inflation)
    intercept, intercept_trust = trusted(values[0] @ basis, noise[0], dim)
    slope = symmetric(values[1 : dim + 1])
    shrunk, slope_trust = trusted(
        basis.T @ slope @ basis, of_symmetric(noise[1:]), dim * (dim + 1) // 2
    )
    plain = of_symmetric(hat[1 : dim + 1] ** 2 @ (left**2 * inflation))
    slope = stronger(basis @ shrunk @ basis.T, in_parameters(slope, plain, own))
    score = shortened(score)
    coefficients = hat @ score
    rest = (score - design @ coefficients) ** 2 * inflation
    bends = []
    for j in range(t.shape[1]):
        rows = slice(dim + 1 + j * dim, dim + 1 + (j + 1) * dim)
        bend, bend_noise = symmetric(coefficients[rows]), hat[rows] ** 2 @ rest
        bend_noise = 0.25 * (bend_noise + bend_noise.T)
        shrunk = _with_trace(trusted(bend, bend_noise, dim * dim // 2 + 1)[0], bend, bend_noise)
        bends.append(stronger(shrunk, in_parameters(bend, bend_noise, own)))
    residual = mismatch - design[:, : dim + 1] @ values[: dim + 1]
    spread = (residual.T * (weight / weight.sum())) @ residual * (count / max(1, count - number))
    evidence = Evidence(
        basis @ intercept,
        np.eye(dim) - slope,
        max(intercept_trust, slope_trust),
        False,
        np.asarray(spread),
    )
    return evidence, tuple(bends), np.asarray(residual)


def in_parameters(matrix: Array, noise: Array, own: Array) -> Array:
    """Shrink a whitened matrix in the parameters' coordinates, its diagonal there by itself."""
    there = symmetric(own @ matrix @ own.T)
    there_noise = own**2 @ noise @ (own**2).T
    diagonal = np.eye(len(matrix), dtype=bool)
    for group in (diagonal, ~diagonal):
        if group.any():
            there[group] = trusted(there[group], there_noise[group], int(group.sum()))[0]
    back = np.linalg.inv(own)
    return np.asarray(back @ there @ back.T)


def stronger(one: Array, other: Array) -> Array:
    """Return the matrix of which more was trusted."""
    return one if float((one * one).sum()) >= float((other * other).sum()) else other


def _with_trace(shrunk: Array, full: Array, noise: Array) -> Array:
    """Trust the mean of the diagonal by itself: all groups of a hierarchy take part in it."""
    dim = len(full)
    mean, mean_noise = np.array([np.trace(full) / dim]), np.array([np.trace(noise) / dim**2])
    more = float(trusted(mean, mean_noise, 1)[0][0]) - float(np.trace(shrunk)) / dim
    has_more = abs(float(mean[0])) > abs(float(np.trace(shrunk)) / dim)
    return shrunk + more * np.eye(dim) if has_more else shrunk


def of_parameters(part: Gaussian) -> Array:
    """Return the rows that turn a whitened change of precision into the parameters' own.

    There the precision of the component has a diagonal of ones.
    """
    inverse = np.linalg.inv(part.factor)
    return np.asarray(inverse.T / np.sqrt(np.vecdot(inverse.T, inverse.T))[:, None])
