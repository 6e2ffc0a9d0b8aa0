"""What the memory of a mixture says about each of its components, found where it is asked for."""

from __future__ import annotations

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families.stacked import log_sum
from scorevi.solvers.components import Local, Pairs, look, of_parameters, value
from scorevi.solvers.counting import NEGLIGIBLE, counted
from scorevi.solvers.growth import MixingState, seen_along
from scorevi.solvers.weights import averaged

_NEWS = 1.2
"""By how much the draws, a component's own or all, must have grown for it to be looked at again."""


class Looks:
    """The memory as the components see it."""

    def __init__(self, state: MixingState) -> None:
        self._state = state
        parts, axes = state.parts, state.axes
        log_parts, log_q, score = parts.look(state.z)
        self.pairs = Pairs(state.z, state.h, state.h - score, state.log_p - log_q)

        def log_shares() -> Array:
            along = seen_along(parts, axes).log_parts(state.z @ axes) if axes.size else log_parts
            return np.asarray(along - log_sum(along)[:, None])

        self._counts = counted(log_parts, log_q, state.log_then, log_shares, parts.dim)
        self._found: dict[int, Local | None] = {}

    def __getitem__(self, k: int) -> Local | None:
        """Return what the pairs say about component k; None where they cannot tell."""
        if k not in self._found:
            part, there = self._state.parts.components[k], self._state.q.components[k]
            axes = part.factor.T @ self._state.axes
            axes = axes / np.maximum(np.linalg.norm(axes, axis=0), 1e-300)
            self._found[k] = look(self.pairs, self._counts[k], part, axes, of_parameters(there))
        return self._found[k]

    def values(self) -> tuple[Array, Array]:
        """Return what each component is worth, NaN where not known, and the errors of that."""
        known = np.flatnonzero(np.isfinite(self.pairs.log_ratio))
        log_ratio = self.pairs.log_ratio[known]
        found = np.full((2, len(self._counts)), np.nan)
        for k, (_, _, honest) in enumerate(self._counts):
            weight = honest[known]
            near = weight > NEGLIGIBLE
            if near.any():
                found[:, k] = value(weight[near], log_ratio[near])
        return found[0], found[1]

    def judged(self, size: int) -> tuple[float, float]:
        """Return the ELBO and the Fisher residual of the mixture by its last batch."""
        state, pairs, last = self._state, self.pairs, slice(-size, None)
        log_weight = state.log_p[last] - pairs.log_ratio[last] - state.log_then[last]
        mismatch = state.parts.coordinates.whiten_score(pairs.mismatch[last])
        return averaged(log_weight, pairs.log_ratio[last], np.asarray(mismatch))


def with_news(state: MixingState, own: Array, drawn: int) -> list[int]:
    """Return the components about which there is more to know than when last looked at."""
    now = np.stack([own, np.full(len(own), float(drawn))], axis=1)
    return [int(k) for k in np.flatnonzero((now >= _NEWS * state.heard).any(axis=1))]
