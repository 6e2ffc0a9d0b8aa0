r"""Which parameters make a posterior Gaussian given them, and how: found from scores alone.

In a hierarchy the precision of everything else is a sum of terms, each proportional to a power of
some scale: :math:`P(t) = \sum_j e^{\rho_j \cdot t} B_j` with t the logarithms of the scales. The
scores across t are then *linear* in unknown matrices,

.. math:: h_y = \sum_j e^{\rho_j \cdot t} (a_{j0} + \sum_k t_k a_{jk} - B_j y),

so that a regression finds them; where the likelihood is normal, exactly, from a few times D pairs.

- *Which t.* The parameter along which the precision changes most: that for which the third
  derivatives :math:`N_{cd} = \sum_{ab} Q_{abc} Q_{abd}` of :mod:`scorevi.base.valley` are largest;
  then, with those taken out that the terms found so far explain, the next.
- *Which terms.* See :mod:`scorevi.solvers.powers`. A scale that no term has is none.

References
----------
Rue, Martino and Chopin (2009), Approximate Bayesian inference for latent Gaussian models by using
integrated nested Laplace approximations, *JRSS B* 71: models declared to be of this form.
"""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np
import scipy.linalg

from scorevi.base.arrays import Array
from scorevi.base.valley import third_derivatives
from scorevi.families import Gaussian
from scorevi.families.given import Given
from scorevi.solvers.powers import BETTER, POWERS, SPARE, chosen, gains
from scorevi.solvers.terms import EXACT, FOLD, line_leaves, parameters, regressed, residual_of

_MOST_SCALES, _FEW = 4, 3
"""Scales: at most, and dimensions for each."""
_BENT = 0.1, 0.0
"""The least |Q_u|² of the first scale, and of others."""
_OTHERWISE = 0.3
"""The part of a parameter that must not be known from the scales before it, as a length."""
_NOTHING = 0.05
"""Mean square of what is left of all scores, where nothing more need be found."""
_FEWER = 0.3
"""What a further scale must leave at most, of what was left before, where that was nothing."""
_IN_VAIN = 2
"""Scales that are taken together without any gain, before the search is given up."""
_SHORT_LIST, _TRIED = 24, 3
"""Parameters of which each is looked at, and of which each is tried."""


class Structure(NamedTuple):
    """What makes a posterior Gaussian."""

    scales: tuple[int, ...]
    """The parameters."""
    turn: Array
    """Orthonormal columns: those of t in whitened coordinates, then all others, (D, D)."""
    given: Given
    before: float
    """Mean square of what one Gaussian leaves of the scores across t, all directions together."""
    left: float
    """The same given t, of pairs that had no part in it."""

    @property
    def explains(self) -> float:
        """The part of what is not Gaussian that it explains."""
        return 1.0 - self.left / self.before if self.before > 0.0 else 0.0

    @property
    def is_exact(self) -> bool:
        """Whether nothing is left but rounding."""
        return self.left < EXACT * self.before

    def rates_by(self, base: Gaussian, scales: tuple[int, ...], axes: Array) -> Array | None:
        """Return its rates in the coordinates of more scales; None where it has another one."""
        if not set(self.scales) <= set(scales):
            return None
        units = base.factor[list(self.scales)] @ self.turn[:, : len(self.scales)]
        powers = np.zeros((len(self.given.rates), len(scales)))
        powers[:, [scales.index(one) for one in self.scales]] = np.linalg.solve(
            units.T, self.given.rates.T
        ).T
        return np.asarray(powers @ (base.factor[list(scales)] @ axes))


def most_scales(dim: int) -> int:
    """Return how many there may be: few beside what they are the scales of."""
    return min(_MOST_SCALES, max(1, dim // _FEW))


def structure(base: Gaussian, z: Array, h: Array, weight: Array) -> Structure | None:
    """Look for parameters given which the posterior is Gaussian; None where there are none.

    Parameters
    ----------
    base
        By which the pairs are whitened.
    z, h
        Points and scores, (n, D).
    weight
        How much each counts, (n,).
    """
    count, dim = z.shape
    if dim < 2 or SPARE * 2 * (dim + 2) > count * (1.0 - 1.0 / FOLD):
        return None
    residual = line_leaves(z, h, weight)
    directions = base.factor.T / base.sd
    found: Structure | None = None
    # A scale that explains nothing alone may do so together with the next.
    tried: tuple[int, ...] = ()
    needless: set[int] = set()
    known: dict[tuple[int, ...], Structure] = {}
    while len(tried) < most_scales(dim) and len(tried) < _IN_VAIN + _number(found):
        likely = _next(z, residual, weight, directions, _axes(directions, tried), needless)
        if not likely:
            break
        each: list[Structure] = []
        for one in likely:
            each.append(_with_scales(base, z, h, weight, (*tried, one), known, before=found))
            if each[-1].is_exact:
                break
        best = int(np.argmin([one.left / one.before for one in each]))
        tried, new = (*tried, likely[best]), each[best]
        # Little is left, as a rule, and yet the posterior may be Gaussian with one scale more.
        is_little = found is not None and found.left < _NOTHING
        least = new.before * (1.0 if found is None else 1.0 - found.explains)
        if new.left < (_FEWER if is_little else BETTER) * least:
            found, residual = new, _residual(new, z, h)
            needless |= set(tried) - set(new.scales)
            tried = new.scales
            if new.is_exact:
                break
        elif is_little:
            break
    return found


def _number(found: Structure | None) -> int:
    return 0 if found is None else len(found.scales)


def _residual(found: Structure, z: Array, h: Array) -> Array:
    """Return what a structure leaves of the scores across its scales."""
    number = len(found.scales)
    axes, across = found.turn[:, :number], found.turn[:, number:]
    return residual_of(found.given, z @ axes, z @ across, h @ across) @ across.T


def _axes(directions: Array, scales: tuple[int, ...]) -> Array:
    """Return orthonormal columns that span what a few parameters are made of."""
    return np.asarray(np.linalg.qr(directions[:, list(scales)])[0])


def _with_scales(
    base: Gaussian,
    z: Array,
    h: Array,
    weight: Array,
    scales: tuple[int, ...],
    known: dict[tuple[int, ...], Structure],
    before: Structure | None = None,
) -> Structure:
    """Find the terms, given which parameters are scales; those that no term has are none.

    ``before`` is what was found with fewer scales.
    """
    if scales in known:
        return known[scales]
    number = len(scales)
    axes = _axes(base.factor.T / base.sd, scales)
    turn = np.concatenate([axes, scipy.linalg.null_space(axes.T)], axis=1)
    pairs = z @ axes, z @ turn[:, number:], h @ turn[:, number:], weight
    units = base.factor[list(scales)] @ axes
    begin = None if before is None else before.rates_by(base, scales, axes)
    rates, left, line = chosen(*pairs, units, begin)
    powers = np.abs(np.linalg.solve(units.T, rates.T)).max(axis=1)
    has_part = powers > 0.5 * min(map(abs, POWERS))
    if has_part.any() and not has_part.all():
        rest = tuple(one for one, has in zip(scales, has_part, strict=True) if has)
        return _with_scales(base, z, h, weight, rest, known, before)
    own = parameters(base, turn, scales)
    known[scales] = Structure(scales, turn, regressed(rates, *pairs, own), line, left)
    return known[scales]


def _next(
    z: Array,
    residual: Array,
    weight: Array,
    directions: Array,
    axes: Array,
    needless: set[int],
) -> list[int]:
    """Return parameters by which most of what is left may be explained, the best first.

    Of those along which the precision changes most, those in which a line explains most.
    """
    third = third_derivatives(z, residual, weight)
    ways = directions - axes @ (axes.T @ directions)
    lengths = np.sqrt(np.vecdot(ways.T, ways.T))
    strength = np.vecdot(ways.T, (third @ ways).T) / np.maximum(lengths, 1e-100) ** 2
    strength[lengths < _OTHERWISE] = -math.inf
    strength[list(needless)] = -math.inf
    least = _BENT[bool(axes.size)]
    likely = [int(j) for j in np.argsort(-strength)[:_SHORT_LIST] if strength[j] > least]
    if not likely:
        return []
    lines = z @ directions[:, likely]
    order = np.argsort(gains(np.ones((len(z), 1)), lines, z[:, :0], z, residual, weight))
    return [likely[k] for k in order[::-1][:_TRIED]]
