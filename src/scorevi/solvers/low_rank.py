r"""Replay in many dimensions: a diagonal and a few directions from remembered pairs.

Draws come in opposite pairs μ ± δ (:mod:`scorevi.families.mirrored`). Of the scores of a pair

- the half difference, :math:`-A\delta` on a Gaussian target of precision A wherever μ is, goes into
  the memory; by Stein's identity such rows tell of :math:`A = -E_q[\nabla^2 \log p]` whatever the
  target is. All that are remembered say which diagonal and directions A has
  (:mod:`scorevi.solvers.decompose`), and q takes as many as it may have: those without which the
  ELBO would lose most, :math:`\tfrac12(v - 1 - \log v)` for a precision v times what the diagonal
  says. What the others add to the diagonal of A is added to that of q;
- the mean is :math:`E_q[\nabla \log p]` without any noise from what is linear in the score. With
  all directions found it makes Newton's step for the mean.

Where the mean should be is averaged over all batches, each as far as it agrees with the rest beyond
its noise: the steps anneal by themselves, and there is no learning rate. Both steps are bounded
where the scores are bent, which the even part of a pair tells next to the odd one.

A target of the family is found exactly by about 6(K + 2) gradients, in any number of dimensions. A
step is O(n·D·(n + K)) for n remembered pairs, and takes O(n·D) of memory. The relatives are batch
and match with a patch step (arXiv 2410.22292), which projects a batch-and-match update onto the
same family by EM, and forgets; and for K = 0 stochastic linear regression (Salimans and Knowles
2013).
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array, as_count
from scorevi.base.threads import one_thread
from scorevi.families import LowRank
from scorevi.families.mirrored import Mirrored
from scorevi.solvers.aim import Aim
from scorevi.solvers.base import Batch
from scorevi.solvers.decompose import decompose
from scorevi.solvers.opposites import opposites
from scorevi.solvers.region import Region
from scorevi.solvers.structure import Past, Structure, of_rank

RANK = 16
"""Directions, where the user does not say how many."""
_SIZES = (8, 64)
"""Gradients of the first batches, and at most."""
_BESIDE = 8
"""Directions that are looked for, at least and over half of those that q may have."""
_ROWS = 3
"""Pairs for each direction that is looked for."""
_LINEAR = 1e-9
"""An even part next to the odd one, which is rounding."""
_NUMBERS, _MOST_PAIRS = 1 << 22, 512
"""What the memory may hold, pairs times dimensions; and pairs in any case."""
_RECENT = 4
"""Pairs next to those that agree on the mean: others were seen from where q is no more."""
_CHEAP = 1 << 17
"""Numbers in the rows, for which two places to begin are no matter."""
_SETTLED = 1e-3
"""A relative change of the diagonal after which no other pass is made, where noise is larger."""
_EXPLAINED = 1e-6
"""What may be left of the scores, relative, for the directions of q to be all there are."""


class LowRankState(NamedTuple):
    """The current approximation, and what is remembered."""

    q: LowRank
    offsets: Array
    """δ of each pair, (n, D)."""
    changes: Array
    """A δ, minus half the difference of their scores, (n, D)."""
    past: Past
    """What pairs that are gone said of the diagonal, in the units of theta."""
    aim: Aim
    """Where the mean should be, by all batches together."""
    shift: Array
    """The last step of the mean, (D,)."""
    stride: Array
    """By how much each coordinate may go further than scores that bend allow, (D,)."""
    total: int
    """Pairs of all batches."""
    batch_size: int
    """How many draws the next step wants."""

    @property
    def proposal(self) -> Mirrored:
        """What the next batch is drawn from."""
        return Mirrored(self.q)


class LowRankInfo(NamedTuple):
    """What a step found."""

    pairs: int
    """Pairs in the memory."""
    directions: int
    """Directions that stand out from noise; q may have fewer."""
    bent: float
    """The even part of the scores next to the odd one: zero on a Gaussian target."""
    trust: float
    """The share of this batch in where the mean should be."""


@dataclass(frozen=True)
class LowRankReplay:
    """Replay for a Gaussian with a diagonal and a few directions. No learning rate.

    Parameters
    ----------
    rank
        The most directions, K; 0 for a diagonal covariance.
    batch_size
        Draws a step; 8 at first and up to 64 later if left out.

    Examples
    --------
    Two thousand dimensions, exactly, from a few dozen gradients:

    >>> import numpy as np, scorevi
    >>> rng = np.random.default_rng(0)
    >>> p = scorevi.LowRank.from_factors(
    ...     rng.normal(size=2000), rng.uniform(0.1, 10, 2000), rng.normal(size=(2000, 3)))
    >>> fit = scorevi.fit(p, solver=scorevi.LowRankReplay(rank=3), max_gradients=64)
    >>> fit.q.kl(p) < 1e-6
    True
    """

    rank: int = RANK
    batch_size: int | None = None
    name = "low-rank"
    family = LowRank
    compilable = False

    def __post_init__(self) -> None:
        object.__setattr__(self, "rank", as_count("rank", self.rank, least=0))
        if self.batch_size is not None:
            size = as_count("batch_size", self.batch_size, optional=True)
            object.__setattr__(self, "batch_size", size)

    def batch_size_for(self, dim: int) -> int:
        """Return the size of the first batches, in any number of dimensions."""
        del dim
        return self.batch_size or _SIZES[0]

    def pairs_to_determine(self, dim: int) -> int:
        """Return how many pairs determine a target of the family."""
        return min(dim, self.rank) + 1

    def pairs_to_tell(self) -> int:
        """Return how many pairs there must be for all directions to be looked for."""
        return _ROWS * _looked_for(self.rank)

    def most_pairs(self, dim: int) -> int:
        """Return how many pairs the memory may hold."""
        return _kept(dim, self.rank, 2 * _MOST_PAIRS, 0.0)

    def init(self, q: LowRank) -> LowRankState:
        """Start from q with an empty memory."""
        rows, nothing = np.empty((0, q.dim)), np.zeros(q.dim)
        past, aim, size = Past(nothing, nothing), Aim.nowhere(q), self.batch_size_for(q.dim)
        return LowRankState(q, rows, rows, past, aim, nothing, np.ones(q.dim), 0, size)

    def step(self, state: LowRankState, batch: Batch) -> tuple[LowRankState, LowRankInfo]:
        """Remember the batch, and move q to where all pairs together say."""
        with one_thread():
            return self._step(state, batch)

    def _step(self, state: LowRankState, batch: Batch) -> tuple[LowRankState, LowRankInfo]:
        q = state.q
        offset, odd, even = opposites(batch)
        total = state.total + len(offset)
        bent = _bent(q, odd, even)
        offsets = np.concatenate([state.offsets, offset])
        changes = np.concatenate([state.changes, -odd])
        past = state.past
        if bent > _LINEAR:
            # What was seen from elsewhere counts for less and less.
            recent = max(len(offset), min(total, _RECENT * state.aim.steady))
            past = Past(*(sums * (1.0 - len(offset) / recent) for sums in past))
        square = q.scale**2
        x, y = _in_units(q, offsets, changes)
        found = _found(
            self.rank,
            x,
            y,
            Past(past.products, past.squares / square),
            is_linear=bent <= _LINEAR,
            is_near=state.total > 0,
        )
        if _is_right(q, offset, odd):
            # Few pairs may not tell as much as q knows.
            found = found._replace(
                diagonal=np.ones(q.dim),
                directions=q.directions,
                values=q.widths**-2.0,
                unexplained=np.zeros(q.dim),
            )
        region = Region.of(found, q, odd, even)
        within = region.bounded(found, q)
        # A shift by less precision than there is would go too far.
        aim, trust = state.aim.after(q, region.not_wider(found, q), even, total)
        shift, stride = region.shortened(aim.place - q.mean, q, state.shift, state.stride)
        recent = min(total, int(_RECENT * aim.steady))
        gone = max(0, len(offsets) - _kept(q.dim, self.rank, recent, bent))
        share = gone / len(offsets)
        new = LowRankState(
            q=of_rank(within, self.rank, q.mean + shift, q.scale),
            offsets=offsets[gone:],
            changes=changes[gone:],
            past=Past(
                past.products + share * found.own.products,
                past.squares + share * np.maximum(found.own.squares, 0.0) * square,
            ),
            aim=aim,
            shift=shift,
            stride=stride,
            total=total,
            batch_size=self.batch_size or _next_size(total),
        )
        return new, LowRankInfo(len(new.offsets), len(within.values), bent, trust)


def _in_units(q: LowRank, offsets: Array, changes: Array) -> tuple[Array, Array]:
    """Return rows δ and A δ in units of q's diagonal.

    What was seen from far outside of q, when that was too wide, counts as from its edge.
    """
    x, y = offsets / q.scale, changes * q.scale
    squares = np.vecdot(x, x) + (x @ q.directions) ** 2 @ (q.widths**-2.0 - 1.0)
    if (far := squares > q.dim).any():
        size = np.sqrt(q.dim / squares[far])[:, None]
        x[far] *= size
        y[far] *= size
    return x, y


def _found(
    rank: int, x: Array, y: Array, past: Past, *, is_linear: bool, is_near: bool
) -> Structure:
    """Look for the directions of q alone, where they may explain all; else for more."""
    count, dim = x.shape
    guess = np.ones(dim)
    enough = count // _ROWS
    most = min(_looked_for(rank), enough, dim // 2)
    if dim <= _looked_for(rank) and count >= dim + 2:
        most = dim
    few = min(rank, enough)
    if is_linear and few < most:
        # The diagonal of q, which had to do without some directions, may not be where to begin.
        for from_q in (True, False) if is_near and count * dim < _CHEAP else (is_near,):
            found = decompose(x, y, few, guess, past, is_near=from_q)
            if math.sqrt(float(np.mean(found.unexplained**2))) < _EXPLAINED:
                return found
    return decompose(x, y, most, guess, past, is_near=is_near, settled=_SETTLED)


def _is_right(q: LowRank, offset: Array, odd: Array) -> bool:
    """Whether q explains scores that it has not seen to rounding."""
    mismatch = np.asarray(q.whiten_score(odd)) + (z := q.whitened(offset))
    return float(np.linalg.norm(mismatch)) <= _EXPLAINED * float(np.linalg.norm(z))


def _bent(q: LowRank, odd: Array, even: Array) -> float:
    """Return the root mean square of the even part of the scores next to the odd one's."""
    if len(even) < 2:
        return 1.0
    one, two = (np.asarray(q.whiten_score(rows)) for rows in (even - even.mean(axis=0), odd))
    ratio = float(np.vdot(one, one)) / max(float(np.vdot(two, two)), 1e-300)
    return math.sqrt(ratio * len(even) / (len(even) - 1.0))


def _looked_for(rank: int) -> int:
    return 2 * max(rank, _BESIDE)


def _kept(dim: int, rank: int, recent: int, bent: float) -> int:
    """Return how many pairs are kept: the later half, where what is seen depends on where from.

    Of all pairs, or of those since when the mean has moved, ``recent``.
    """
    least = 2 * _looked_for(rank) + _BESIDE
    most = max(least, min(_MOST_PAIRS, _NUMBERS // dim))
    return most if bent <= _LINEAR else max(least, min(most, recent // 2))


def _next_size(total: int) -> int:
    """Return the size of the next batch, by the pairs so far: few sizes, each a power of two."""
    size = _SIZES[0]
    while size < min(_SIZES[1], total // 4):
        size *= 2
    return size
