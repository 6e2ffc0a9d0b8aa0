"""Directions along which a posterior does not end: two intercepts without priors, for one.

Along such a direction u no score has a part (:func:`scorevi.base.linalg.flat_direction`). A
posterior that is only very wide along u looks the same from near by; points far out tell them
apart.
"""

from __future__ import annotations

import numpy as np

from scorevi.base.evaluate import Evaluator
from scorevi.base.labels import theta_labels
from scorevi.base.linalg import flat_direction
from scorevi.base.pairs import Draws
from scorevi.base.status import Status
from scorevi.families import Gaussian, LowRank

_FAR = (1e4, -1e4, 1e8, -1e8)
"""Standard deviations of q, at which any posterior that has an end has ended."""
_SINGULAR = 1e-6
"""A way, in standard deviations of q, that is no way at all."""
_CHANGE = 1.0
"""Nats that rounding may make of no change."""
_NAMED = 4
"""Parameters that a message names."""


def improper(
    draws: Draws | None, q: Gaussian | LowRank | None, evaluator: Evaluator
) -> Status | None:
    """Return how the run must end where the posterior is improper along some direction.

    Costs four evaluations, and only where the scores have no part along a direction.
    """
    if draws is None or q is None:
        return None
    if np.isnan(draws.log_density).any():
        return None
    direction = flat_direction(np.asarray(q.whiten_score(draws.score)))
    if direction is None:
        return None
    along = np.asarray(q.image(direction[None])[0])
    if np.linalg.norm(along / q.sd) < _SINGULAR:
        return None  # q itself has no width there, which is another matter
    found = evaluator.spare(q.mean + np.array([0.0, *_FAR])[:, None] * along)
    if found is None or found.log_density is None:
        return None
    if not (np.abs(np.diff(found.log_density)) < _CHANGE).all():
        return None
    shares = along / along[np.argmax(np.abs(along))]
    labels = theta_labels(evaluator.target)
    named = [
        f"{shares[index]:+.2g} {labels[index]}"
        for index in np.argsort(-np.abs(shares))[:_NAMED]
        if abs(shares[index]) > 1e-3
    ]
    more = int((np.abs(shares) > 1e-3).sum()) - len(named)
    return Status(
        "diverged",
        f"the posterior is improper: its log density does not change along {' '.join(named)}"
        + (f" and {more} more" if more else ""),
        "Give these parameters proper priors, or leave out what the data cannot tell apart.",
    )
