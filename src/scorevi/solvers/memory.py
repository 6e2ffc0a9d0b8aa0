r"""What remembered pairs say about the current q: the regression at the heart of replay.

All in the whitened coordinates of the current q. For pairs (z, h), weighted as if drawn from q,
regress the mismatch h + z on [1, z]. By Stein's identity the intercept estimates
:math:`a = E_q[h]` and the slope :math:`M = I + E_q[\nabla^2 \log p]`; both vanish at the q that
maximises the ELBO. On a Gaussian target the regression has no residual, and D + 2 pairs both
determine and confirm it.

Coefficients are trusted as far as they stand out from their noise. Along a valley
(:mod:`scorevi.base.valley`), where q changes as a whole, below the noise of each, the pairs are
asked for the whole way at once.

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
from typing import NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array
from scorevi.base.estimates import median
from scorevi.base.linalg import eigh, identity
from scorevi.base.valley import Told, Valley, valley
from scorevi.solvers.lines import (
    Factored,
    Hat,
    Line,
    explained,
    least_squares,
    without_quadratic,
)

_LINEAR = 1e-9
"""A relative residual below which the score is linear as far as anyone can tell."""
_ALIKE = 1e-5
"""What a line leaves of |z|² at pairs so alike that nothing can be said."""
_ROUNDING = 16.0 * float(np.finfo(np.float64).eps)
"""Relative error of the scores themselves and of the regression."""
_MILD, _MILDER = 2.0, 0.4
"""What a line may leave of the scores, root mean square, for the rest to be taken as quadratic: in
few dimensions, and where pairs are fewer than quadratic functions."""
_LONGEST = 10.0, 2.0
"""The longest mismatch that counts in full: in units of √D, and of the median, added up."""
_STRAIGHT = 0.15
"""Mean square of what a line leaves, summed over all directions: below this no valley matters."""
_TO_TELL, _AND_MORE, _CURVED, _STRIDE = 3, 40, 0.3, 0.35
"""Pairs over D + 1 that tell of a valley, and so many more; |Q_u|² from which on it is followed,
since along a straighter one the way is hardly longer than the scores say; and the longest step."""
_SPARE = 4
"""Pairs beyond those that a line takes, and half as many again, to say how well it fits."""
_PER_DIRECTION = 4
"""Pairs for each dimension, from which on it can be asked what goes with a direction."""
_FEW, LARGE = 20, 128
"""Dimensions in which quadratic functions are fewer than pairs, so that a basis of the residuals'
own and the noise of each coefficient by itself cost little and gain much; and those beyond which
the kernel would cost more than gradients."""


class Along(NamedTuple):
    """What is trusted of the way along a valley."""

    direction: Array
    """u, (D,)."""
    shift: float
    """How far to go, in standard deviations."""
    bend: Array
    """By what the covariance changes in one of them, (D, D)."""
    wider: float
    """By how many of these it is too small where q is now."""

    @classmethod
    def of(cls, found: Valley, z: Array, mismatch: Array, weight: Array) -> Along:
        """Ask the pairs."""
        shift, _, bend = found.way(z, mismatch, weight)
        stride = float(np.clip(_kept(shift), -_STRIDE, _STRIDE))
        return cls(found.direction, stride, found.bend, _kept(bend))


class Evidence(NamedTuple):
    """What the pairs say."""

    intercept: Array
    """a, shape (D,), as far as it is trusted."""
    precision: Array
    """I − M, the estimate of −E_q[∇² log p], symmetric, shape (D, D), as far as M is trusted."""
    trust: float
    """signal / (signal + noise) of intercept or slope, the larger: 1 on a Gaussian target."""
    linear: bool
    """Whether the score is linear, to rounding."""
    left: Array | None = None
    """Second moments of what a line leaves of the scores, (D, D); None where pairs cannot tell."""
    rounding: float = 0.0
    """Where it is linear: the size of an eigenvalue of the precision that may be rounding alone."""
    pairs: tuple[Array, Array, Array] | None = None
    """Whitened draws, what a line leaves of their scores, and weights: (n, D), (n, D), (n,)."""
    along: Along | None = None
    """The way along a valley, where there is one."""

    @property
    def aim(self) -> tuple[Array, Array]:
        """Intercept and precision, those along a valley as the whole way asks for."""
        if self.along is None:
            return self.intercept, self.precision
        direction, shift, bend, wider = self.along
        so_far = float(np.vdot(bend, identity(np, len(bend)) - self.precision))
        wider -= so_far / float(np.vdot(bend, bend))
        intercept = self.intercept + direction * (shift - float(direction @ self.intercept))
        return intercept, self.precision - (wider + shift) * bend

    def bent(self, directions: Array) -> Array:
        """Return what a line leaves of the scores along unit vectors, the columns of (D, k).

        Root mean square, no less than over all directions; infinite where the pairs cannot tell.
        """
        if self.left is None:
            return np.full(directions.shape[1], np.inf)
        along = _diagonal(directions, self.left)
        overall = float(np.trace(self.left)) / len(self.left)
        return np.asarray(np.sqrt(np.maximum(along, overall)))

    @property
    def tells_directions_apart(self) -> bool:
        """Whether pairs are enough to ask what goes with one direction."""
        return self.pairs is not None and len(self.pairs[0]) >= _PER_DIRECTION * len(self.intercept)

    def bent_by(self, direction: Array) -> float:
        """Return what a line leaves of the scores along a unit vector, or because of it.

        Where q becomes wider along u, of what is left along other directions that part grows which
        goes with z_u z. It is found by a regression, whose own noise is not taken off: few pairs
        do not say that there is none.
        """
        plain = float(self.bent(direction[:, None])[0])
        if self.left is None or self.pairs is None or not self.tells_directions_apart:
            return plain
        z, residual, weight = self.pairs
        root = np.sqrt(weight)[:, None]
        products = z * (z @ direction)[:, None] * root
        whole = residual * root
        part = explained(products, whole)
        if part is None:
            return plain
        share = float(np.vdot(part, part)) / max(float(np.vdot(whole, whole)), 1e-300)
        along = float(direction @ self.left @ direction)
        overall = share * float(np.trace(self.left)) / len(self.left)
        return min(plain, math.sqrt(max(along, overall)))


def regress(z: Array, h: Array, weight: Array) -> Evidence | None:
    """Regress h + z on [1, z]; None where the pairs do not span the space, and so cannot say."""
    mismatch = h + z
    count, dim = z.shape
    design = np.concatenate([np.ones((count, 1)), z], axis=1)
    if count < dim + 2:
        return None
    in_few = dim <= _FEW
    hat = least_squares(design, weight, formed=in_few)
    if hat is None:
        return None
    line = Line.of(hat, design, mismatch)
    scale = math.sqrt(float(np.vecdot(mismatch, mismatch).max())) + math.sqrt(dim)
    seems_linear = math.sqrt(float(np.vecdot(line.residual, line.residual).max())) < _LINEAR * scale
    if seems_linear and _would_tell(hat, design, z):
        root = np.sqrt(weight)[:, None]
        return _linear(design * root, h * root)
    left = _left(line.residual, weight)
    basis, is_mild = None, False
    if left is not None and dim <= LARGE:
        basis = eigh(left)[1] if in_few else None
        is_mild = float(left.trace()) <= (_MILD if in_few else _MILDER) ** 2 * dim
    shorter = shortened(mismatch)
    if shorter is not mismatch:
        line = Line.of(hat, design, shorter)
    known = line.along(basis)
    if is_mild and 3 * (dim + 1) <= count:
        other = without_quadratic(z, shorter, design, weight)
        known = known.improved_by(other.along(basis))
    intercept, intercept_trust = trusted(known.values[0], known.noise[0], dim)
    slope, noise = symmetric(known.values[1:]), known.noise[1:]
    noise = of_symmetric(noise)
    mean = Told(float(np.trace(slope)) / dim, float(np.trace(noise)) / dim**2)
    slope, slope_trust = trusted(slope, noise, dim * (dim + 1) // 2)
    if basis is not None:
        intercept, slope = basis @ intercept, basis @ slope @ basis.T
    along, may_be_curved = None, dim <= LARGE and count >= _TO_TELL * (dim + 1) + _AND_MORE
    if may_be_curved and left is not None and float(np.trace(left)) > _STRAIGHT:
        found = valley(z, line.residual, weight)
        if found is not None and found.strength > _CURVED:
            along = Along.of(found, z, shorter, weight)
    kept, so_far = _kept(mean), float(np.trace(slope)) / dim
    if along is None and in_few and abs(kept) > abs(so_far):
        # The width of all together is known better than each.
        slope = slope + (kept - so_far) * identity(np, dim)
    trust = max(intercept_trust, slope_trust)
    precision, pairs = identity(np, dim) - slope, (z, line.residual, weight)
    return Evidence(intercept, precision, trust, False, left, pairs=pairs, along=along)


def _would_tell(hat: Hat | Factored, design: Array, z: Array) -> bool:
    """Return whether something that is not linear, |z|², does not seem so too.

    Of D + 2 points two may be nearly the same, as at the end of a climb. A line through all others
    then leaves nothing of these two, whatever the score is like.
    """
    squares = np.vecdot(z, z)[:, None]
    left = squares - design @ (hat @ squares)
    return float(np.abs(left).max()) > _ALIKE * float(squares.max())


def _kept(told: Told) -> float:
    return float(trusted(np.array([told.value]), np.array([told.variance]), 1)[0][0])


def _diagonal(directions: Array, matrix: Array) -> Array:
    """Return the diagonal of a matrix seen along the columns of another."""
    return np.asarray(np.vecdot(directions.T, (matrix @ directions).T))


def _linear(design: Array, h: Array) -> Evidence:
    """Return what the pairs say where the score is linear.

    Of h itself, not as a difference from −z: the target may be very wide next to q.
    """
    ortho, upper = np.linalg.qr(design)
    coefficients = scipy.linalg.solve_triangular(upper, ortho.T @ h)
    narrowest = float(np.abs(np.diag(upper)).min())
    rounding = _ROUNDING * float(np.linalg.norm(h)) / narrowest
    return Evidence(coefficients[0], -symmetric(coefficients[1:]), 1.0, True, rounding=rounding)


def trusted(values: Array, noise: Array, number: int) -> tuple[Array, float]:
    """Shrink values by how far they stand out from their noise, all together or one by one.

    Returns the trust in all of them together, too. One by one, as much of a value is kept as noise
    alone would not give among so many; the directions along which the score is bent most are few,
    and would wait for all the others.
    """
    power = float((values * values).sum())
    trust = max(0.0, 1.0 - float(noise.sum()) / power) if power > 0 else 0.0
    least = 2.0 * math.log(max(number, 2)) * noise
    alone = 1.0 - least / np.maximum(values * values, 1e-300)
    return np.asarray(values * np.maximum(trust, alone)), trust


def _left(residual: Array, weight: Array) -> Array | None:
    """Return the second moments of what is not linear, each coefficient's share added back."""
    count, dim = residual.shape
    spare = count - dim - 1
    if spare < _SPARE + dim / 2:
        return None
    rows = residual * np.sqrt(weight / weight.sum())[:, None]
    return np.asarray(rows.T @ rows * (count / spare), dtype=np.float64)


def shortened(mismatch: Array) -> Array:
    """Return the rows, those that are far too long shortened; the same array if none is."""
    lengths = np.sqrt(np.vecdot(mismatch, mismatch))
    own, common = _LONGEST
    longest = own * math.sqrt(mismatch.shape[1]) + common * median(lengths)
    if float(lengths.max()) <= longest:
        return mismatch
    share = longest / np.maximum(lengths, longest)
    return np.asarray(mismatch * share[:, None], dtype=np.float64)


def symmetric(slope: Array) -> Array:
    """Return the symmetric part."""
    return np.asarray(0.5 * (slope + slope.T), dtype=np.float64)


def of_symmetric(noise: Array) -> Array:
    """Return the variances of the symmetric part: off the diagonal they are halved."""
    halved = 0.25 * (noise + noise.T)
    np.fill_diagonal(halved, noise.diagonal())
    return halved
