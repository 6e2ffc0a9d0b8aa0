r"""What the last draws of a run say of the q that it ended with, at no extra cost.

The final q was never drawn from: the last batch came from the q before the last update. But a draw
θ of an earlier q' is worth :math:`q(\theta)/q'(\theta)` draws of q, so that the mean of
:math:`\log p - \log q` over the last draws, weighted so, estimates the ELBO of q itself, and the
same mean of :math:`|h + z|^2/D`, in the coordinates of q, its Fisher residual. Once a fit has
settled the weights are nearly even. Where p is Gaussian and q exact, both are exact whatever the
weights are.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Iterable
from typing import Any, NamedTuple, Protocol

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.pairs import Draws
from scorevi.families import Family

MOST = 200
"""Draws that are looked at."""
_NUMBERS, _LEAST = 1 << 22, 32
"""The most that is kept, as draws times dimensions, and draws in any case."""
_FEWEST = 8.0
"""The effective number of draws that makes an estimate."""
_CONSTANT = 1e-3
"""Nats by which log p − log q may vary for the ELBO to be known whatever the weights."""


class Quality(NamedTuple):
    """How good a q is. NaN where it is not known."""

    elbo: float = math.nan
    """E_q[log p − log q]; NaN also where the target has no log density."""
    elbo_error: float = math.nan
    """Its standard error."""
    fisher: float = math.nan
    """The Fisher residual |h + z|²/D: zero if and only if q = p."""

    @property
    def known(self) -> bool:
        """Whether the draws could tell."""
        return not math.isnan(self.fisher)


class Drawn(Protocol):
    """A batch as a run has it, or several of them joined."""

    @property
    def theta(self) -> Any:
        """The points."""

    @property
    def score(self) -> Any:
        """The target's scores there."""

    @property
    def log_density(self) -> Any:
        """Its log densities, or None."""

    @property
    def log_q(self) -> Any:
        """Those of the q that they were drawn from."""


class Recent:
    """The last draws of a run, kept by reference."""

    def __init__(self, draws: Iterable[Drawn] = ()) -> None:
        self._batches: deque[Drawn] = deque()
        self._count = 0
        for batch in draws:
            self.add(batch)

    @property
    def draws(self) -> Draws | None:
        """The last 200 draws, fewer in very many dimensions; None where there was none."""
        return joined(self.batches) if self._batches else None

    @property
    def batches(self) -> tuple[Drawn, ...]:
        """What is kept: at least the last 200 draws, where there were so many."""
        self._let_go()
        return tuple(self._batches)

    def add(self, batch: Drawn) -> None:
        """Take in a batch, and let go now and then of what is not needed any more."""
        self._batches.append(batch)
        self._count += len(batch.theta)
        if self._count >= 2 * _most(batch.theta):
            self._let_go()

    def _let_go(self) -> None:
        while self._batches and self._count - len(self._batches[0].theta) >= _most(
            self._batches[0].theta
        ):
            self._count -= len(self._batches.popleft().theta)

    def quality(self, q: Family) -> Quality:
        """Return what the last 200 draws say of q."""
        draws = self.draws
        return Quality() if draws is None else quality(q, draws)


def joined(batches: Iterable[Drawn]) -> Draws:
    """Return the last 200 draws of several batches as one."""
    rows = list(batches)
    most = _most(rows[0].theta)
    return Draws(
        np.concatenate([batch.theta for batch in rows])[-most:],
        np.concatenate([batch.score for batch in rows])[-most:],
        np.concatenate([_known(batch) for batch in rows])[-most:],
        np.concatenate([batch.log_q for batch in rows])[-most:],
    )


def _most(theta: Any) -> int:
    """Return how many draws, each as long as the rows of theta, are looked at."""
    return int(max(_LEAST, min(MOST, _NUMBERS // theta.shape[1])))


def _known(batch: Drawn) -> Array:
    unknown = batch.log_density is None
    return np.full(len(batch.log_q), np.nan) if unknown else np.asarray(batch.log_density)


def quality(q: Family, draws: Draws) -> Quality:
    """Return what draws, each of a q of its own, say of this q; not known where they are far."""
    with np.errstate(all="ignore"):
        log_q = q.log_density(draws.theta)
        log_weight = log_q - draws.log_q
        if not np.isfinite(log_weight).any():
            return Quality()
        weight = np.exp(log_weight - np.nanmax(log_weight))
        weight = np.nan_to_num(weight / np.nansum(weight))
        mismatch = q.mismatch(draws.theta, draws.score)
        residual = np.vecdot(mismatch, mismatch) / q.dim
        value = draws.log_density - log_q
        enough = float(1.0 / (weight @ weight)) >= _FEWEST
        if not enough and not (np.ptp(value) < _CONSTANT or residual.max() < _CONSTANT**2):
            return Quality()
        elbo = float(weight @ value)
        error = math.sqrt(float(weight**2 @ (value - elbo) ** 2))
        return Quality(elbo, error, float(weight @ residual))
