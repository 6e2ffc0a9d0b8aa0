r"""Nested score matching: a mixture over the scales of a hierarchy, a Gaussian given them.

Where scores say that a posterior is Gaussian given a few of its parameters
(:mod:`scorevi.solvers.scales`), these are given a mixture of their own
(:mod:`scorevi.solvers.overall`), and everything else a Gaussian whose precision is a sum of powers
of them (:mod:`scorevi.families.given`). A step regresses the scores of all pairs once more, and
weighs all draws once more; draws come from q and, a quarter of them, from wider than q along the
scales, so that what q lacks is seen.

A step takes O(n·(J·D)²) for n pairs and J terms, and O(D³) for each draw of its batch.
"""

from __future__ import annotations

import dataclasses
import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.threads import one_thread
from scorevi.families import Mixture, Nested, is_sound
from scorevi.families.gaussian import HALF_LOG_2PI
from scorevi.solvers.base import Batch
from scorevi.solvers.overall import farthest, importance, mixture_of, wider
from scorevi.solvers.powers import chosen
from scorevi.solvers.replay import ReplayState
from scorevi.solvers.scales import MOST_SCALES, Structure, structure
from scorevi.solvers.terms import EXACT, believed, evened, parameters, regressed, unexplained
from scorevi.solvers.weights import weights

_EXPLAINED = 0.6
"""The part of what is not Gaussian that must be explained."""
_TEMPERED = 0.25
"""The power of weights of pairs in regressions: those at the ends count too."""
_FOLLOWED = 1.0
"""By how much the exponent of a term may go beyond what was seen, where terms are not exact."""
_POOR = 0.3
"""What terms may leave, over what a line leaves, where a mixture does no better."""
_EFFECTIVE = 600.0
"""Effective draws of the scales at which they are known: to 0.04 standard deviations."""
_LONGEST, _LONGEST_PER_DIMENSION = 1500, 15
_NOT_MUCH, _HOPEFUL = 0.05, 0.7
"""What terms may leave, and the part of the effective draws that must be in sight, to go on."""
_OFTEN, _SEARCHED = (1.6, 1.25), 1.5
"""By how much the memory grows until terms are chosen anew, where they leave little and where they
do not; and draws, over the pairs before them, up to which further scales are looked for."""
_FEWER = 0.3
"""What further scales must leave at most, of what is left without them, to begin again."""
_MEMORY = 4096
_ROUGHLY = 128
"""Points by which moments are taken on the way."""
_FARTHEST = 5.0
"""Standard deviations of q(t), over √d, from which on a draw is not believed yet."""
_CORRECTED = 3.0
"""Nats by which the density of scales may be more than draws of y say: where scores say so."""
_AGAIN, _SETTLED = 1.35, 0.05
"""By how much the draws grow between two looks at the scales, and by how little means and sds may
have changed from one to the next, in sds."""
_OUTSIDE = 0.003
"""What the farthest draws may weigh together, along each axis and to each side."""
_UNLIKELY = 10.0, 0.1
"""Nats below the best from which on a pair counts less, and by how much for each."""
_FEWEST, _GROWING = 48, 0.2
"""The size of a batch: at least, and over all draws before it."""
_NEEDED = 4.0
"""Effective pairs, over D + 1, by which scales are looked for."""
_NEGLIGIBLE = 1e-3


class NestingInfo(NamedTuple):
    """What a step found."""

    effective: float
    """Effective draws of the scales."""
    elbo: float
    """Of q, by the batch."""
    fisher: float


class NestingState(NamedTuple):
    """A nested approximation, and all pairs, whitened by its base."""

    q: Nested
    proposal: Nested
    replay: ReplayState
    """What came before, to go back to."""
    z: Array
    h: Array
    log_p: Array
    """Of the draws of this stage, the last of the pairs."""
    log_given: Array
    """log q(y | t) of what their y were drawn from."""
    more: Array
    """By how many nats that is too little, as their scores say."""
    stages: tuple[Mixture, ...]
    """What their t were drawn from."""
    mixed: Array
    """The density of t at all pairs, summed over all draws of all stages: its logarithm."""
    counts: Array
    left: float
    """What the terms leave of the scores, over what a line leaves, of pairs held out."""
    looked: int
    """Pairs when terms were last chosen."""
    settled: Array
    """Draws when it was last asked whether the scales have settled, their means and sds then."""
    batch_size: int
    ending: str = ""
    cut: bool = False
    is_enough: bool = True

    @property
    def is_poor(self) -> bool:
        """Whether it has ended, and is not what it should be."""
        return bool(self.ending) and (self.cut or self.left > _POOR)


def nested(state: ReplayState) -> NestingState | None:
    """Go on from one Gaussian, where scores say that there are scales; None where they do not."""
    base, dim = state.q, state.q.dim
    weight = weights(state.z, state.log_q_then, base.log_det, _NEEDED * (dim + 1))
    near = weight > _NEGLIGIBLE
    with one_thread(dim):
        found = structure(base, state.z[near], state.h[near], weight[near])
    if found is None or found.explains < _EXPLAINED:
        return None
    return _begun(state, found, state.z, state.h)


def _begun(state: ReplayState, found: Structure, z: Array, h: Array) -> NestingState:
    """Begin with scales that were found, and all pairs there are."""
    base, over = state.q, Mixture.standard(len(found.scales))
    q = Nested(base, found.turn, over, found.given, found.scales, _ROUGHLY)
    nothing = np.empty(0)
    begun = NestingState(
        q=q,
        proposal=q,
        replay=state,
        z=z,
        h=h,
        log_p=nothing,
        log_given=nothing,
        more=nothing,
        stages=(),
        mixed=nothing,
        counts=nothing,
        left=found.left / found.before,
        looked=len(z),
        settled=nothing,
        batch_size=0,
    )
    return _afresh(begun)


def _afresh(state: NestingState) -> NestingState:
    """Forget what draws said of the scales, as long as little was known of all else given them."""
    nothing, over = np.empty(0), state.q.over
    return state._replace(
        log_p=nothing,
        log_given=nothing,
        more=nothing,
        stages=(),
        mixed=np.full(len(state.z), -np.inf),
        counts=nothing,
        settled=np.concatenate([[0.0], over.mean, over.sd]),
        batch_size=_batch_size(state.q.dim, 0),
    )


def step(state: NestingState, batch: Batch) -> tuple[NestingState, NestingInfo]:
    """Remember the batch, and find scales and terms anew from all there is."""
    with one_thread(state.q.dim):
        return _step(state, batch)


def _step(state: NestingState, batch: Batch) -> tuple[NestingState, NestingInfo]:
    q = state.q
    base, number, dim = q.base, q.over.dim, q.dim
    theta = np.asarray(batch.theta)
    log_given = np.asarray(batch.log_q) + base.log_det
    log_given -= state.proposal.over.log_density(q.split(theta).t)
    state = state._replace(
        z=np.concatenate([state.z, base.whiten(theta)])[-_MEMORY:],
        h=np.concatenate([state.h, np.asarray(base.whiten_score(batch.score))])[-_MEMORY:],
        log_p=np.concatenate([state.log_p, np.asarray(batch.log_density) + base.log_det]),
        log_given=np.concatenate([state.log_given, log_given]),
        stages=(*state.stages, state.proposal.over),
        counts=np.append(state.counts, len(theta)),
    )
    z, h = state.z @ q.turn, state.h @ q.turn
    scales, others, scores = z[:, :number], z[:, number:], h[:, number:]
    drawn = int(state.counts.sum())
    mixed = _mixed(state, scales, len(theta))
    before = len(z) - min(drawn, len(z))
    # As if t were drawn from q: what lies far outside would decide over all else.
    log_then = np.logaddexp(
        mixed, _log(before) - 0.5 * np.vecdot(scales, scales) - number * HALF_LOG_2PI
    )
    log_then -= math.log(len(z))
    sane = believed(q.given, scales, others, scores)
    weight = evened(q.given, scales)
    weight *= np.exp(_TEMPERED * np.minimum(0.0, q.over.log_density(scales) - log_then))
    weight[-drawn:] *= _likely(state.log_p - state.log_given)[-len(weight) :]
    weight = weight[sane]
    pairs = scales[sane], others[sane], scores[sane], weight
    rates, looked = q.given.rates, state.looked
    left = state.left
    is_much = left > _NOT_MUCH
    if left > EXACT and len(z) >= _OFTEN[is_much] * looked:
        if number < MOST_SCALES and drawn <= _SEARCHED * len(state.replay.z):
            found = structure(base, state.z[sane], state.h[sane], weight)
            if found is not None and _is_further(found, q.scales, left):
                begun = _begun(state.replay, found, state.z, state.h)
                return begun, _info(q, batch, 0.0)
        units = base.factor[list(q.scales)] @ q.turn[:, :number]
        other, looked = chosen(*pairs, units)[0], len(z)
        lefts = unexplained(rates, *pairs), unexplained(other, *pairs)
        rates, left = (rates, lefts[0]) if lefts[0] <= lefts[1] else (other, lefts[1])
    given = q.given
    if left > EXACT or looked > state.looked:
        given = regressed(rates, *pairs, parameters(base, q.turn, q.scales))
    if left > EXACT:
        given = dataclasses.replace(given, ends=_ends(rates, pairs[0]))
    recent = scales[-drawn:]
    last = slice(-len(recent), None)
    # Where the mean is far off, what draws say of a scale is too little, as a rule.
    new = slice(-len(theta), None)
    off = given.misplaced(scales[new], others[new], scores[new])
    more = np.append(state.more, np.clip(off - _CORRECTED, 0.0, _CORRECTED))
    log_t = state.log_p[last] - state.log_given[last] + more[last]
    away = np.asarray(q.over.coordinates.distance(recent))
    log_t[~sane[last] | (away > _FARTHEST * math.sqrt(number))] = -np.inf
    log_ratio = log_t - mixed[last]
    counted = importance(log_ratio)
    effective = 1.0 / float(counted @ counted)
    now = dataclasses.replace(q, over=mixture_of(recent, counted), given=given)
    info = _info(state.q, batch, effective)
    if not is_sound(now, q.log_volume):
        now = q
    following = state._replace(
        q=now,
        more=more,
        mixed=mixed,
        left=left,
        proposal=dataclasses.replace(now, over=wider(now.over, recent, counted)),
        looked=looked,
        batch_size=_batch_size(dim, drawn),
    )
    if left < _FEWER * state.left:
        return _afresh(following), info
    is_settled = False
    if drawn >= _AGAIN * state.settled[0]:
        then = state.settled[1:].reshape(2, number)
        over = now.over
        moved = np.abs(over.mean - then[0]) / over.sd
        is_settled = max(moved.max(), np.abs(np.log(over.sd / then[1])).max()) < _SETTLED
        is_known = more[last] == 0.0
        is_settled &= farthest(recent[is_known], counted[is_known]) < _OUTSIDE
        following = following._replace(settled=np.concatenate([[drawn], over.mean, over.sd]))
    longest = _LONGEST + _LONGEST_PER_DIMENSION * dim
    is_hopeless = left > _NOT_MUCH and effective * longest < _HOPEFUL * _EFFECTIVE * drawn
    is_long = drawn >= longest * (0.4 if is_hopeless else 1.0)
    if is_long or (is_settled and effective >= _EFFECTIVE):
        following = following._replace(
            ending=f"Gaussian given {number} scales, with {effective:.0f} effective draws of them",
            cut=effective < _EFFECTIVE,
        )
    return following, info


def _batch_size(dim: int, drawn: int) -> int:
    """Return how many to draw: few as long as each batch shows where the next should be."""
    return max(_FEWEST, dim // 2, round(_GROWING * drawn))


def _is_further(found: Structure, scales: tuple[int, ...], left: float) -> bool:
    """Return whether there are scales that were not known, and much is explained by them."""
    return set(found.scales) != set(scales) and found.left < _FEWER * left * found.before


def _likely(log_t: Array) -> Array:
    """Return how much pairs count by how likely their scales seem: wild draws count nothing."""
    below = np.nanmax(log_t) - log_t
    return np.asarray(np.exp(-_UNLIKELY[1] * np.maximum(below - _UNLIKELY[0], 0.0)))


def _ends(rates: Array, seen: Array) -> Array:
    """Return how far terms that are not exact are followed: no term by more than a factor e."""
    further = _FOLLOWED / np.maximum(np.abs(rates).max(axis=0), 1e-300)
    further = np.minimum(further, _FOLLOWED)
    return np.array([seen.min(axis=0) - further, seen.max(axis=0) + further])


def _mixed(state: NestingState, t: Array, new: int) -> Array:
    """Add the last stage at all pairs, and all stages at the new ones."""
    old = state.mixed[-(len(t) - new) :] if len(t) > new else np.empty(0)
    logs = [math.log(count) for count in state.counts]
    at_old = logs[-1] + state.stages[-1].log_density(t[:-new])
    at_new = [
        log + stage.log_density(t[-new:]) for log, stage in zip(logs, state.stages, strict=True)
    ]
    return np.append(np.logaddexp(old, at_old), np.logaddexp.reduce(np.array(at_new), axis=0))


def _log(count: int) -> float:
    return math.log(count) if count else -math.inf


def _info(q: Nested, batch: Batch, effective: float) -> NestingInfo:
    """Judge q by draws of what it was drawn by."""
    theta = np.asarray(batch.theta)
    log_q, score = q.with_score(theta)
    weight = np.exp(np.minimum(0.0, log_q - batch.log_q))
    weight /= weight.sum()
    mismatch = np.asarray(q.coordinates.whiten_score(np.asarray(batch.score) - score))
    fisher = float(weight @ np.vecdot(mismatch, mismatch)) / q.dim
    return NestingInfo(effective, float(weight @ (np.asarray(batch.log_density) - log_q)), fisher)
