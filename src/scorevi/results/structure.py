"""What a mixture has found, in the words of the model."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Approximation, Mixture, Nested

_APART = 0.5
"""The share of a parameter's variance that is between the components, for them to lie along it."""
_MOST_NAMES = 3


def between(q: Mixture) -> Array:
    """Return, for each parameter, what share of its variance is between the components, (D,)."""
    means = np.array([part.mean for part in q.components])
    return np.asarray(q.weights @ (means - q.mean) ** 2 / q.sd**2)


def found_in(q: Approximation, labels: Sequence[str]) -> str:
    """Say what q is made of, and which parameters tell its parts apart; empty for one Gaussian."""
    if isinstance(q, Nested):
        return f"Gaussian given {', '.join(labels[j] for j in q.scales)}"
    if not isinstance(q, Mixture) or len(q.components) < 2:
        return ""
    share = between(q)
    along = [int(j) for j in np.argsort(-share)[:_MOST_NAMES] if share[j] > _APART]
    count = f"{len(q.components)} components"
    if not along:
        return f"{count}, which overlap"
    names = " and ".join(labels[j] for j in along)
    return f"{count} along {names}: nearly Gaussian given {'it' if len(along) == 1 else 'them'}"
