"""One round of NUTS by nutpie: chains in q's coordinates, of a given step size.

nutpie calls a function of z and gives it a metric and a step size by its own adaptation. Here both
are known: in q's coordinates the metric is the identity. nutpie begins by the gradient at the
start, the inverse of whose entries it takes for variances; it asks for it once, and for the
start's own density and gradient once more. So the first answer is a gradient of ones, which makes
the metric the identity, and is no evaluation of the target. With a step size that is given too, and
one step of "tuning" that adapts nothing, a round is NUTS from its first draw, and a function of
start, step size and seed.

A chain is a sampler of its own, so that its start is. What cannot be evaluated comes back as a very
low density, at which a trajectory turns back: an exception would end nutpie's thread. The same
happens once there is nothing left to spend; the draws from then on are dropped.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import AnyArray, Array
from scorevi.base.evaluate import Evaluator, Exhausted, Interrupted, TooManyBadScores
from scorevi.base.extras import require
from scorevi.families import Gaussian
from scorevi.sampling.gathering import Gathering, Place

LOW = -1e300
"""The log density where there is none."""
_NO_ZERO = 1e-200
"""What is added to a gradient: nutpie does not begin where an entry is zero."""
DEPTH = 10
"""Of trees: no trajectory has more than 2¹⁰ − 1 steps."""
_STATS = {
    "lp": "logp",
    "energy": "energy",
    "diverging": "diverging",
    "tree_depth": "depth",
    "reached_max_treedepth": "maxdepth_reached",
    "n_steps": "n_steps",
    "acceptance_rate": "mean_tree_accept",
    "step_size": "step_size",
}
"""ArviZ's names, and nutpie's."""
_PATIENCE = 0.1
"""Seconds between two looks at whether the user wants to stop."""


class Stretch(NamedTuple):
    """A stretch of one chain."""

    theta: Array
    """Draws (draw, D)."""
    stats: dict[str, AnyArray]
    """By ArviZ's names, (draw,)."""


class Chain:
    """What nutpie calls for one chain: the target in whitened coordinates.

    Parameters
    ----------
    white
        The coordinates.
    evaluator
        Who asks the target, within a budget of its own.
    start
        Where the chain begins, in the target's space.
    draws
        How many there are to be.
    """

    def __init__(self, white: Gaussian, evaluator: Evaluator, start: Array, draws: int) -> None:
        self.evaluator = evaluator
        self._white = white
        self._draws = draws
        self._taken = 0
        self._start = white.whiten(start)
        self._metric_given = False
        self._over = False
        self._drawn: list[Array] = []

    def log_density_and_score(self, z: Array) -> tuple[float, Array]:
        """Evaluate in whitened coordinates; never raises."""
        if not self._metric_given:
            self._metric_given = True
            return 0.0, np.ones(len(z))
        if not self._over:
            try:
                white = self._white
                pair = self.evaluator.point(white.mean + white.factor @ z)
                if self.gathering is not None and self.gathering.interrupted.is_set():
                    raise Interrupted
                if pair is not None:
                    return pair.log_density, white.factor.T @ pair.score + _NO_ZERO
            except (Exhausted, Interrupted, TooManyBadScores):
                self._over = True
        return LOW, np.full(len(z), _NO_ZERO)

    def take(self, z: Array) -> dict[str, Array]:
        """Take a draw; after the last one, others need not wait for this chain."""
        if not self._over:
            self._drawn.append(np.array(z))
        self._taken += 1
        if self._taken == self._draws and self.gathering is not None:
            self.gathering.leave()
        return {}

    @property
    def gathering(self) -> Gathering | None:
        """What gathers the points of this chain and the others, if anything does."""
        target = self.evaluator.target
        return target.gathering if isinstance(target, Place) else None

    def sampler(self, step_size: float, seed: int) -> Any:
        """Return nutpie's sampler, running."""
        nutpie = require("nutpie")
        model = require("nutpie.compiled_pyfunc").from_pyfunc(
            self._white.dim,
            lambda: self.log_density_and_score,
            lambda *_: self.take,
            [],
            [],
            [],
            make_initial_point_fn=lambda _: self._start,
        )
        return nutpie.sample(
            model,
            draws=self._draws - 1,
            tune=1,
            chains=1,
            cores=1,
            seed=seed,
            maxdepth=DEPTH,
            step_size_adapt_method=repr(float(step_size)),
            progress_bar=False,
            blocking=False,
            return_raw_trace=True,
        )

    def stretch(self, results: Any) -> Stretch:
        """Return what was drawn."""
        table = results.get_arrow_trace()[1][0]
        count = len(self._drawn)
        stats = {
            name: np.array(table.column(theirs).to_numpy())[:count]
            for name, theirs in _STATS.items()
        }
        z = np.reshape(self._drawn, (count, self._white.dim))
        return Stretch(np.asarray(self._white.unwhiten(z)), stats)


def run(
    chains: Sequence[Chain], step_size: float, seeds: Sequence[int]
) -> tuple[list[Stretch], bool]:
    """Run all chains side by side; returns also whether the user stopped it.

    Parameters
    ----------
    chains
        Used up by this. Each is in a thread of its own; where their points are gathered, the
        thread that calls this evaluates them.
    step_size
        In whitened coordinates.
    seeds
        Of each chain.
    """
    samplers = [chain.sampler(step_size, seed) for chain, seed in zip(chains, seeds, strict=True)]
    gathering = chains[0].gathering
    results: list[Any] = []
    stopped = False
    while len(results) < len(chains):
        try:
            while gathering is not None and gathering.serve(_PATIENCE):
                pass
            results.append(samplers[len(results)].wait(timeout=_PATIENCE))
        except TimeoutError:
            continue
        except KeyboardInterrupt:
            stopped = True
            for chain in chains:
                chain.evaluator.interrupted.set()  # they end soon
    return [chain.stretch(one) for chain, one in zip(chains, results, strict=True)], stopped
