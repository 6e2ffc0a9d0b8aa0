"""Where a mixture may have to go on: components that are tried before they are believed.

A component at the edge of a mixture, along a direction in which the posterior changes its shape,
is copied outwards, its precision as the third derivatives of log p say that it goes on. A few draws
of the copy tell how much of the posterior it covers, and whether the mixture lacks it. Where they
say no, half of the way is tried next.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Gaussian, Mixture
from scorevi.families.stacked import log_sum
from scorevi.solvers.components import Local, value

MOST_AXES = 3
FARTHEST = 1.6
"""Standard deviations of a component, from it to its copy."""
DRAWS = 8
_NEAREST, _NEARER = 0.6, 0.65
_WIDER = 1.2
"""The copy's own width along the way."""
_ALONE = 0.4
"""How much the others may add, in nats, where a copy is to be: there is an edge."""
_LONGEST = 1.2
"""Of a change of the log precision that is extrapolated."""
_BEND = 0.5
_AT_ONCE = 5
_LEAST_MASS = -6.9
"""The logarithm of the share of the posterior that is worth a component."""
_LACKING = 3.0
"""By how many nats a pair must lie above the mixture for a component to be tried there."""
_FEWEST = 3.0
_ERRORS = (1.5, 4.0)
"""Standard errors by which the mixture must lie below the posterior where a scout is; and surely
does: several scouts are asked in each of several batches."""
WORTH, MATTERS = 0.005, 0.03
"""By what part a variance changes for a scout to become a component, and for q to lack it."""


class Scout(NamedTuple):
    """A component on trial."""

    part: Gaussian
    parent: int
    axis: int
    """Of the known directions; −1 where it is not along one."""
    side: int
    """0 or 1."""


def send(
    parts: Mixture,
    axes: Array,
    look: Callable[[int], Local | None],
    reach: Array,
    drawn: int,
    asked: Array,
) -> list[Scout]:
    """Return copies of components at the edges, those of the heaviest first.

    Parameters
    ----------
    parts, axes
        The mixture and the known directions.
    look
        Says what the pairs say about a component; None where it is new, or they cannot tell.
    reach, drawn, asked
        As in the state.
    """
    ways, places = [], []
    for k in np.argsort(-parts.log_weights):
        part = parts.components[k]
        for axis in range(axes.shape[1]):
            way = part.factor.T @ axes[:, axis]
            way = way / np.linalg.norm(way)
            image = part.factor @ way
            for side in (0, 1):
                step = float(reach[k, axis, side])
                if step >= _NEAREST and asked[k, axis, side] <= drawn / 2:
                    signed = step if side else -step
                    ways.append((int(k), axis, side, way, signed))
                    places.append(part.mean + signed * image)
    if not places:
        return []
    log_parts = parts.log_parts(np.array(places))
    total = log_sum(log_parts)
    found: list[Scout] = []
    for (k, axis, side, way, signed), each, whole in zip(ways, log_parts, total, strict=True):
        if len(found) == _AT_ONCE:
            break
        local = look(k) if whole - each[k] < _ALONE else None
        if local is not None:
            there = _beyond(parts.components[k], way, signed, local.bend(axis))
            found.append(Scout(there, k, axis, side))
    return found


def lacking(parts: Mixture, z: Array, log_ratio: Array, level: float) -> list[Scout]:
    """Return a component at the pair that lies furthest above the mixture, if far enough."""
    ratio = np.where(np.isfinite(log_ratio), log_ratio, -np.inf)
    best = int(np.argmax(ratio))
    if not ratio[best] > level + _LACKING:
        return []
    near = int(np.argmax(parts.log_parts(z[best])))
    part = parts.components[near]
    return [Scout(Gaussian(z[best], part.factor, part.log_det).scaled(0.7), near, -1, 0)]


class Judged(NamedTuple):
    """What a scout has found."""

    log_weight: float
    """The log weight that it deserves."""
    worth: float
    """By about what part a variance of q changes if it becomes a component; 0 if it should not."""
    surely: float
    """The same, whatever the noise."""


def judge(
    scout: Scout, parts: Mixture, share: Array, z: Array, log_p: Array, level: float
) -> Judged:
    """Say what a scout deserves.

    Parameters
    ----------
    scout
        Who is judged.
    parts
        The mixture without it.
    share
        How far each of the draws is its own, (n,).
    z, log_p
        The draws.
    level
        What the mixture is worth.
    """
    if share.sum() < _FEWEST:
        return Judged(-np.inf, 0.0, 0.0)
    mass = value(share, log_p - scout.part.log_density(z))[0] - level
    above, error = value(share, log_p - parts.log_density(z))
    log_weight = min(mass, float(parts.log_weights[scout.parent]))
    if not mass > _LEAST_MASS:
        return Judged(log_weight, 0.0, 0.0)
    matters = float(np.exp(log_weight)) * (1.0 + _away(scout, parts) ** 2)
    lacks = [-np.expm1(-max(0.0, above - level - errors * error)) for errors in _ERRORS]
    return Judged(log_weight, matters * float(lacks[0]), matters * float(lacks[1]))


def _away(scout: Scout, parts: Mixture) -> float:
    """Return how many standard deviations of the mixture a scout is from its mean.

    Along the way from there, so that what is across it does not count.
    """
    way = scout.part.mean - parts.mean
    means = np.array([part.mean for part in parts.components]) @ way
    spreads = np.array([np.linalg.norm(part.factor.T @ way) for part in parts.components])
    variance = parts.weights @ ((means - parts.mean @ way) ** 2 + spreads**2)
    return float(way @ way / np.sqrt(max(variance, 1e-300)))


def shorten(reach: Array, asked: Array, scout: Scout) -> None:
    """Let the next scout on the same way go less far, and at once."""
    if scout.axis >= 0:
        reach[scout.parent, scout.axis, scout.side] *= _NEARER
        asked[scout.parent, scout.axis, scout.side] = 0.0


def _beyond(part: Gaussian, way: Array, step: float, bend: Array | None) -> Gaussian:
    """Return a copy of a component, moved along a unit vector of its whitened space."""
    dim = len(way)
    if bend is None:
        bend = np.zeros((dim, dim))
    rates, vectors = np.linalg.eigh(bend)
    scales = np.exp(0.5 * np.clip(step * rates, -_LONGEST, _LONGEST))
    aside = bend @ way
    aside = aside - (aside @ way) * way
    shift = step * way + 0.5 * step**2 * np.clip(aside, -_BEND, _BEND)
    root = (vectors * scales) @ vectors.T
    along = root.T @ way
    along = along / np.linalg.norm(along)
    root = root + (_WIDER - 1.0) * np.outer(root @ along, along)
    return part.moved(shift, root, float(np.log(scales).sum()) + float(np.log(_WIDER)))
