"""What nested score matching remembers: see :mod:`scorevi.solvers.nesting`."""

from __future__ import annotations

import math
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Mixture, Nested
from scorevi.solvers.base import Batch
from scorevi.solvers.replay import ReplayState
from scorevi.solvers.scales import Structure
from scorevi.solvers.weights import weights

_POOR = 0.3
"""What terms may leave, over what a line leaves, where a mixture does no better."""
_MEMORY = 4096
_ROUGHLY, VERY_ROUGHLY = 64, 16
"""Points by which moments are taken on the way: of q, and of what is only drawn from."""
_NEEDED, _NEGLIGIBLE = 4.0, 1e-3
"""Effective pairs, over D + 1, by which scales are looked for; the weight of one that counts."""
_FEWEST, _GROWING = 72, 0.3
"""The size of a batch: at least, and over all draws before it."""


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
    off: Array
    """By how many nats that is too little, as their scores say."""
    widths: Array
    """The largest standard deviation of y given their scales."""
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
    fisher: float
    """The Fisher residual of one Gaussian."""
    elbo: float
    """Its ELBO; minus infinity where that is not known."""
    ending: str = ""
    cut: bool = False
    is_enough: bool = True

    @property
    def is_poor(self) -> bool:
        """Whether it has ended, and is not what it should be."""
        return bool(self.ending) and (self.cut or self.left > _POOR)


def begun(state: ReplayState, found: Structure, z: Array, h: Array, elbo: float) -> NestingState:
    """Begin with scales that were found, and all pairs there are."""
    base, over = state.q, Mixture.standard(len(found.scales))
    q = Nested(base, found.turn, over, found.given, found.scales, _ROUGHLY)
    nothing = np.empty(0)
    new = NestingState(
        q=q,
        proposal=q,
        replay=state,
        z=z,
        h=h,
        log_p=nothing,
        log_given=nothing,
        off=nothing,
        widths=nothing,
        stages=(),
        mixed=nothing,
        counts=nothing,
        left=found.left / found.before,
        looked=len(z),
        settled=nothing,
        batch_size=0,
        fisher=_fisher(*near(state)),
        elbo=elbo,
    )
    return afresh(new)


def _fisher(z: Array, h: Array, weight: Array) -> float:
    square = np.vecdot(h + z, h + z)
    return float(weight @ square) / float(weight.sum() * z.shape[1])


def afresh(state: NestingState) -> NestingState:
    """Forget what draws said of the scales, as long as little was known of all else given them."""
    nothing, over = np.empty(0), state.q.over
    return state._replace(
        log_p=nothing,
        log_given=nothing,
        off=nothing,
        widths=nothing,
        stages=(),
        mixed=np.full(len(state.z), -np.inf),
        counts=nothing,
        settled=np.concatenate([[0.0], over.mean, over.sd]),
        batch_size=batch_size(state.q.dim, 0),
    )


class Near(NamedTuple):
    """Pairs that count for a Gaussian, and how much."""

    z: Array
    h: Array
    weight: Array


def near(state: ReplayState) -> Near:
    """Return the pairs that tell whether there is more than one Gaussian."""
    base = state.q
    weight = weights(state.z, state.log_q_then, base.log_det, _NEEDED * (base.dim + 1))
    counts = weight > _NEGLIGIBLE
    return Near(state.z[counts], state.h[counts], weight[counts])


class Split(NamedTuple):
    """Pairs in the coordinates of q."""

    scales: Array
    others: Array
    scores: Array
    """Of the others."""


def split(state: NestingState, rows: slice = slice(None)) -> Split:
    """Return pairs in the coordinates of q."""
    z, h = state.z[rows] @ state.q.turn, state.h[rows] @ state.q.turn
    number = state.q.over.dim
    return Split(z[:, :number], z[:, number:], h[:, number:])


def remembering(state: NestingState, batch: Batch) -> NestingState:
    """Take in a batch."""
    base, theta = state.q.base, np.asarray(batch.theta)
    log_given = np.asarray(batch.log_q) + base.log_det
    log_given -= state.proposal.over.log_density(state.q.split(theta).t)
    state = state._replace(
        z=np.concatenate([state.z, base.whiten(theta)])[-_MEMORY:],
        h=np.concatenate([state.h, np.asarray(base.whiten_score(batch.score))])[-_MEMORY:],
        log_p=np.concatenate([state.log_p, np.asarray(batch.log_density) + base.log_det]),
        log_given=np.concatenate([state.log_given, log_given]),
        stages=(*state.stages, state.proposal.over),
        counts=np.append(state.counts, len(theta)),
    )
    return state._replace(mixed=_mixed(state, split(state).scales, len(theta)))


def batch_size(dim: int, drawn: int) -> int:
    """Return how many to draw: few as long as each batch shows where the next should be."""
    return max(_FEWEST, dim // 2, round(_GROWING * drawn))


def _mixed(state: NestingState, t: Array, new: int) -> Array:
    """Add the last stage at all pairs, and all stages at the new ones."""
    old = state.mixed[-(len(t) - new) :] if len(t) > new else np.empty(0)
    logs = [math.log(count) for count in state.counts]
    at_old = logs[-1] + state.stages[-1].log_density(t[:-new])
    at_new = [
        log + stage.log_density(t[-new:]) for log, stage in zip(logs, state.stages, strict=True)
    ]
    return np.append(np.logaddexp(old, at_old), np.logaddexp.reduce(np.array(at_new), axis=0))
