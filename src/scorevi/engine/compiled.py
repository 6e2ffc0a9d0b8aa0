"""Many steps of a solver inside one compiled JAX loop.

The loop takes the same noise, makes the same updates and keeps the same records as the engine's
own steps. It handles only what goes well: at the first batch with a bad score, or the first update
that is not finite, it stops before the update and hands that batch back to the engine.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.arrays import Array, Mask
from scorevi.base.estimates import drift, elbo_estimate, fisher_residual
from scorevi.base.extras import require
from scorevi.base.pairs import Draws
from scorevi.base.target import Evaluation
from scorevi.engine.quality import MOST
from scorevi.families import FAMILIES, is_sound
from scorevi.solvers.base import Batch, Solver, family_of
from scorevi.targets.jax import JaxTarget

_NOISE_ENTRIES = 1 << 18


class LoopResult(NamedTuple):
    """What a call of the loop did."""

    state: Any
    elbo: Array
    fisher: Array
    drift: Array
    last: Draws
    """The last batches that went into updates, as far as they are kept, (n·B rows)."""
    failed: Evaluation | None
    """The evaluation of the batch that the loop stopped at, if it did: already paid for."""


class Loop:
    """A compiled loop for one target, solver and batch size."""

    def __init__(self, target: JaxTarget, solver: Solver, batch_size: int) -> None:
        self.batch_size = batch_size
        self.max_steps = max(1, min(2048, _NOISE_ENTRIES // (batch_size * target.dim)))
        width = family_of(solver).standard(target.dim).noise_width
        self._noise = np.zeros((self.max_steps * batch_size, width))
        key = (solver, batch_size)
        if key not in target.loops:
            target.loops[key] = _build(target, solver, batch_size, self.max_steps)
        self._run: Callable[..., Any] = target.loops[key]

    def compile(self, state: Any) -> None:
        """Compile, by taking no step; the first call would otherwise seem slow."""
        self(state, self._noise[:0], 0, 0.0)

    def __call__(self, state: Any, noise: Array, steps: int, volume_at_start: float) -> LoopResult:
        """Take up to ``steps`` steps; ``noise`` holds steps·batch_size rows."""
        jax = require("jax")
        self._noise[: len(noise)] = noise
        with jax.enable_x64(True):
            # Arrays only: a Python number in the first state would compile the loop once more.
            state = jax.tree.map(np.asarray, state)
            result = self._run(state, self._noise, steps, volume_at_start)
            state, done, records, kept, log_density, score = jax.tree.map(np.asarray, result)
        done = int(done)
        failed = None if done == steps else Evaluation(score, log_density)
        elbo, fisher, drifts = records[:, :done]
        return LoopResult(state, elbo, fisher, drifts, _unrolled(kept, done), failed)


@cache
def _register() -> None:
    for family in FAMILIES.values():
        fields = [field.name for field in dataclasses.fields(family)]
        require("jax").tree_util.register_dataclass(family, fields, [])


class Lanes:
    """Runs of one solver on one target from several seeds, side by side in one compiled loop.

    A lane in which something goes wrong stays where it is; the engine can do that run over.
    """

    def __init__(self, target: JaxTarget, solver: Solver, batch_size: int, lanes: int) -> None:
        self.batch_size = batch_size
        self.max_steps = max(1, min(2048, 4 * _NOISE_ENTRIES // (lanes * batch_size * target.dim)))
        self._noise = np.zeros((lanes, self.max_steps, batch_size, target.dim))
        self._run = _build_lanes(target, solver)

    def __call__(self, states: Any, alive: Mask, noise: Array, volume_at_start: Array) -> Any:
        """Take as many steps as there is noise for, (lanes, steps, B, D): new states and alive."""
        jax = require("jax")
        steps = noise.shape[1]
        self._noise[:, :steps] = noise
        with jax.enable_x64(True):
            states, alive = self._run(states, alive, self._noise, steps, volume_at_start)
            return jax.tree.map(np.asarray, (states, alive))


def _build(
    target: JaxTarget, solver: Solver, batch_size: int, max_steps: int
) -> Callable[..., Any]:
    jax = require("jax")
    jnp = jax.numpy
    step = _step(target, solver)

    def run(state: Any, noise: Any, steps: Any, volume_at_start: Any) -> tuple[Any, ...]:
        def unfinished(carry: tuple[Any, ...]) -> Any:
            _, done, *_, good = carry
            return good & (done < steps)

        def body(carry: tuple[Any, ...]) -> tuple[Any, ...]:
            state, done, records, kept, *_ = carry
            z = jax.lax.dynamic_slice_in_dim(noise, done * batch_size, batch_size)
            new, record, draws, good = step(state, z, volume_at_start)
            state = jax.tree.map(lambda a, b: jnp.where(good, a, b), new, state)
            records = records.at[:, done].set(record)
            # A batch that is not good is overwritten by the next, or left out by the count.
            kept = jax.tree.map(lambda ring, row: ring.at[done % len(ring)].set(row), kept, draws)
            return state, done + good, records, kept, draws.log_density, draws.score, good

        first = jax.tree.map(jnp.asarray, state)
        records = jnp.zeros((3, max_steps))
        values, points = jnp.zeros(batch_size), jnp.zeros((batch_size, target.dim))
        ring = min(max_steps, -(-MOST // batch_size)) + 1
        kept = jax.tree.map(
            lambda row: jnp.stack([row] * ring), Draws(points, points, values, values)
        )
        carry = (first, jnp.asarray(0), records, kept, values, points, jnp.asarray(True))
        *result, _ = jax.lax.while_loop(unfinished, body, carry)
        return tuple(result)

    return jax.jit(run)  # type: ignore[no-any-return]


def _unrolled(kept: Draws, done: int) -> Draws:
    """Return the batches in a ring that went into updates, in order, as one."""
    ring = len(kept.log_q)
    # The place after the last update may hold a batch that was not good.
    order = np.arange(max(0, done - (ring - 1)), done) % ring
    return Draws(*(column[order].reshape(-1, *column.shape[2:]) for column in kept))


def _build_lanes(target: JaxTarget, solver: Solver) -> Callable[..., Any]:
    jax = require("jax")
    jnp = jax.numpy
    step = _step(target, solver)

    def lane(state: Any, alive: Any, z: Any, volume_at_start: Any) -> tuple[Any, Any]:
        new, *_, good = step(state, z, volume_at_start)
        alive = alive & good
        return jax.tree.map(lambda a, b: jnp.where(alive, a, b), new, state), alive

    def run(states: Any, alive: Any, noise: Any, steps: Any, volume_at_start: Any) -> Any:
        def body(index: Any, carry: tuple[Any, Any]) -> tuple[Any, Any]:
            return jax.vmap(lane)(*carry, noise[:, index], volume_at_start)  # type: ignore[no-any-return]

        return jax.lax.fori_loop(0, steps, body, (states, alive))

    return jax.jit(run)  # type: ignore[no-any-return]


def _step(target: JaxTarget, solver: Solver) -> Callable[..., tuple[Any, ...]]:
    """Return one step: new state, record, draws, and whether it is good enough to be kept."""
    jnp = require("jax").numpy
    _register()

    def step(state: Any, noise: Any, volume_at_start: Any) -> tuple[Any, ...]:
        points = state.q.points(noise)
        log_density, score = target.log_density_and_score(points.theta)
        batch = Batch.of(state.q, points, score, log_density)
        elbo = elbo_estimate(log_density, batch.log_q)
        fisher = fisher_residual(batch.z, batch.whitened_score)
        new, _ = solver.step(state, batch)
        good = jnp.isfinite(elbo + fisher) & is_sound(new.q, volume_at_start)
        record = jnp.stack([elbo, fisher, drift(batch.whitened_score)])
        return new, record, Draws(points.theta, score, log_density, batch.log_q), good

    return step
