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
from scipy.linalg import lapack

from scorevi.base.arrays import Array
from scorevi.base.estimates import median
from scorevi.families import Gaussian
from scorevi.solvers.counting import Counted
from scorevi.solvers.memory import Evidence, of_symmetric, shortened, symmetric, trusted

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


class Design(NamedTuple):
    """What the scores are regressed on: 1, z, and t z along known directions t."""

    columns: Array
    """(n, p)."""
    rooted: Array
    """The same, each row times the root of its weight."""
    root: Array
    gram: Array
    """(p, p), with its ridge."""
    axes: Array
    """The directions that there are enough pairs for, (D, d)."""
    inflation: float
    """Of the noise, for the coefficients that were found."""

    @classmethod
    def of(cls, z: Array, weight: Array, effective: float, axes: Array) -> Design:
        """Lay out the columns."""
        count, dim = z.shape
        affordable = max(0, int((effective / _SPARE - dim - 1) // dim))
        axes = axes[:, :affordable]
        number = 1 + dim + axes.shape[1] * (dim + 1)
        columns = np.empty((count, number))
        columns[:, 0] = 1.0
        columns[:, 1 : dim + 1] = z
        t = z @ axes
        for j, start in enumerate(range(dim + 1, number - axes.shape[1], dim)):
            block = columns[:, start : start + dim]
            np.multiply(t[:, j, None], z, out=block)
            block -= axes[:, j]
        columns[:, number - axes.shape[1] :] = t * (t * t - 3.0)
        root = np.sqrt(weight)[:, None]
        rooted = columns * root
        gram = rooted.T @ rooted
        ridge = np.full(number, _RIDGE)
        ridge[: dim + 1] = 1e-9
        gram.flat[:: number + 1] += ridge * weight.max()
        return cls(columns, rooted, root, gram, axes, effective / max(1.0, effective - number))

    def fitted(self, scores: Array, rows: slice) -> tuple[Array, Array]:
        """Return all coefficients of scores, and those rows of what makes them of scores."""
        dim = scores.shape[1]
        wanted = np.eye(len(self.gram))[:, rows]
        right = np.concatenate([self.rooted.T @ (scores * self.root), wanted], axis=1)
        _, solved, failed = lapack.dposv(self.gram, right)
        if failed:
            solved = np.linalg.solve(self.gram, right)
        return solved[:, :dim], (solved[:, dim:].T @ self.rooted.T) * self.root[:, 0]


class Local(NamedTuple):
    """What the pairs say about a component."""

    evidence: Evidence
    z: Array
    """The pairs that count, in whitened coordinates."""
    score: Array
    """The target's score there, less that of the component."""
    residual: Array
    """What a line leaves of their mismatch."""
    weight: Array
    effective: float
    """How many pairs these are worth."""
    design: Design
    own: Array
    """The rows that turn a whitened change of its precision into that of the parameters' own."""

    def bend(self, axis: int) -> Array | None:
        """Return by how much the precision of p falls in one unit of a known direction, (D, D).

        None where there are too few pairs to tell.
        """
        dim = self.z.shape[1]
        if axis >= self.design.axes.shape[1]:
            return None
        rows = slice(dim + 1 + axis * dim, dim + 1 + (axis + 1) * dim)
        score = shortened(self.score)
        coefficients, hat = self.design.fitted(score, rows)
        rest = (score - self.design.columns @ coefficients) ** 2 * self.design.inflation
        bend, noise = symmetric(coefficients[rows]), hat**2 @ rest
        noise = 0.25 * (noise + noise.T)
        shrunk = _with_trace(trusted(bend, noise, dim * dim // 2 + 1)[0], bend, noise)
        return stronger(shrunk, in_parameters(bend, noise, self.own))


def look(pairs: Pairs, counts: Counted, part: Gaussian, axes: Array, own: Array) -> Local | None:
    """Return what pairs say about a component; None where they do not span the space.

    Parameters
    ----------
    pairs
        All that are remembered.
    counts
        How much each counts.
    part
        The component.
    axes
        The known directions in its whitened coordinates, unit columns, (D, d).
    own
        The rows that turn a whitened change of its precision into that of the parameters' own.
    """
    kept, weight, _ = counts
    z = part.whiten(pairs.z[kept])
    mismatch = np.asarray(part.whiten_score(pairs.mismatch[kept]))
    effective = float(weight.sum() ** 2 / (weight @ weight))
    design = Design.of(z, weight, effective, axes)
    try:
        evidence, residual = _regress(design, mismatch, weight, own)
    except np.linalg.LinAlgError:
        return None
    score = np.asarray(part.whiten_score(pairs.h[kept])) + z
    return Local(evidence, z, score, residual, weight, effective, design, own)


def value(weight: Array, log_ratio: Array) -> tuple[float, float]:
    """Return what a component is worth to the mixture, E[log p − log q], and the error of that.

    Half of the variance is added to the mean, as for the logarithm of a mean of such numbers: noise
    in a component's covariance costs many dimensions much, and is no reason to leave out what it
    covers.
    """
    share = weight / weight.sum()
    middle = median(log_ratio)
    reach = _CLIPPED * (1.4826 * median(np.abs(log_ratio - middle)) + 1e-9)
    log_ratio = np.clip(log_ratio, middle - reach, middle + reach)
    mean = float(share @ log_ratio)
    square = (log_ratio - mean) ** 2
    variance = min(float(share @ square), _MOST_VARIANCE)
    return mean + 0.5 * variance, float(np.sqrt(share**2 @ square))


def _regress(design: Design, mismatch: Array, weight: Array, own: Array) -> tuple[Evidence, Array]:
    count, dim = mismatch.shape
    raw = shortened(mismatch)
    values, hat = design.fitted(raw, slice(dim + 1))
    left = raw - design.columns @ values
    share = weight / weight.sum()
    basis = np.linalg.eigh((left.T * share) @ left)[1]
    turned = np.concatenate([hat[:1], basis.T @ hat[1:]])
    noise = turned**2 @ ((left @ basis) ** 2 * design.inflation)
    intercept, intercept_trust = trusted(values[0] @ basis, noise[0], dim)
    slope = symmetric(values[1 : dim + 1])
    shrunk, slope_trust = trusted(
        basis.T @ slope @ basis, of_symmetric(noise[1:]), dim * (dim + 1) // 2
    )
    plain = of_symmetric(hat[1:] ** 2 @ (left**2 * design.inflation))
    slope = stronger(basis @ shrunk @ basis.T, in_parameters(slope, plain, own))
    residual = mismatch - design.columns[:, : dim + 1] @ values[: dim + 1]
    spread = (residual.T * share) @ residual * (count / max(1, count - len(design.gram)))
    evidence = Evidence(
        basis @ intercept,
        np.eye(dim) - slope,
        max(intercept_trust, slope_trust),
        False,
        np.asarray(spread),
    )
    return evidence, np.asarray(residual)


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
