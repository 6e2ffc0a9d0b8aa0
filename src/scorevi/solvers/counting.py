"""Which remembered pairs count for which component of a mixture, and how much.

An average over a component is one over its own draws, however few; a line may be drawn through
those of its neighbours as well.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, Array, Mask
from scorevi.base.estimates import median
from scorevi.solvers.weights import largest_power, largest_share

_MOST_WEIGHT = 0.7
"""The largest log weight of a pair."""
_NEEDED, _AT_LEAST = 4.0, 2.0
"""Effective pairs over D + 1: until there are so many, weights heed the known directions alone; and
they are evened out where even that leaves fewer."""
_OWN = -0.7
"""The log share of q's density from which on a pair is a component's own."""
NEGLIGIBLE = 1e-4
_NOTHING = 40.0
"""Nats below the largest weight at which a pair does not change any sum."""
_PAIRS = 512
"""The most pairs that a regression is made of, or 4(D + 1)."""


class Counted(NamedTuple):
    """How much pairs count for a component."""

    kept: AnyArray
    """Which of them do for a regression, as places among all."""
    weight: Array
    """How much these do."""
    honest: Array
    """How much all of them do for averages, (n,)."""


def counted(
    log_parts: Array, log_q: Array, log_then: Array, log_shares: Callable[[], Array], dim: int
) -> list[Counted]:
    """Return how much pairs count for each component.

    Parameters
    ----------
    log_parts
        log(w_k q_k) of the pairs, (n, K).
    log_q
        The log density of the mixture, (n,).
    log_then
        The log density of what each was drawn from, (n,).
    log_shares
        Returns the log of each component's share along the known directions, (n, K).
    dim
        D.
    """
    parts = np.ascontiguousarray(log_parts.T)
    ratio = np.subtract(parts, log_then)
    parts -= log_q
    for its, share in zip(ratio, parts, strict=True):
        # Its own pairs count in full, however few of what they were drawn from was this component.
        its -= median(its[_own(share, dim)])
    full = np.minimum(_MOST_WEIGHT, ratio, out=ratio)
    honest = np.exp(full - full.max(axis=1, keepdims=True))
    effective = honest.sum(axis=1) ** 2 / np.vecdot(honest, honest)
    is_rich = effective >= _NEEDED * (dim + 1)
    along = None if is_rich.all() else np.minimum(_MOST_WEIGHT, log_shares().T)
    found = []
    for k, weight in enumerate(honest):
        kept = np.flatnonzero(weight > NEGLIGIBLE)
        weight = weight[kept]
        if not is_rich[k] and along is not None:
            kept, weight = _widened(along[k], full[k], dim)
        found.append(Counted(*_heaviest(kept, weight, max(_PAIRS, 4 * (dim + 1))), honest[k]))
    return found


def _own(share: Array, dim: int) -> Mask:
    """Return which pairs are a component's own: no fewer than D + 1."""
    own = share >= _OWN
    wanted = min(dim + 1, len(share))
    if np.count_nonzero(own) < wanted:
        own = share >= np.partition(share, -wanted)[-wanted]
    return np.asarray(own)


def _widened(along: Array, full: Array, dim: int) -> tuple[AnyArray, Array]:
    """Let more pairs count than are the component's own: first along the known directions."""
    higher = np.maximum(along, full)
    near = np.flatnonzero(higher >= np.minimum(along, full).max() - _NOTHING)
    even, own = along[near], full[near]
    mixed = even + largest_share(even, own, _NEEDED * (dim + 1), bits=12) * (own - even)
    weight = np.exp(mixed - mixed.max())
    needed = min(_AT_LEAST * (dim + 1), 0.99 * len(full))
    if weight.sum() ** 2 < needed * (weight @ weight):
        share = largest_share(along, full, _NEEDED * (dim + 1), bits=12)
        mixed, near = along + share * (full - along), np.arange(len(full))
        mixed = mixed * largest_power(mixed, needed)
        weight = np.exp(mixed - mixed.max())
    kept = weight > NEGLIGIBLE
    return near[kept], weight[kept]


def _heaviest(kept: AnyArray, weight: Array, most: int) -> tuple[AnyArray, Array]:
    if len(weight) <= most:
        return kept, weight
    heavy = weight >= np.partition(weight, -most)[-most]
    return kept[heavy], weight[heavy]
