"""How far q may be from the best Gaussian there is, by the scores at fresh draws."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.newton import steps
from scorevi.families import Approximation, Nested
from scorevi.trust.examination import MEAN_WARN, SD_WARN, Examination
from scorevi.trust.fresh_draws import Fresh, first
from scorevi.trust.verdict import Reason

_ERRORS, _MANY = 3.0, 1000
"""Standard errors that count; and parameters, of which the largest error is mostly chance."""
_MOST_NUMBERS, _PLENTY = 1_000_000, 4
"""Entries of the draws that are asked, and so many for each dimension where these are too few."""


class ErrorBars(NamedTuple):
    """How well a fit's moments are determined, per unconstrained parameter and in its units."""

    mean: Array
    """The error of the fitted means as estimates of the best Gaussian's: root mean square."""
    sd: Array
    """The same of the fitted standard deviations."""
    mean_step: Array
    """Where the scores of fresh draws say that the means should move."""
    mean_error: Array
    """The standard error of that."""
    sd_step: Array
    sd_error: Array


def error_bars(q: Approximation, fresh: Fresh) -> ErrorBars:
    r"""Estimate how far q is from the Gaussian of highest ELBO, from the scores at fresh draws.

    There :math:`E_q[h]` and :math:`I + E_q[h z^\top]` vanish; elsewhere Newton's step for each
    marginal (:func:`scorevi.base.newton.steps`) says how far it is, with its standard error;
    h + z in the place of h has the same means, and no variance where q is exact. Of a mixture the
    same is asked in the coordinates of the Gaussian with its moments.
    """
    theta, score = fresh.theta[fresh.good], fresh.score[fresh.good]
    white = q.coordinates

    def images(rows: Array) -> Array:
        return np.asarray(white.image(rows)) / q.sd

    z, mismatch = white.whiten(theta), q.mismatch(theta, score)
    normal = white is q
    found = steps(images(mismatch), images(z), z, mismatch, images, normal=normal)
    mean_step, mean_error = found.mean * q.sd, found.mean_error * q.sd
    sd_step, sd_error = found.log_sd * q.sd, found.log_sd_error * q.sd
    return ErrorBars(
        np.sqrt(np.maximum(mean_step**2 - mean_error**2, 0) + mean_error**2),
        np.sqrt(np.maximum(sd_step**2 - sd_error**2, 0) + sd_error**2),
        mean_step,
        mean_error,
        sd_step,
        sd_error,
    )


def unsettled(exam: Examination) -> Iterator[Reason]:
    """Ask the scores how far the best Gaussian is, by a Newton step and its standard error."""
    if isinstance(exam.q, Nested):
        return  # made of importance weights, not by steps of scores, which a neck makes too noisy
    dim = exam.q.dim
    bars = error_bars(exam.q, first(exam.fresh, max(_MOST_NUMBERS // dim, _PLENTY * (dim + 1))))
    sd = exam.q.sd
    for what, off, error, limit in (
        ("mean", np.abs(bars.mean_step) / sd, bars.mean_error / sd, MEAN_WARN),
        ("standard deviation", np.abs(bars.sd_step) / sd, bars.sd_error / sd, math.expm1(SD_WARN)),
    ):
        errors = _ERRORS + (math.sqrt(2.0 * math.log(exam.q.dim)) if exam.q.dim > _MANY else 0.0)
        worst = int(np.nanargmax(off - errors * error))
        if off[worst] - errors * error[worst] > limit:
            yield Reason(
                "warn",
                f"the scores say that the {what} of {exam.labels[worst]} should still move by "
                f"{off[worst]:.2g} sd",
                "Allow more gradients, or try solver='auto'.",
            )
