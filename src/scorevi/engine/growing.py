"""Where one Gaussian has arrived: whether to go on with more, and what else there is."""

from __future__ import annotations

from typing import Any

import numpy as np

from scorevi.base.evaluate import Evaluator, Exhausted, TooManyBadScores
from scorevi.base.pairs import Draws
from scorevi.families import Gaussian
from scorevi.solvers.base import Grows
from scorevi.starts.elsewhere import leads_elsewhere, modes_outside

_NOTHING_ELSE = 0.03
"""Nats by which log p − log q differs between draws of a q that is all that can be seen from it."""


def larger(
    solver: Grows,
    state: Any,
    draws: Draws,
    evaluator: Evaluator,
    rng: np.random.Generator,
    *,
    early: bool,
) -> Any | None:
    """Return the state to go on with; None where q is enough.

    Parameters
    ----------
    solver, state
        That of a Gaussian so far.
    draws
        The last ones of the run.
    evaluator, rng
        To look for other modes: where q is to be a mixture in any case, so that they become
        components, and where q seems exact.
    early
        Whether q may still gain.
    """
    following = solver.grown(state, draws, early=early)
    q = state.q
    if not isinstance(q, Gaussian):
        return following
    with np.errstate(all="ignore"):
        ratio = draws.log_density - q.log_density(draws.theta)
        is_mixture = following is not None and not getattr(following, "is_enough", False)
        if is_mixture or (not early and _may_have_modes(solver, q, ratio, evaluator, rng)):
            modes = modes_outside(q, float(np.nanmedian(ratio)), evaluator, rng)
            if modes:
                return solver.grown(state, draws, modes, early=early)
    return following


def _may_have_modes(
    solver: Grows,
    q: Gaussian,
    ratio: np.ndarray,
    evaluator: Evaluator,
    rng: np.random.Generator,
) -> bool:
    """Whether to look for other modes: if asked to, or if q is all that can be seen from it.

    What looks exactly Gaussian is a Gaussian, or one of several that are far apart.
    """
    if solver.searches:
        return True
    is_all = float(np.nanmax(np.abs(ratio - np.nanmedian(ratio)))) < _NOTHING_ELSE
    if not is_all or solver.components == 1:
        return False
    try:
        return leads_elsewhere(q, evaluator, rng)
    except (Exhausted, TooManyBadScores):
        return False
