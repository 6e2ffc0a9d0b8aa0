"""Reference draws, by the names of single numbers."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from scorevi.base.arrays import Array
from scorevi.base.labels import labels_of
from scorevi.base.variables import Variables

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

Reference: TypeAlias = Mapping[str, ArrayLike] | ArrayLike
"""Draws by name, (n, *shape) each, or on the unconstrained scale, (n, D)."""
Draws: TypeAlias = Mapping[str, Array]
"""Draws of single numbers, (n,) each, by name."""


def draws_by_name(fit: Fit, reference: Reference | None) -> Draws | None:
    """Cut reference draws into single numbers, called as ``fit.summary`` or ``fit.labels`` does.

    Parameters
    ----------
    fit
        What they are to be compared with.
    reference
        A dict from name to array (n, *shape), or an array (n, D) on the unconstrained scale.
    """
    if reference is None:
        return None
    if not isinstance(reference, Mapping):
        theta = np.asarray(reference, dtype=np.float64)
        if theta.ndim != 2 or theta.shape[1] != fit.dim:
            raise ValueError(
                f"`reference` must be a dict of draws by name, or an array (n, {fit.dim}) on the "
                f"unconstrained scale; got shape {theta.shape}."
            )
        return dict(zip(fit.labels, theta.T, strict=True))
    variables = Variables() if fit.target is None else fit.target.variables
    found: dict[str, Array] = {}
    for name, values in reference.items():
        array = np.asarray(values, dtype=np.float64)
        if not array.ndim:
            raise ValueError(f"`reference` must hold draws, (n, *shape); {name!r} is one number.")
        flat = array.reshape(len(array), -1)
        found |= dict(zip(labels_of(variables, name, array.shape[1:]), flat.T, strict=True))
    return found
