"""How much each remembered pair counts for the current q."""

from __future__ import annotations

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.estimates import median
from scorevi.families import Mixture, Nested
from scorevi.solvers.base import Batch

_MOST_WEIGHT = 1.5
"""The largest log weight of a pair, where the weights are even."""
_EVEN = 0.75
"""The share of effective pairs from which on they are."""
_FEW = 1000
"""Weights of which several powers are tried at once."""
_WILD = 5.0
"""How long the mismatch of a draw is at most, over that of the middle one."""


def weights(z: Array, log_q_then: Array, log_det: float, needed: float) -> Array:
    """Return q_now/q_then of each pair, tempered to an effective sample size.

    As long as these differ much, on the way, none is more than 1. But such weights favour the
    middle of q: by two per cent of its variances on a q that moves slowly, which in many dimensions
    outweighs all else. So once they are even they are taken as they are.

    Parameters
    ----------
    z
        The pairs in whitened coordinates, (n, D).
    log_q_then
        The log density under the q that each was drawn from, (n,), without (D/2) log 2π.
    log_det
        log|det L| of the current q.
    needed
        The effective sample size to keep: the powers of the weights are lowered until it is met.
    """
    ratio = -0.5 * np.vecdot(z, z) - log_det - log_q_then
    log_weights = np.minimum(_MOST_WEIGHT, ratio)
    if effective_size(log_weights) < _EVEN * len(z):
        log_weights = np.minimum(0.0, ratio)
    log_weights = log_weights * largest_power(log_weights, min(needed, 0.999 * len(z)))
    return np.asarray(np.exp(log_weights - log_weights.max()), dtype=np.float64)


def largest_power(log_weights: Array, needed: float) -> float:
    """Return the largest power, at most 1, at which the effective sample size is met."""
    if effective_size(log_weights) >= needed:
        return 1.0
    return largest_share(np.zeros_like(log_weights), log_weights, needed)


def largest_share(even: Array, log_weights: Array, needed: float, bits: int = 20) -> float:
    """Return how far to go from even log weights to others, with the effective size still met.

    To so many bits, of which four are asked for at once where there are few weights.
    """
    each = 4 if len(even) <= _FEW else 1
    steps = np.arange(1.0, 2.0**each)
    low, width = 0.0, 1.0
    for _ in range(0, bits, each):
        width *= 0.5**each
        tried = even + (low + width * steps)[:, None] * (log_weights - even)
        weight = np.exp(tried - tried.max(axis=1, keepdims=True))
        failed = weight.sum(axis=1) ** 2 < needed * np.vecdot(weight, weight)
        low += width * (int(np.argmax(failed)) if failed.any() else len(steps))
    return low


def effective_size(log_weights: Array) -> float:
    """Return the number of even weights that are worth as much."""
    weight = np.exp(log_weights - log_weights.max())
    return float(weight.sum() ** 2 / (weight @ weight))


def judged(q: Mixture | Nested, batch: Batch) -> tuple[float, float]:
    """Return the ELBO and the Fisher residual of q by a batch that was drawn from wider than q.

    Deep in a neck scores are as large as it is narrow, and a few draws there would decide alone:
    no draw counts for more than 25 of the middle one.
    """
    log_q, score = q.with_score(np.asarray(batch.theta))
    mismatch = np.asarray(q.coordinates.whiten_score(np.asarray(batch.score) - score))
    square = np.vecdot(mismatch, mismatch)
    longest = _WILD**2 * median(square)
    mismatch *= np.sqrt(longest / np.maximum(square, max(longest, 1e-300)))[:, None]
    log_ratio = np.asarray(batch.log_density) - log_q
    return averaged(log_q - batch.log_q, log_ratio, mismatch)


def averaged(log_weight: Array, log_ratio: Array, mismatch: Array) -> tuple[float, float]:
    """Return the weighted means of log p − log q and of the squares of whitened mismatches."""
    weight = np.exp(log_weight - log_weight.max())
    weight /= weight.sum()
    fisher = float(weight @ np.vecdot(mismatch, mismatch)) / mismatch.shape[1]
    return float(weight @ log_ratio), fisher
