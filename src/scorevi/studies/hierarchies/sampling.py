"""Long runs of NUTS, by nutpie."""

from __future__ import annotations

import time
import warnings
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from scorevi.targets import Target

_CHAINS = 4
_ROUNDS: tuple[dict[str, Any], ...] = (
    {"tune": 1500, "draws": 2500},
    {"tune": 2000, "draws": 4000, "low_rank_modified_mass_matrix": True},
    {"tune": 3000, "draws": 12_000, "low_rank_modified_mass_matrix": True},
)
"""Of each chain: where it takes more, for longer and with an eye to correlations."""
_ACCEPTANCE, _IN_SMALL_STEPS = 0.95, 0.99
"""The acceptance rate to aim at, and that after divergences."""
LOW = -1e300
"""The log density where there is none, so that a trajectory turns back."""

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


class Chains(NamedTuple):
    """What a run came to."""

    theta: Array
    """Draws (chain, draw, D)."""
    gradients: int
    """All that were taken: warm-up and runs that were not enough included."""
    divergences: int
    seconds: float


def sample(
    target: Target, enough: Callable[[Array, int], bool], limit: float, seed: int = 0
) -> Chains:
    """Run NUTS, longer and in smaller steps until there is enough or the time is over.

    Parameters
    ----------
    target
        What to sample.
    enough
        Tells by the draws (chain, draw, D) and the number of divergences.
    limit
        Seconds, after which a run is cut short. The chains run side by side, so that all of them
        have draws by then.
    seed
        Of the chains.
    """
    begin, gradients, acceptance = time.monotonic(), 0, _ACCEPTANCE
    chains = None
    for number, options in enumerate(_ROUNDS):
        left = max(0.0, limit - (time.monotonic() - begin))
        trace = _run(target, left, seed=seed + number, target_accept=acceptance, **options)
        gradients += _steps(trace)
        # Of chains of unequal lengths, where the run was cut short, the shortest counts.
        theta = np.asarray(trace.posterior["theta"])
        kept = int(np.isfinite(theta).all(axis=(0, 2)).sum())
        divergences = int(trace.sample_stats["diverging"].values[:, :kept].sum())
        cut = Chains(theta[:, :kept], gradients, divergences, time.monotonic() - begin)
        if chains is None or kept >= chains.theta.shape[1]:
            chains = cut
        chains = chains._replace(gradients=gradients, seconds=cut.seconds)
        if kept < options["draws"] or enough(chains.theta, chains.divergences):
            break
        if divergences:
            acceptance = _IN_SMALL_STEPS
    if chains is None or not chains.theta.size:
        raise ValueError(f"`limit` must be longer than the warm-up takes; got {limit:g} seconds.")
    return chains


def _steps(trace: Any) -> int:
    """Return the number of gradients of a run."""
    groups = (trace.warmup_sample_stats, trace.sample_stats)
    return int(sum(group["n_steps"].values.sum() for group in groups))


def for_nutpie(dim: int, log_density_and_score: Callable[[Array], tuple[float, Array]]) -> Any:
    """Return a model that nutpie samples by calls of a function, which must not raise."""
    from nutpie.compiled_pyfunc import from_pyfunc

    return from_pyfunc(
        dim,
        lambda: log_density_and_score,
        lambda *_: lambda theta: {"theta": theta},
        [np.dtype(np.float64)],
        [(dim,)],
        ["theta"],
    )


def _run(target: Target, limit: float, **options: Any) -> Any:
    """Return the trace of one run, cut short at a limit in seconds."""
    import nutpie

    def log_density_and_score(theta: Array) -> tuple[float, Array]:
        # An exception would end the threads of nutpie, so there is none.
        score, log_density, _ = target.evaluate(theta[None])
        if log_density is None or not (np.isfinite(log_density[0]) and np.isfinite(score).all()):
            return LOW, np.zeros(target.dim)
        return float(log_density[0]), np.array(score[0])

    compiled = for_nutpie(target.dim, log_density_and_score)
    running = nutpie.sample(
        compiled, chains=_CHAINS, cores=_CHAINS, progress_bar=False, blocking=False, **options
    )
    try:
        return running.wait(timeout=limit)
    except TimeoutError:
        with warnings.catch_warnings():
            warnings.filterwarnings("ignore", "More chains .* than draws", UserWarning)
            return running.abort()
