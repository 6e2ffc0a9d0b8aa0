r"""NUTS by BlackJAX in q's coordinates, compiled: many draws of a chain in one call.

A draw doubles its trajectory until it turns, by BlackJAX's own pieces: multinomial choice along the
trajectory, the generalised criterion on every subtree. They are put together here and not by
``blackjax.nuts`` for one reason: the number of doublings is an argument of the compiled function,
so that a chain whose budget ends can go on with what a shorter trajectory may cost.

The metric is the identity, :math:`\theta = \mu + L z`, and μ, L, the step size, the key and the
numbers of draws and steps are arguments too: a target is compiled for once.

A point without a usable density or score ends its trajectory as a divergence does, so there is at
most one in a draw, and it is the trajectory's first or last. What was wrong with it is told by its
log density, a multiple of one that is very low.

References
----------
Hoffman and Gelman (2014), The No-U-Turn sampler. Betancourt (2017), A conceptual introduction to
Hamiltonian Monte Carlo. Phan, Pradhan and Jankowiak (2019), Composable effects for flexible and
accelerated probabilistic programming in NumPyro, for the trajectory without recursion.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from scorevi.base.evaluate import MOST_BAD, WINDOW
from scorevi.base.extras import require
from scorevi.base.target import Failure
from scorevi.sampling.running import DEPTH, LOW
from scorevi.targets.jax import JaxTarget

ROWS = 256
"""Draws that a call has room for."""
LOW_START = 1e-10 * LOW
"""The log density of a start that has none: any point that has one is better, bad ones are not."""
CAUSES = (
    Failure("nan", "the score is NaN"),
    Failure("infinite", "the score is infinite"),
    Failure("nan", "the log density is NaN"),
    Failure("infinite", "the log density is infinite"),
    Failure("overflow", "the score is finite but too large to use"),
)
"""What may be wrong with a point; of the first, the log density is LOW, of the next, 2 LOW."""
_DIVERGENT = 1000.0
"""The error of the energy from which on a trajectory has diverged; nutpie's too."""
_KEY = "chains"
"""The place among the target's compiled loops."""
_GENERATOR = "threefry2x32"
"""Named, because a user may have another by default."""


class Now(NamedTuple):
    """Where a chain is: all that the next draw needs to know."""

    z: Any
    log_density: Any
    score: Any
    """Whitened, (D,)."""
    left: Any
    """Gradients that may still be spent."""
    seen: Any
    """Gradients since the share of bad ones among them was last looked at."""
    bad: Any
    over: Any
    """Whether the budget, or too many bad scores, ended it."""


class Row(NamedTuple):
    """What is known of a draw."""

    z: Any
    log_density: Any
    energy: Any
    diverging: Any
    depth: Any
    reached_depth: Any
    steps: Any
    acceptance: Any
    bad: Any
    """What was wrong with the last point: nothing (0), or one more than the place in CAUSES."""
    bad_z: Any
    """Where."""


Loop = Callable[..., tuple[Now, Any, Row]]
"""(now, mean, factor, step size, key (2,), first, draws, steps) → now, how many, their rows.

Draw i of a chain is a function of the key, i and the draw before it, so that it does not matter
how draws are grouped into calls. No draw begins after so many steps.
"""


def loop_of(target: JaxTarget) -> Loop:
    """Return the compiled loop of a target."""
    if _KEY not in target.loops:
        target.loops[_KEY] = require("jax").jit(_build(target))
    loop: Loop = target.loops[_KEY]
    return loop


def _build(target: JaxTarget) -> Loop:
    jax = require("jax")
    jnp = jax.numpy
    costs = 2 ** jnp.arange(1, DEPTH + 1) - 1

    def run(
        now: Now,
        mean: Any,
        factor: Any,
        step_size: Any,
        key: Any,
        first: Any,
        draws: Any,
        steps: Any,
    ) -> tuple[Now, Any, Row]:
        draw = _kernel(target, mean, factor, step_size)
        keys = jax.random.wrap_key_data(key, impl=_GENERATOR)
        enough = now.left - steps

        def unfinished(carry: tuple[Now, Any, Row]) -> Any:
            now, made, _ = carry
            return (made < draws) & (now.left > enough) & ~now.over

        def body(carry: tuple[Now, Any, Row]) -> tuple[Now, Any, Row]:
            now, made, rows = carry
            depth = jnp.sum(costs <= now.left)  # the most that it may cost
            moved, row, turned = draw(jax.random.fold_in(keys, first + made), now, depth)
            # It would have gone on, had there been more to spend: not a draw of NUTS.
            cut = (row.depth == depth) & ~turned & ~row.diverging & (depth < DEPTH)
            rows = jax.tree.map(lambda column, value: column.at[made].set(value), rows, row)
            return _after(jnp, moved, row, cut), made + ~cut, rows

        shapes = jax.eval_shape(draw, keys, now, draws)[1]
        rows = jax.tree.map(lambda one: jnp.zeros((ROWS, *one.shape), one.dtype), shapes)
        end: tuple[Now, Any, Row] = jax.lax.while_loop(unfinished, body, (now, 0, rows))
        return end

    return run


def _after(jnp: Any, now: Now, row: Row, cut: Any) -> Now:
    """Account for a draw: what it cost, and whether nearly all scores of late were bad."""
    seen, bad = now.seen + row.steps, now.bad + (row.bad > 0)
    judged = seen >= WINDOW
    return now._replace(
        left=now.left - row.steps,
        seen=jnp.where(judged, 0, seen),
        bad=jnp.where(judged, 0, bad),
        over=cut | (judged & (bad > MOST_BAD * seen)),
    )


def _kernel(
    target: JaxTarget, mean: Any, factor: Any, step_size: Any
) -> Callable[[Any, Now, Any], tuple[Now, Row, Any]]:
    """Return one draw, of at most so many doublings: where it is, its row, whether it turned."""
    jax = require("jax")
    jnp = jax.numpy
    trajectories = require("blackjax.mcmc.trajectory")
    state_of = require("blackjax.mcmc.integrators").IntegratorState
    proposal_of = require("blackjax.mcmc.proposal").Proposal
    metric = require("blackjax.mcmc.metrics").default_metric(jnp.ones(target.dim))
    criterion = require("blackjax.mcmc.termination").iterative_uturn_numpyro(metric.check_turning)
    evaluate = _evaluation(target, mean, factor)

    def leapfrog(state: Any, size: Any) -> Any:
        momentum = state.momentum + 0.5 * size * state.logdensity_grad
        z = state.position + size * momentum
        log_density, score = evaluate(z)
        return state_of(z, momentum + 0.5 * size * score, log_density, score)

    integrate = trajectories.dynamic_progressive_integration(
        leapfrog, metric.kinetic_energy, *criterion[1:], _DIVERGENT
    )

    def draw(key: Any, now: Now, depth: Any) -> tuple[Now, Row, Any]:
        for_momentum, for_trajectory = jax.random.split(key)
        momentum = metric.sample_momentum(for_momentum, now.z)
        start = state_of(now.z, momentum, now.log_density, now.score)
        energy = metric.kinetic_energy(momentum) - now.log_density
        expand = trajectories.dynamic_multiplicative_expansion(
            integrate, metric.check_turning, depth
        )
        begin = trajectories.DynamicExpansionState(
            0,
            proposal_of(start, energy, 0.0, -jnp.inf),
            trajectories.Trajectory(start, start, momentum, 0),
            criterion[0](start, DEPTH),
        )
        (doublings, chosen, whole, _), (diverging, turned) = expand(
            for_trajectory, begin, energy, step_size
        )
        state, left, right = chosen.state, whole.leftmost_state, whole.rightmost_state
        lowest = jnp.minimum(left.logdensity, right.logdensity)
        row = Row(
            z=state.position,
            log_density=state.logdensity,
            energy=chosen.energy,
            diverging=diverging,
            depth=doublings,
            reached_depth=(doublings == DEPTH) & ~turned & ~diverging,
            steps=whole.num_states,
            acceptance=jnp.exp(chosen.sum_log_p_accept) / whole.num_states,
            bad=jnp.round(jnp.maximum(lowest / LOW, 0.0)).astype(int),
            bad_z=jnp.where(left.logdensity < right.logdensity, left.position, right.position),
        )
        moved = now._replace(
            z=state.position, log_density=state.logdensity, score=state.logdensity_grad
        )
        return moved, row, turned

    return draw


def _evaluation(target: JaxTarget, mean: Any, factor: Any) -> Callable[[Any], tuple[Any, Any]]:
    """Return the log density and the whitened score at z, or a very low one and none."""
    jnp = require("jax").numpy

    def evaluate(z: Any) -> tuple[Any, Any]:
        log_densities, scores = target.log_density_and_score((mean + factor @ z)[None])
        log_density, score = log_densities[0], scores[0]
        tests = (
            jnp.isnan(score).any(),
            jnp.isinf(score).any(),
            jnp.isnan(log_density),
            jnp.isinf(log_density),
            ~jnp.isfinite(score @ score),
        )
        good = jnp.isfinite(score @ score) & jnp.isfinite(log_density)
        low = LOW * (1.0 + jnp.argmax(jnp.stack(tests)))
        return jnp.where(good, log_density, low), jnp.where(good, factor.T @ score, 0.0)

    return evaluate
