r"""Replay: score matching that throws nothing away.

GSM and BaM forget a pair (θ, ∇ log p(θ)) after one step. But a pair is a fact about the target for
ever, and on a Gaussian target D + 1 of them determine p. So this solver keeps them, expressed in
the whitened coordinates of the current q, and asks after every batch what all of them say.

1. *While pairs are few* (fewer than D + 2, or not spanning the space), one batch-and-match step
   over all of them with equal weights and a weak prior (arXiv 2402.14758, λ = 10³), its
   eigenvalues and shift bounded.
2. *Then*, the regression of :mod:`scorevi.solvers.memory`. With a and M from it, each as far as it
   stands out from its noise, the precision moves from I to I − M and the mean by (I − M)⁻¹a,
   within a trust region. As the coefficients sink into their noise the steps anneal by themselves:
   there is no learning rate. The region is small where the score is bent, a quarter of a variance
   and a third of a standard deviation, and as much wider as it is straighter along the same
   direction: what is linear may be extrapolated. A direction that this holds back is asked by
   itself, whether what is bent elsewhere goes with it at all. Along a curved valley
   (:mod:`scorevi.base.valley`) mean and covariance take one step together.
3. Where all pairs fit a linear score to rounding, the target is Gaussian as far as anyone can tell,
   and the step is taken whole: q is then p, after D + 2 gradients.

Batches grow: they double the memory while pairs are few, and are a twelfth to an eighth of it
after. The memory is bounded: at most max(512, 4(D + 1)) pairs, the oldest go first. A step
costs O(n·D²), and up to D = 128, where the quadratic part is taken out, O(n³) or O(n·D⁴), whichever
is less.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np
from scipy.linalg import blas

from scorevi.base.arrays import Array, as_count
from scorevi.base.linalg import backward, eigh
from scorevi.base.pairs import Pair
from scorevi.families import Gaussian
from scorevi.families.gaussian import HALF_LOG_2PI
from scorevi.solvers.bam import match
from scorevi.solvers.base import Batch
from scorevi.solvers.memory import LARGE, Evidence, regress
from scorevi.solvers.trust_region import small_step, trusted_step
from scorevi.solvers.weights import weights

_PRIOR = 1e3
_EAGER_EIGENVALUES = (1 / 16, 1.5)
_EAGER_SHIFT = 0.5
_FEWEST, _SHARE, _SHARE_WHEN_FULL = 4, 12, 8
"""Draws of a batch once a line is determined: at least, and the memory over their number."""
_NEGLIGIBLE = 1e-6
_RESOLVED = 1e-10


class ReplayState(NamedTuple):
    """The current approximation and the pairs, in its whitened coordinates."""

    q: Gaussian
    z: Array
    """(n, D)."""
    h: Array
    """(n, D)."""
    log_q_then: Array
    """Log density of each draw under the q it came from, without (D/2) log 2π, (n,)."""
    batch_size: int
    """How many draws the next step wants."""


class ReplayInfo(NamedTuple):
    """What a step found."""

    pairs: int
    """Pairs in the memory."""
    trust: float
    """β; NaN while the pairs are few."""
    linear: bool
    """Whether all pairs fit a linear score to rounding: the target is Gaussian."""


@dataclass(frozen=True)
class Replay:
    """The solver that remembers. No learning rate, nothing to tune.

    Parameters
    ----------
    batch_size
        Draws in the first step; max(2, D/8) if left out. It grows with the memory.

    Examples
    --------
    A Gaussian in ten dimensions, exactly, from twelve gradients:

    >>> import scorevi
    >>> p = scorevi.examples.random_gaussian(10)
    >>> fit = scorevi.fit(p, solver="replay", max_gradients=12)
    >>> fit.q.kl(p) < 1e-10
    True
    """

    batch_size: int | None = None
    name = "replay"
    family = Gaussian
    compilable = False

    def __post_init__(self) -> None:
        if self.batch_size is not None:
            size = as_count("batch_size", self.batch_size, optional=True)
            object.__setattr__(self, "batch_size", size)

    def batch_size_for(self, dim: int) -> int:
        """Return the size of the first batches."""
        return self.batch_size or max(2, dim // 8)

    def init(self, q: Gaussian) -> ReplayState:
        """Start from q with an empty memory."""
        nothing = np.empty((0, q.dim))
        return ReplayState(q, nothing, nothing, np.empty(0), self.batch_size_for(q.dim))

    def remember(self, state: ReplayState, pairs: Sequence[Pair]) -> ReplayState:
        """Put pairs that were paid for elsewhere, such as by an optimiser, into the memory.

        Those that were not drawn from any q count as drawn from the top of this one, so that their
        weights fall off with their distance from it; those far outside are left out.
        """
        q = state.q
        theta = np.array([pair.theta for pair in pairs]).reshape(-1, q.dim)
        z = q.whiten(theta)
        h = q.whiten_score(np.array([pair.score for pair in pairs]).reshape(-1, q.dim))
        log_q = np.array([pair.log_q for pair in pairs]) + q.dim * HALF_LOG_2PI
        drawn = np.isfinite(log_q)
        kept = drawn | (np.vecdot(z, z) <= 9.0 * q.dim)
        return _with_pairs(state, z[kept], h[kept], np.where(drawn, log_q, -q.log_det)[kept])

    def step(self, state: ReplayState, batch: Batch) -> tuple[ReplayState, ReplayInfo]:
        """Remember the batch, and move q to where all pairs together say."""
        log_det = state.q.log_det
        log_q = -0.5 * np.vecdot(batch.z, batch.z) - log_det
        state = _with_pairs(state, batch.z, batch.whitened_score, log_q)
        count, dim = state.z.shape
        trust, linear = math.nan, False
        size = _next_size(self.batch_size_for(dim), count, dim)
        if count < dim + 2 <= count + size and size <= count // 8:
            # So few pairs are missing that moving first would not be worth its cost.
            return state._replace(batch_size=size), ReplayInfo(count, trust, linear)
        evidence = None
        if count >= dim + 2:
            weight = weights(state.z, state.log_q_then, log_det, 2.0 * (dim + 1))
            kept = weight > _NEGLIGIBLE
            evidence = regress(state.z[kept], state.h[kept], weight[kept])
        if evidence is None:
            return _moved(state, size, *_eager(state.z, state.h)), ReplayInfo(count, trust, linear)
        trust, linear = evidence.trust, evidence.linear
        info = ReplayInfo(count, trust, linear)
        if linear:
            size = self.batch_size_for(dim)  # little more need be seen
            return _moved(state, size, *_whole_step(evidence)), info
        small = small_step(evidence) if dim > LARGE else None
        if small is not None:
            return _moved_a_little(state, size, *small), info
        return _moved(state, size, *trusted_step(evidence)), info


def _whole_step(evidence: Evidence) -> tuple[Array, Array, Array]:
    """Go to the Gaussian target, except along directions too wide to be seen.

    Too wide beside the narrow ones; or, where the pairs hardly span the space, beside the rounding
    of the scores. Along those q goes as wide as it can be seen that the target is, and the next
    draws will tell.
    """
    precision, vectors = eigh(evidence.precision)
    largest = float(precision[-1])
    outwards = precision[0] < -max(1e-6 * largest, evidence.rounding)
    resolved = max(_RESOLVED * largest, evidence.rounding)
    if outwards or resolved <= 0.0:
        raise np.linalg.LinAlgError(
            "the score is linear and does not point inwards: the posterior is improper, or the "
            "score has the wrong sign"
        )
    seen = precision > resolved
    precision = np.where(seen, precision, resolved)
    shift = vectors @ (np.where(seen, vectors.T @ evidence.intercept, 0.0) / precision)
    return shift, 1.0 / precision, vectors


def _eager(z: Array, h: Array) -> tuple[Array, Array, Array]:
    """Take a bounded batch-and-match step; see :mod:`scorevi.solvers.bam` for the formulas.

    The pairs say nothing about directions outside their span, and where that is small the work
    is done within it.
    """
    count, dim = z.shape
    if 4 * count <= dim:
        basis = np.linalg.qr(np.concatenate([z, h]).T)[0]
        shift, values, vectors = _eager(z @ basis, h @ basis)
        return basis @ shift, values, basis @ vectors
    found = match(z, h, _PRIOR)
    # What rounding does to small eigenvalues is far below the bounds.
    values, vectors = eigh(found.root @ found.root.T)
    shift = _PRIOR / (1.0 + _PRIOR) * (found.of_mean_score + z.mean(axis=0))
    return _bounded(shift, _EAGER_SHIFT), np.clip(values, *_EAGER_EIGENVALUES), vectors


def _bounded(shift: Array, bound: float) -> Array:
    """Shorten a shift to ``bound`` times the typical distance of a draw from the mean, √D."""
    length = math.sqrt(float(shift @ shift))
    return shift * min(1.0, bound * math.sqrt(len(shift)) / max(length, 1e-300))


def _with_pairs(state: ReplayState, z: Array, h: Array, log_q_then: Array) -> ReplayState:
    most = _capacity(state.q.dim)
    return state._replace(
        z=np.concatenate([state.z, z])[-most:],
        h=np.concatenate([state.h, h])[-most:],
        log_q_then=np.concatenate([state.log_q_then, log_q_then])[-most:],
    )


def _capacity(dim: int) -> int:
    """Return how many pairs are kept."""
    return max(512, 4 * (dim + 1))


def _moved(
    state: ReplayState, size: int, shift: Array, values: Array, vectors: Array
) -> ReplayState:
    """Change coordinates to mean ``shift`` and the variances ``values`` along ``vectors``.

    Directions that are not among the vectors stay as they are.
    """
    scales = np.sqrt(values)
    log_det = float(np.log(scales).sum())
    z = state.z - shift
    if vectors.shape[1] < vectors.shape[0]:
        core = np.diag(scales - 1.0)
        images = state.q.image(vectors.T)
        q = state.q.moved_along(state.q.factor @ shift, vectors.T, images, core, log_det)
        z = z + ((z @ vectors) * (1.0 / scales - 1.0)) @ vectors.T
        h = state.h + ((state.h @ vectors) * (scales - 1.0)) @ vectors.T
    else:
        # The symmetric root: the same noise gives nearly the same draws after a small step.
        halves = (vectors * np.sqrt(scale) for scale in (scales, 1.0 / scales))
        root, inverse = (half @ half.T for half in halves)  # at half the cost of any product
        q = state.q.moved(shift, root, log_det)
        z, h = z @ inverse, state.h @ root
    return ReplayState(
        q=q,
        z=z,
        h=h,
        log_q_then=state.log_q_then,
        batch_size=size,
    )


def _moved_a_little(state: ReplayState, size: int, shift: Array, lower: Array) -> ReplayState:
    """Change coordinates to mean ``shift`` and a precision, given by its Cholesky factor."""
    q = state.q
    factor = np.asarray(backward(lower, q.factor.T)).T
    log_det = q.log_det - float(np.log(np.diag(lower)).sum())
    return ReplayState(
        q=Gaussian(q.mean + q.factor @ shift, factor, log_det),
        z=np.asarray(blas.dtrmm(1.0, lower, (state.z - shift).T, lower=1, trans_a=1)).T,
        h=np.asarray(backward(lower, state.h.T)).T,
        log_q_then=state.log_q_then,
        batch_size=size,
    )


def _next_size(first: int, count: int, dim: int) -> int:
    """Return the size of the next batch.

    While pairs are few the memory doubles, up to the D + 2 pairs that decide. Then a batch is a
    twelfth of it, and an eighth once it is full and every batch drives out another: the first size
    times a power of two, so that few sizes need be compiled for.
    """
    if count < dim + 2:
        return min(max(first, count), dim + 2 - count)
    size = max(first, _FEWEST)
    share = _SHARE_WHEN_FULL if count >= _capacity(dim) else _SHARE
    while 2 * size <= count // share:
        size *= 2
    return size
