"""The small pieces that a fit is made of and gives back."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array


class Trace(NamedTuple):
    """The course of a fit, one entry per update.

    ``elbo`` and ``fisher`` are estimates, from the batch of that update alone, for the q that the
    batch was drawn from; they cost nothing extra. ``elbo`` is NaN where the target has no
    log density.
    """

    num_gradients: NDArray[np.int64]
    """Gradients spent when the update was done, those of the start included."""
    seconds: Array
    """Seconds since the fit began; within a compiled chunk, interpolated."""
    elbo: Array
    """Estimates of E_q[log p − log q]."""
    fisher: Array
    """|h + z|²/D, averaged over the batch: zero if and only if q = p."""
    drift: Array
    """h₁·h₂/D of two draws: on average |E_q h|²/D, zero once the mean has arrived."""


class Resample(NamedTuple):
    """Draws corrected by importance weights."""

    draws: dict[str, Array]
    """By name, as :meth:`Fit.draws` gives them."""
    theta: Array
    """The same, unconstrained, shape (size, D)."""
    khat: float
    """The tail of the weights."""
    ess: float
    """The effective number of independent draws that they were chosen from."""


class Summary(NamedTuple):
    """A line of the table of parameters."""

    name: str
    mean: float
    sd: float
    lower: float
    """The 5 % quantile."""
    upper: float
    """The 95 % quantile."""
    lower_quarter: float | None = None
    """The 25 % quantile."""
    median: float | None = None
    upper_quarter: float | None = None
    """The 75 % quantile."""
    error: float | None = None
    """How far the mean may be from that of the best Gaussian, or mixture: root mean square, from
    the scores at the fresh draws of :meth:`scorevi.Fit.check`. None where that was not asked."""
