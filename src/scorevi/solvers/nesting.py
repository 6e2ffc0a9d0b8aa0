r"""Nested score matching: a mixture over the scales of a hierarchy, a Gaussian given them.

Where scores say that a posterior is Gaussian given a few of its parameters
(:mod:`scorevi.solvers.scales`), these are given a mixture of their own
(:mod:`scorevi.solvers.overall`), and everything else a Gaussian whose precision is a sum of powers
of them (:mod:`scorevi.families.given`). A step regresses the scores of all pairs once more, and
weighs all draws once more; draws come from q and, a third of them, from wider than q along the
scales, so that what q lacks is seen.

A step takes O(n·(J·D)²) for n pairs and J terms, and O(D³) for each draw of its batch.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.base.estimates import weighted_quantile
from scorevi.families import is_sound
from scorevi.families.gaussian import HALF_LOG_2PI
from scorevi.families.given import Given
from scorevi.solvers.base import Batch
from scorevi.solvers.nesting_state import (
    VERY_ROUGHLY,
    NestingState,
    afresh,
    batch_size,
    begun,
    near,
    remembering,
    split,
)
from scorevi.solvers.overall import TEMPERED, farthest, importance, mixture_of, wider
from scorevi.solvers.powers import chosen
from scorevi.solvers.replay import ReplayState
from scorevi.solvers.scales import most_scales, structure
from scorevi.solvers.terms import (
    EXACT,
    believed,
    evened,
    parameters,
    regressed,
    residual_of,
)
from scorevi.solvers.weights import judged, largest_power

_EXPLAINED = 0.6
"""The part of what is not Gaussian that must be explained."""
_TEMPERED = 0.25
"""The power of weights of pairs in regressions: those at the ends count too."""
_FOLLOWED = 1.0
"""By how much the exponent of a term may go beyond what was seen, where terms are not exact."""
_WIDER, _RARELY_WIDER = 2.0, 0.99
"""By how much y given scales may be wider, where terms are not exact, than it is at 99 of 100
the scales that there are."""
_EFFECTIVE = 600.0
"""Effective draws of the scales at which they are known: to 0.04 standard deviations."""
_UNLIKE = 5.0
"""The Fisher residual of a q that is not the posterior: two modes given t, for example."""
_WORSE, _SMALL = 2.0, 0.1
"""That of a q which has become worse than one Gaussian, over what that one leaves, or this."""
_NATS_WORSE = 0.5
"""By how many nats its ELBO, which a single wild draw may decide, may be below the Gaussian's."""
_LONGEST, _LONGEST_PER_DIMENSION = 1500, 15
_NOT_MUCH, _HOPEFUL, _SOONER = 0.05, 0.7, (300, 9)
"""What terms may leave, and the part of the effective draws that must be in sight, to go on beyond
so many draws, and so many for each dimension."""
_OFTEN, _SEARCHED = (1.6, 1.4), 1.5
"""By how much the memory grows until terms are chosen anew, where they leave little and where they
do not; and draws, over the pairs before them, up to which further scales are looked for."""
_NEARLY_ALL = 0.9
"""Of new draws, those that must be explained to rounding by what is exact."""
_FEWER = 0.3
"""What further scales must leave at most, of what is left without them, to begin again."""
_FARTHEST = 5.0
"""Standard deviations of q(t), over √d, from which on a draw is not believed yet."""
_CORRECTED = 3.0
"""Nats by which the density of scales may be more than draws of y say: where scores say so."""
_LEAST_POWER = 1e-6
"""Of weights, at the least."""
_KNOWN = 1.0
"""Nats by which a draw may be misplaced, as its score says, to tell what lies there."""
_AGAIN, _SETTLED = 1.25, 0.05
"""By how much the draws grow between two looks at the scales, and by how little means and sds may
have changed from one to the next, in sds."""
_OUTSIDE = 0.003
"""What the farthest draws may weigh together, along each axis and to each side."""
_UNLIKELY = 10.0, 0.1
"""Nats below the best from which on a pair counts less, and by how much for each."""
_FINE, _FINER, _MORE = 1e-3, 1e-6, 1.25
"""What terms may leave where other scales would be no better, and where other terms would not; and
by how much the memory grows until the matrices of what leaves so little are found anew."""


class NestingInfo(NamedTuple):
    """What a step found."""

    effective: float
    """Effective draws of the scales."""
    elbo: float
    """Of q, by the batch."""
    fisher: float


def nested(state: ReplayState, elbo: float = -math.inf) -> NestingState | None:
    """Go on from one Gaussian, where scores say that there are scales; None where they do not.

    ``elbo`` is that of the Gaussian, where it is known.
    """
    found = structure(state.q, *near(state))
    if found is None or found.explains < _EXPLAINED:
        return None
    return begun(state, found, state.z, state.h, elbo)


def step(state: NestingState, batch: Batch) -> tuple[NestingState, NestingInfo]:
    """Remember the batch, and find scales and terms anew from all there is."""
    state = _found_out(remembering(state, batch), len(batch.theta))
    q, drawn = state.q, int(state.counts.sum())
    pairs, sane = _pairs(state)
    if not sane.any():
        lost = state._replace(ending="no score is that of a Gaussian given scales", cut=True)
        return lost, NestingInfo(0.0, *judged(q, batch))
    other = _otherwise(state, pairs, sane)
    if other is not None:
        return other, NestingInfo(0.0, *judged(q, batch))
    rates, left, looked = _terms(state, pairs)
    given = q.given
    if left > _FINE or (left > EXACT and _has_grown(state)) or looked > state.looked:
        given = regressed(rates, *pairs, parameters(q.base, q.turn, q.scales))
    if left > EXACT:
        given = dataclasses.replace(given, ends=_ends(rates, pairs[0]))
    # Where the mean is far off, what draws say of a scale is too little, as a rule.
    tried = given.tried(*split(state, slice(-len(batch.theta), None)))
    off, widths = np.append(state.off, tried.misplaced), np.append(state.widths, tried.widths)
    recent = split(state, slice(-drawn, None)).scales
    counted, wide = _counted(state._replace(off=off), recent, sane)
    if left > EXACT:
        widest = _WIDER * weighted_quantile(widths[-len(recent) :], counted, _RARELY_WIDER)
        given = dataclasses.replace(given, widest=widest)
    effective = 1.0 / float(counted @ counted)
    now = dataclasses.replace(q, over=mixture_of(recent, counted, wide), given=given)
    info = NestingInfo(effective, *judged(q, batch))
    if not is_sound(now, q.log_volume):
        now = q
    following = state._replace(
        q=now,
        off=off,
        widths=widths,
        left=left,
        proposal=dataclasses.replace(now, over=wider(now.over, recent, counted), even=VERY_ROUGHLY),
        looked=looked,
        batch_size=batch_size(q.dim, drawn),
    )
    if left < _FEWER * state.left:
        return afresh(following), info
    is_known = np.abs(off[-len(recent) :]) < _KNOWN
    outside = farthest(recent[is_known], counted[is_known])
    return _ended(following, info, outside, q.given), info


def _found_out(state: NestingState, new: int) -> NestingState:
    """Take what seems exact for inexact, and look for terms anew, where new draws contradict.

    Pairs that lie close together may be explained to many digits by terms that are none.
    """
    if state.left > EXACT:
        return state
    t, y, h = split(state, slice(-new, None))
    with np.errstate(over="ignore", invalid="ignore"):
        off = residual_of(state.q.given, t, y, h)
        share = np.vecdot(off, off) / np.maximum(np.vecdot(h, h) + np.vecdot(y, y), 1e-300)
    left = float(np.nan_to_num(np.quantile(share, _NEARLY_ALL), nan=1.0))
    return state if left <= EXACT else state._replace(left=left, looked=0)


def _pairs(state: NestingState) -> tuple[tuple[Array, Array, Array, Array], Mask]:
    """Return the pairs by which terms are found, how much each counts, and which they are."""
    q, drawn = state.q, int(state.counts.sum())
    scales, others, scores = split(state)
    before = len(scales) - min(drawn, len(scales))
    # As if t were drawn from q: what lies far outside would decide over all else.
    log_then = np.logaddexp(
        state.mixed,
        _log(before) - 0.5 * np.vecdot(scales, scales) - q.over.dim * HALF_LOG_2PI,
    )
    log_then -= math.log(len(scales))
    sane = believed(q.given, scales, others, scores)
    weight = evened(q.given, scales)
    weight *= np.exp(_TEMPERED * np.minimum(0.0, q.over.log_density(scales) - log_then))
    weight[-drawn:] *= _likely(state.log_p - state.log_given)[-len(weight) :]
    return (scales[sane], others[sane], scores[sane], weight[sane]), sane


def _has_grown(state: NestingState) -> bool:
    """Return whether the memory has, with the last batch, grown by another step."""
    before = len(state.z) - int(state.counts[-1])
    return math.floor(math.log(len(state.z), _MORE)) > math.floor(math.log(max(before, 1), _MORE))


def _is_due(state: NestingState) -> bool:
    """Return whether there are enough new pairs to choose terms anew."""
    is_much = state.left > _NOT_MUCH
    return state.left > _FINER and len(state.z) >= _OFTEN[is_much] * state.looked


def _otherwise(
    state: NestingState, pairs: tuple[Array, Array, Array, Array], sane: Mask
) -> NestingState | None:
    """Look for other scales, and begin again with them if much is explained by them."""
    q = state.q
    is_early = state.counts.sum() <= _SEARCHED * len(state.replay.z)
    may_be = state.left > _FINE and q.over.dim < most_scales(q.dim)
    if not (_is_due(state) and is_early and may_be):
        return None
    found = structure(q.base, state.z[sane], state.h[sane], pairs[-1])
    if found is None or set(found.scales) == set(q.scales):
        return None
    if found.left >= _FEWER * state.left * found.before:
        return None
    return begun(state.replay, found, state.z, state.h, state.elbo)


def _terms(
    state: NestingState, pairs: tuple[Array, Array, Array, Array]
) -> tuple[Array, float, int]:
    """Return the rates of the terms, what they leave, and the pairs when that was last asked."""
    q = state.q
    rates = q.given.rates
    if not _is_due(state):
        return rates, state.left, state.looked
    units = q.base.factor[list(q.scales)] @ q.turn[:, : q.over.dim]
    found = chosen(*pairs, units, rates)
    return found.rates, found.left / max(found.before, 1e-300), len(state.z)


def _counted(state: NestingState, recent: Array, sane: Mask) -> tuple[Array, Array]:
    """Return the importance weights of draws of t, and those of a wider density."""
    last = slice(-len(recent), None)
    log_t = state.log_p[last] - state.log_given[last]
    log_t += np.clip(state.off[last] - _CORRECTED, 0.0, _CORRECTED)
    away = np.asarray(state.q.over.coordinates.distance(recent))
    far = away > _FARTHEST * math.sqrt(recent.shape[1])
    log_t[~sane[last] | far] = -np.inf
    wide = TEMPERED * log_t
    log_weight = log_t - state.mixed[last]
    # One draw may seem to hold everything, and has no spread: as many count as have one.
    likely = log_weight[np.isfinite(log_weight)]
    if len(likely) > recent.shape[1] + 1:
        log_weight = log_weight * max(largest_power(likely, recent.shape[1] + 1.0), _LEAST_POWER)
    return importance(log_weight), importance(wide - state.mixed[last])


def _ended(state: NestingState, info: NestingInfo, outside: float, tried: Given) -> NestingState:
    """End where the scales are known, or where they will not be.

    With ``tried``, the Gaussian given them that the last draws are of: another one, of a few more
    pairs, may be far too wide at scales between those, which only draws from it would show.
    """
    over, dim = state.q.over, state.q.dim
    drawn, effective = int(state.counts.sum()), info.effective
    is_settled = False
    if drawn >= _AGAIN * state.settled[0]:
        means, sds = state.settled[1:].reshape(2, over.dim)
        moved = np.abs(over.mean - means) / over.sd
        changed = np.abs(np.log(over.sd / sds))
        is_settled = max(moved.max(), changed.max()) < _SETTLED and outside < _OUTSIDE
        state = state._replace(settled=np.concatenate([[drawn], over.mean, over.sd]))
    longest = _LONGEST + _LONGEST_PER_DIMENSION * dim
    is_hopeless = state.left > _NOT_MUCH and (
        effective * longest < _HOPEFUL * _EFFECTIVE * drawn or not info.fisher < _UNLIKE
    )
    is_long = drawn >= (_SOONER[0] + _SOONER[1] * dim if is_hopeless else longest)
    is_exact = state.left <= EXACT
    most = _UNLIKE if is_exact else min(_UNLIKE, _WORSE * max(state.fisher, _SMALL))
    is_better = is_exact or info.elbo > state.elbo - _NATS_WORSE
    is_good = effective >= _EFFECTIVE and info.fisher < most and is_better
    if not is_long and not (is_settled and is_good):
        return state
    scales = "one scale" if over.dim == 1 else f"{over.dim} scales"
    return state._replace(
        q=dataclasses.replace(state.q, given=tried),
        ending=f"Gaussian given {scales}, with {effective:.0f} effective draws of them",
        cut=not is_good,
    )


def _likely(log_t: Array) -> Array:
    """Return how much pairs count by how likely their scales seem: wild draws count nothing."""
    below = np.nanmax(log_t) - log_t
    return np.asarray(np.exp(-_UNLIKELY[1] * np.maximum(below - _UNLIKELY[0], 0.0)))


def _ends(rates: Array, seen: Array) -> Array:
    """Return how far terms that are not exact are followed: no term by more than a factor e."""
    further = _FOLLOWED / np.maximum(np.abs(rates).max(axis=0), 1e-300)
    further = np.minimum(further, _FOLLOWED)
    return np.array([seen.min(axis=0) - further, seen.max(axis=0) + further])


def _log(count: int) -> float:
    return math.log(count) if count else -math.inf
