"""The components of a mixture while it grows: what is known of them, and how they are split."""

from __future__ import annotations

import math
from collections.abc import Mapping
from typing import NamedTuple

import numpy as np
import scipy.special

from scorevi.base.arrays import Array
from scorevi.base.valley import third_derivatives, valley
from scorevi.families import Gaussian, Mixture
from scorevi.families.stacked import Stacked
from scorevi.solvers.components import Local
from scorevi.solvers.nesting_state import near
from scorevi.solvers.replay import ReplayState
from scorevi.solvers.scouts import FARTHEST, MOST_AXES, Scout
from scorevi.solvers.terms import line_leaves
from scorevi.solvers.trust_region import trusted_step

_APART = 0.65
"""Half of the way between the two parts of a component, in its standard deviations."""
_BENT, _WORTH = 0.15, 0.02
"""|Q_u|² of a component that is split, and the same times its weight."""
_LEFT = 0.3
"""Mean square of what a line leaves of the score along some direction, where nothing is bent so."""
_CLEARLY_BENT, _NOISE = 0.4, 3.0
"""|Q_u|² along some direction from which on components may follow it, also over its noise, which is
as large as the smallest is negative."""
_CLEARLY_LEFT, _STANDS_OUT = 0.5, 0.05
"""The same of the mean square of what a line leaves of the score, also as a share of that along all
directions."""
_TO_TELL = 4
"""Pairs, over D + 1, by which either is known."""
_AMONG_BEST = 0.3
_NEW_AXIS = 0.5
_LARGEST_CHANGE = 1.0
_SETTLED = 0.1
"""The length of a step after which a component need not be looked at again before there is news."""


class MixingState(NamedTuple):
    """A mixture, the pairs, and what was tried. Parts and pairs are in the coordinates of base."""

    q: Mixture
    proposal: Mixture
    """What the next batch is drawn from."""
    base: Gaussian
    parts: Mixture
    z: Array
    h: Array
    log_p: Array
    """NaN where it is not known."""
    log_then: Array
    """Log density of what each pair was drawn from."""
    axes: Array
    """Directions along which components were split, orthonormal columns, (D, d)."""
    own: Array
    """Draws that each component had of its own, (K,)."""
    heard: Array
    """Draws of its own, and of all, when each component was last looked at, (K, 2)."""
    reach: Array
    """How far scouts go from each component, along each axis, to each side, (K, 3, 2)."""
    asked: Array
    """How many draws there were when they last did."""
    scouts: tuple[Scout, ...]
    drawn: int
    """Draws since the mixture began."""
    changed: int
    """How many of them when components last came or were split."""
    missed: int
    """How many when what lay far above the mixture was no component."""
    outwards: int
    """How many when a scout last found more of the posterior."""
    cut: bool
    """Whether scouts still did when a ceiling was reached."""
    batch_size: int
    ending: str
    """Why nothing is left to gain, or can be; empty while something is."""


class Growth:
    """The components of a mixture while a step changes them."""

    def __init__(self, log_weights: Array, parts: list[Gaussian], state: MixingState) -> None:
        self.log_weights = log_weights
        self.parts = parts
        self.axes = state.axes
        self.own, self.heard = state.own, state.heard.copy()
        self.reach, self.asked = state.reach.copy(), state.asked.copy()
        self.origin = list(range(len(parts)))
        """Which component of the step's beginning each of them is; −1 for a new one."""

    @classmethod
    def of(
        cls, state: MixingState, looks: Mapping[int, Local | None], own: Array, drawn: int
    ) -> Growth:
        """Move components to where their pairs say, with so many draws of their own and of all."""
        growth = cls(state.parts.log_weights.copy(), list(state.parts.components), state)
        growth.own = own
        for k, local in looks.items():
            if local is not None:
                growth.parts[k], length = moved_by(growth.parts[k], local)
                growth.heard[k] = (own[k], drawn) if length < _SETTLED else 0.0
        return growth

    @property
    def count(self) -> int:
        """How many there are."""
        return len(self.parts)

    @property
    def mixture(self) -> Mixture:
        """The mixture of them."""
        return Mixture(log_weights=self.log_weights, components=self.parts)

    def settle(self, values: Array, errors: Array) -> float:
        """Move the weights to where the pairs say; returns what the mixture is worth."""
        known = np.isfinite(values)
        if not known.any():
            return math.nan
        values, errors = values[known], errors[known]
        share = np.exp(self.log_weights[known])
        level = float(share @ values / share.sum())
        off = values - level
        off = np.sign(off) * np.maximum(0.0, np.abs(off) - errors)
        self.log_weights[known] += np.clip(off, -_LARGEST_CHANGE, _LARGEST_CHANGE)
        return level

    def add(self, part: Gaussian, log_weight: float) -> None:
        """Take in a component, whose log weight is compared with 1 for all others together."""
        self.log_weights -= scipy.special.logsumexp(self.log_weights)
        self.log_weights = np.append(self.log_weights, log_weight)
        self.parts.append(part)
        self._new(0.0)

    def split(self, k: int, direction: Array, as_it_was: Gaussian) -> None:
        """Put two in the place of component k, along a unit vector of its whitened space."""
        axis = np.linalg.solve(as_it_was.factor.T, direction)
        axis = axis / np.linalg.norm(axis)
        axis = axis - self.axes @ (self.axes.T @ axis)
        length = float(np.linalg.norm(axis))
        if length > _NEW_AXIS and self.axes.shape[1] < MOST_AXES:
            self.axes = np.concatenate([self.axes, axis[:, None] / length], axis=1)
        narrower = math.sqrt(1.0 - _APART**2)
        root = np.eye(len(direction)) + (narrower - 1.0) * np.outer(direction, direction)
        one, other = (
            self.parts[k].moved(sign * _APART * direction, root, math.log(narrower))
            for sign in (-1.0, 1.0)
        )
        self.parts[k] = one
        self.parts.append(other)
        self.log_weights[k] -= math.log(2.0)
        self.log_weights = np.append(self.log_weights, self.log_weights[k])
        self.own[k] *= 0.5
        self.reach[k], self.asked[k], self.heard[k], self.origin[k] = FARTHEST, 0.0, 0.0, -1
        self._new(float(self.own[k]))

    def drop(self, least: float) -> None:
        """Leave out components of next to no weight."""
        log_weights = self.log_weights - scipy.special.logsumexp(self.log_weights)
        kept = np.flatnonzero(log_weights >= math.log(least))
        self.log_weights = log_weights[kept]
        self.parts = [self.parts[k] for k in kept]
        self.origin = [self.origin[k] for k in kept]
        self.own, self.heard = self.own[kept], self.heard[kept]
        self.reach, self.asked = self.reach[kept], self.asked[kept]

    def _new(self, own: float) -> None:
        self.own = np.append(self.own, own)
        self.heard = np.concatenate([self.heard, np.zeros((1, 2))])
        blank = np.zeros((1, MOST_AXES, 2))
        self.reach = np.concatenate([self.reach, blank + FARTHEST])
        self.asked = np.concatenate([self.asked, blank])
        self.origin.append(-1)


def moved_by(part: Gaussian, local: Local) -> tuple[Gaussian, float]:
    """Take replay's step; returns its length too, the root of twice its divergence."""
    shift, variances, vectors = trusted_step(local.evidence)
    logs = 0.5 * np.log(variances)
    moved = part.moved(shift, (vectors * np.exp(logs)) @ vectors.T, float(logs.sum()))
    return moved, math.sqrt(float(shift @ shift) + 2.0 * float(logs @ logs))


def is_bent(state: ReplayState) -> bool:
    """Return whether some direction stands out along which the posterior is not Gaussian.

    In many dimensions log p − log q varies, too, where the noise of q or a little of everything
    adds up, as in most regressions: nothing that a few components could follow. Few pairs do not
    tell, least of all where some are of a climb.
    """
    if len(state.z) < _TO_TELL * (state.q.dim + 1):
        return False
    z, h, weight = near(state)
    residual = line_leaves(z, h, weight)
    bent = np.linalg.eigvalsh(third_derivatives(z, residual, weight))
    if bent[-1] > max(_CLEARLY_BENT, -_NOISE * bent[0]):
        return True
    left = np.linalg.eigvalsh((residual.T * (weight / weight.sum())) @ residual)
    return bool(left[-1] > max(_CLEARLY_LEFT, _STANDS_OUT * left.sum()))


def to_split(parts: Mixture, looks: Mapping[int, Local | None]) -> list[tuple[int, Array]]:
    """Return the components whose score is bent, and along what, those first that matter most."""
    found = []
    for k, local in looks.items():
        if local is None or local.effective <= 3 * (parts.dim + 1):
            continue
        along = valley(local.z, local.residual, local.weight)
        if along is not None and along.strength > _BENT:
            found.append((float(parts.weights[k]) * along.strength, k, along.direction))
    if not found:
        found = _otherwise_bent(parts, looks)
    least = max([_WORTH, *(_AMONG_BEST * worth for worth, _, _ in found)])
    found.sort(key=lambda one: -one[0])
    return [(k, direction) for worth, k, direction in found if worth >= least]


def _otherwise_bent(
    parts: Mixture, looks: Mapping[int, Local | None]
) -> list[tuple[float, int, Array]]:
    """Return the component of which a line leaves most, and along what.

    Where the posterior is symmetric about it, as between two modes, third derivatives vanish.
    """
    found = []
    for k, local in looks.items():
        if local is not None and local.evidence.left is not None:
            values, vectors = np.linalg.eigh(local.evidence.left)
            if values[-1] > _LEFT:
                found.append((float(parts.weights[k] * values[-1]), k, vectors[:, -1]))
    return found


def in_space(base: Gaussian, parts: Mixture) -> Mixture:
    """Return a mixture in the space of theta."""
    return Mixture(
        log_weights=parts.log_weights,
        components=[under(base, part) for part in parts.components],
    )


def under(base: Gaussian, part: Gaussian) -> Gaussian:
    """Return in the space of theta what is in the coordinates of a Gaussian."""
    return base.moved(part.mean, part.factor, part.log_det)


def seen_from(base: Gaussian, q: Gaussian) -> Gaussian:
    """Return a Gaussian in the coordinates of another."""
    factor = base.whiten(base.mean + q.factor.T).T
    return Gaussian(base.whiten(q.mean), factor, q.log_det - base.log_det)


def seen_along(parts: Mixture, axes: Array) -> Stacked:
    """Return the marginals of all components along axes."""
    factors = np.array([part.factor for part in parts.components])
    upper: Array = np.linalg.qr(np.matrix_transpose(factors) @ axes, mode="r")  # type: ignore[assignment]
    log_dets = np.log(np.abs(np.diagonal(upper, axis1=1, axis2=2))).sum(axis=1)
    means = np.array([part.mean for part in parts.components]) @ axes
    whole = Gaussian.standard(axes.shape[1])
    return Stacked.of(parts.log_weights, means, np.matrix_transpose(upper), log_dets, whole)
