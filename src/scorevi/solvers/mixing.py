r"""Replay for a mixture: one Gaussian first, then as many as the scores ask for.

Where one Gaussian has arrived and is not the posterior, it is split along the direction in which
the score is least linear (:mod:`scorevi.base.valley`): in a hierarchy the log of a group scale,
given which the rest is nearly Gaussian. Each part then moves by a regression of its own on the
pairs that all share (:mod:`scorevi.solvers.components`), is split again while its score is bent,
and those at the edges send scouts outwards (:mod:`scorevi.solvers.scouts`), until nothing is left
to gain.

- *Steps.* Replay's: precision I → I − M, mean by (I − M)⁻¹a, within its trust region. With one
  component it is replay.
- *Weights.* :math:`\log w_k` moves by :math:`E_{q_k}[\log p - \log q]`, as far as that is known.
- *Draws.* Half of a batch comes from the mixture, half from those of its components that have had
  the fewest draws of their own, so that what is small is known as well as what is large.

A step takes O(K·n·D²), n the number of pairs that count for a component, at most 512 or 4(D + 1),
and the memory O(N·D), N at most 4096 or 8(D + 1). The number of components is at most 40, and in
more than 60 dimensions 2400/D, at least 16.

References
----------
Arenz, Zhong and Neumann (2018), Efficient gradient-free variational inference using policy search,
*ICML*: natural gradients for mixtures, component by component. Rue, Martino and Chopin (2009): the
nested approximations of models that are Gaussian given a few parameters.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import as_count
from scorevi.base.estimates import median
from scorevi.base.pairs import Draws, Pair
from scorevi.families import Gaussian, Mixture
from scorevi.families.gaussian import HALF_LOG_2PI
from scorevi.solvers.base import Batch, Elsewhere
from scorevi.solvers.growth import (
    Growth,
    MixingState,
    in_space,
    is_bent,
    seen_from,
    to_split,
)
from scorevi.solvers.looking import Looks, with_news
from scorevi.solvers.memory import LARGE
from scorevi.solvers.nesting import nested, step
from scorevi.solvers.nesting_state import NestingState
from scorevi.solvers.proposing import batch_size, ending_of, proposal_of
from scorevi.solvers.replay import Replay, ReplayState
from scorevi.solvers.scouts import (
    FARTHEST,
    MATTERS,
    MOST_AXES,
    WORTH,
    Scout,
    judge,
    lacking,
    send,
    shorten,
)
from scorevi.solvers.terms import EXACT

_MOST_DIMENSIONS = 256
_ENOUGH = 300
"""Gradients that must be left for a q of which nothing but its scales is to be found."""
_MANY = 8
"""Dimensions from which on components wait for one Gaussian to arrive."""
_UNEVEN = 0.3
"""The spread of log p − log q from which on one Gaussian is not enough."""
_CLEARLY = 0.6
"""The same while q may still gain."""
_LEAST_WEIGHT = 5e-4
_MEMORY = 4096
_LONGEST, _LONGEST_PER_DIMENSION = 1500, 40
"""Draws after which no component is added any more."""
_LATELY, _LATELY_PER_DIMENSION = 192, 12
"""Draws within which scouts have found more."""


class MixingInfo(NamedTuple):
    """What a step found."""

    components: int
    elbo: float
    """Of q, by the batch."""
    fisher: float


@dataclass(frozen=True, repr=False)
class Mixing:
    """The solver that goes on where one Gaussian is not enough.

    Parameters
    ----------
    batch_size
        Draws in the first step, as for :class:`~scorevi.Replay`.
    components
        The most components; as many as the dimension allows if left out.
    searches
        Whether to look for other modes, for at most 400 gradients and 20(D + 2) for each, even
        where one Gaussian explains its draws.
    """

    batch_size: int | None = None
    components: int | None = None
    searches: bool = False
    name = "mixing"
    family = Gaussian
    compilable = False
    _replay: Replay = field(default=Replay(), repr=False, compare=False)

    def __post_init__(self) -> None:
        if self.components is not None:
            object.__setattr__(self, "components", as_count("components", self.components))
        object.__setattr__(self, "_replay", Replay(self.batch_size))

    def __repr__(self) -> str:
        settings = {"batch_size": self.batch_size, "components": self.components}
        said = [f"{name}={value}" for name, value in settings.items() if value is not None]
        return f"Mixing({', '.join([*said, *(['searches=True'] if self.searches else [])])})"

    def batch_size_for(self, dim: int) -> int:
        """Return the size of the first batches."""
        return self._replay.batch_size_for(dim)

    def init(self, q: Gaussian) -> ReplayState:
        """Start with one Gaussian."""
        return self._replay.init(q)

    def remember(self, state: ReplayState, pairs: Sequence[Pair]) -> ReplayState:
        """Take in pairs that others paid for."""
        return self._replay.remember(state, pairs)

    def may_know(self, dim: int, remaining: float) -> bool:
        """Whether it pays to ask what is :meth:`known`.

        A look must take less than the gradients it may save, and so many draws of scales must be
        left that q is better for them.
        """
        return dim <= LARGE and remaining >= _ENOUGH and not (self.searches or self.components)

    def known(self, state: Any) -> NestingState | None:
        """Go on from a Gaussian that has not arrived, where terms leave nothing but rounding."""
        found = nested(state) if state.q.dim < _MANY or is_bent(state) else None
        return found if found is not None and found.left <= EXACT else None

    def grown(
        self,
        state: Any,
        draws: Draws,
        modes: Sequence[Elsewhere] = (),
        *,
        early: bool,
        surely: bool = False,
    ) -> MixingState | NestingState | None:
        """Go on from one Gaussian that has arrived; None where it is enough.

        Parameters
        ----------
        state
            Replay's.
        draws
            The last draws of the run.
        modes
            Gaussians elsewhere, each of which becomes a component.
        early
            Whether q may still gain, so that its draws must say it clearly.
        surely
            Whether nothing but what is :meth:`known` will do.
        """
        if not isinstance(state, ReplayState) or self.components == 1:
            return None
        base, dim = state.q, state.q.dim
        ratio = draws.log_density - np.asarray(base.log_density(draws.theta))
        ratio = ratio[np.isfinite(ratio)]
        if dim > _MOST_DIMENSIONS or len(ratio) == 0:
            return None
        spread = 1.4826 * median(np.abs(ratio - median(ratio)))
        if spread < (_CLEARLY if early and not surely else _UNEVEN) and not modes:
            return None
        if surely:
            return self.known(state)
        may_nest = not (modes or self.searches or self.components)
        if may_nest and dim > LARGE and not is_bent(state):
            return None  # a search for scales would take longer than the fit
        found = nested(state, float(ratio.mean())) if may_nest else None
        if found is not None or (early and dim >= _MANY):
            # Scales are found the better the nearer q is; what has none can wait as long.
            return found
        if may_nest and dim >= _MANY and not is_bent(state):
            return None
        return self._begun(state, modes, median(ratio))

    def _begun(
        self, state: ReplayState, modes: Sequence[Elsewhere] = (), level: float = 0.0
    ) -> MixingState:
        """Begin a mixture with one Gaussian, and one for each other mode."""
        base, dim = state.q, state.q.dim
        modes = sorted(modes, key=lambda mode: -mode.elbo)[: self.most(dim) - 1]
        pairs = [pair for mode in modes for pair in mode.pairs]
        theta = np.array([pair.theta for pair in pairs]).reshape(-1, dim)
        score = np.array([pair.score for pair in pairs]).reshape(-1, dim)
        one = Mixture(
            log_weights=np.array([0.0, *(mode.elbo - level for mode in modes)]),
            components=[Gaussian.standard(dim), *(seen_from(base, mode.q) for mode in modes)],
        )
        q = in_space(base, one)
        count = len(one.components)
        nothing = np.zeros((count, MOST_AXES, 2))
        return MixingState(
            q=q,
            proposal=in_space(base, proposal_of(one, np.zeros(count), (), 1)),
            base=base,
            parts=one,
            z=np.concatenate([state.z, base.whiten(theta)]),
            h=np.concatenate([state.h, np.asarray(base.whiten_score(score))]),
            log_p=np.append(
                np.full(len(state.z), np.nan),
                np.array([pair.log_density for pair in pairs]) + base.log_det,
            ),
            log_then=np.append(
                state.log_q_then + base.log_det - dim * HALF_LOG_2PI,
                np.array([pair.log_q for pair in pairs]) + base.log_det,
            ),
            axes=np.zeros((dim, 0)),
            own=np.zeros(count),
            heard=np.zeros((count, 2)),
            reach=nothing + FARTHEST,
            asked=nothing,
            scouts=(),
            drawn=0,
            changed=0,
            missed=0,
            outwards=0,
            cut=False,
            batch_size=batch_size(dim, 0),
            ending="",
        )

    def most(self, dim: int) -> int:
        """Return the most components."""
        return self.components or int(np.clip(2400 / dim, 16, 40))

    def step(self, state: Any, batch: Batch) -> tuple[Any, Any]:
        """Remember the batch, and move every component to where all pairs together say."""
        if isinstance(state, ReplayState):
            return self._replay.step(state, batch)
        if isinstance(state, NestingState):
            following, info = step(state, batch)
            return (self._begun(state.replay) if following.is_poor else following), info
        return self._step(state, batch)

    def _step(self, state: MixingState, batch: Batch) -> tuple[MixingState, MixingInfo]:
        base, parts, dim = state.base, state.parts, state.base.dim
        z, log_p = base.whiten(batch.theta), np.asarray(batch.log_density) + base.log_det
        log_then = np.asarray(batch.log_q) + base.log_det
        most = max(_MEMORY, 8 * (dim + 1))
        memory = state._replace(
            z=np.concatenate([state.z, z])[-most:],
            h=np.concatenate([state.h, np.asarray(base.whiten_score(batch.score))])[-most:],
            log_p=np.concatenate([state.log_p, log_p])[-most:],
            log_then=np.concatenate([state.log_then, log_then])[-most:],
        )
        looks = Looks(memory)
        share = np.exp(state.proposal.log_parts(batch.theta) - np.asarray(batch.log_q)[:, None])
        count = len(parts.components)
        own, drawn = state.own + share[:, :count].sum(axis=0), state.drawn + len(z)
        fresh = {k: looks[k] for k in with_news(state, own, drawn)}
        growth = Growth.of(state, fresh, own, drawn)
        level = growth.settle(*looks.values())
        is_growing = drawn < _LONGEST + _LONGEST_PER_DIMENSION * dim
        changed, missed, outwards = state.changed, state.missed, state.outwards
        for scout, its in zip(state.scouts, share[:, count:].T, strict=True):
            log_weight, worth, surely = judge(scout, parts, its, z, log_p, level)
            if surely > MATTERS:
                outwards = drawn
            if worth < WORTH:
                missed = drawn if scout.axis < 0 else missed
                shorten(growth.reach, growth.asked, scout)
            elif growth.count < self.most(dim):
                growth.add(scout.part, log_weight)
                changed = drawn
        scouts: list[Scout] = []
        is_growing = is_growing and growth.count < self.most(dim)
        if is_growing and drawn - changed >= max(2 * len(z), 3 * (dim + 1)):
            room = min(count // 2 + 1, self.most(dim) - growth.count)
            for k, direction in to_split(parts, fresh)[:room]:
                growth.split(k, direction, parts.components[k])
                changed = drawn
        growth.drop(_LEAST_WEIGHT)
        now = growth.mixture
        if is_growing and changed < drawn:
            origin = growth.origin
            scouts = send(
                now,
                growth.axes,
                lambda k: looks[origin[k]] if origin[k] >= 0 else None,
                growth.reach,
                drawn,
                growth.asked,
            )
            for scout in scouts:
                growth.asked[scout.parent, scout.axis, scout.side] = drawn
            if drawn > 2 * state.missed:
                scouts += lacking(now, memory.z, looks.pairs.log_ratio, level)
        # What was growing at the last look, and may not any more, though there is more.
        lately = max(_LATELY, _LATELY_PER_DIMENSION * dim)
        cut = state.cut or (not is_growing and drawn - outwards < lately)
        size = batch_size(dim, 0 if is_growing else len(memory.z))
        proposal = proposal_of(now, growth.own, scouts, size)
        following = memory._replace(
            q=in_space(base, now),
            proposal=in_space(base, proposal),
            parts=now,
            axes=growth.axes,
            own=growth.own,
            heard=growth.heard,
            reach=growth.reach,
            asked=growth.asked,
            scouts=tuple(scouts),
            drawn=drawn,
            changed=changed,
            missed=missed,
            outwards=outwards,
            cut=cut,
            batch_size=size,
            ending="" if scouts else ending_of(growth.count, drawn, drawn - changed, size, cut),
        )
        return following, MixingInfo(growth.count, *looks.judged(len(z)))
