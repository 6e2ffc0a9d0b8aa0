"""The parts that a user makes a Gaussian of a diagonal and directions from, checked."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from scorevi.base.arrays import Array, as_float_array


def checked_parts(
    mean: ArrayLike, scale: ArrayLike, directions: ArrayLike, widths: ArrayLike
) -> tuple[Array, Array, Array, Array]:
    """Return mean, scale, directions and widths as arrays; refuse what does not go together."""
    mean = as_float_array("mean", mean, (None,))
    dim = len(mean)
    if dim == 0:
        raise ValueError("`mean` must have at least one entry; got shape (0,).")
    scale = as_float_array("scale", scale, (dim,))
    widths = as_float_array("widths", widths, (None,))
    directions = as_float_array("directions", directions, (dim, len(widths)))
    for name, values in (("scale", scale), ("widths", widths)):
        if not (values > 0).all():
            raise ValueError(f"`{name}` must be positive; the least is {values.min():.3g}.")
    off = np.abs(directions.T @ directions - np.eye(len(widths))).max(initial=0.0)
    if off > 1e-8:
        raise ValueError(
            f"`directions` must have orthonormal columns; they are off by {off:.3g}. "
            "LowRank.from_factors takes any loadings."
        )
    return mean, scale, directions, widths
