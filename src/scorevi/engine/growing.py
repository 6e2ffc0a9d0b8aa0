"""Where one Gaussian has arrived: whether to go on with more, and what else there is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.pairs import Draws
from scorevi.families import Gaussian
from scorevi.solvers.base import Grows
from scorevi.starts.elsewhere import modes_outside


def larger(
    solver: Grows,
    state: Any,
    draws: Draws,
    evaluator: Evaluator,
    rng: np.random.Generator,
    points: Sequence[Array] = (),
    *,
    early: bool,
    surely: bool = False,
) -> Any | None:
    """Return the state to go on with; None where q is enough.

    Parameters
    ----------
    solver, state
        That of a Gaussian so far.
    draws
        The last ones of the run.
    evaluator, rng
        To look for other modes, which become components.
    points
        Where other modes are known to be.
    early
        Whether q may still gain.
    surely
        Whether nothing but what is known beyond doubt will do.
    """
    following = solver.grown(state, draws, early=early, surely=surely)
    q = state.q
    if not isinstance(q, Gaussian):
        return following
    with np.errstate(all="ignore"):
        ratio = draws.log_density - q.log_density(draws.theta)
        is_mixture = following is not None and not getattr(following, "is_enough", False)
        if is_mixture or (not early and (len(points) > 0 or solver.searches)):
            modes = modes_outside(q, float(np.nanmedian(ratio)), evaluator, rng, points)
            if modes:
                return solver.grown(state, draws, modes, early=early)
    return following
