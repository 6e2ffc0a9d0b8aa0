"""Whether a mixture ends where the posterior does, or where its components ran out.

Along the line on which the components lie, the density of q should fall off before the last of
them. Where it has hardly begun to, and then ends with that component, q was cut short: what lies
beyond, if the density went on falling as it does inside, is compared with what q has there.

Asked in many dimensions alone: in few, draws from beyond the edges tell (:mod:`wider_draws
<scorevi.trust.wider_draws>`), also where the posterior does end so, as two narrow modes do.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.families import Mixture
from scorevi.trust.examination import Examination
from scorevi.trust.verdict import Reason

_MATTERS = 1e-3
"""The weight of a component that may be the last."""
_INSIDE = 0.5
"""Over how many standard deviations the fall inside is measured."""
_GENTLEST = 0.5
"""The slowest fall, of the log density per standard deviation, that is extrapolated."""
_MANY = 20
_LACKING = 0.25
"""The part of a variance that is missing."""


class Line(NamedTuple):
    """A mixture along one direction, in standard deviations from its mean."""

    weights: Array
    means: Array
    sds: Array
    parameter: int
    """The parameter that lies along it most."""

    @classmethod
    def of(cls, q: Mixture) -> Line:
        """Return the direction in which the components differ most."""
        white, along = q.coordinates, q.main_axis
        means = white.whiten(np.array([part.mean for part in q.components]))
        axis = np.linalg.solve(white.factor.T, along)
        sds = np.array([float(np.linalg.norm(part.factor.T @ axis)) for part in q.components])
        loading = white.factor @ along / q.sd
        return cls(q.weights, means @ along, sds, int(np.argmax(np.abs(loading))))

    def log_density(self, t: float) -> float:
        """Return that of the marginal."""
        parts = np.log(self.weights / self.sds) - 0.5 * ((t - self.means) / self.sds) ** 2
        return float(np.logaddexp.reduce(parts)) - 0.5 * math.log(2.0 * math.pi)

    def beyond(self, t: float, side: float) -> float:
        """Return the share of q outside of t."""
        away = side * (t - self.means) / self.sds
        return float(self.weights @ np.array([0.5 * math.erfc(a / math.sqrt(2.0)) for a in away]))

    def lacks(self, side: float) -> float:
        """Return what part of the variance would lie beyond the last component, and does not."""
        outward = side * self.means
        outward[self.weights < _MATTERS] = -math.inf
        edge = float(self.means[np.argmax(outward)])
        here = self.log_density(edge)
        fall = (self.log_density(edge - side * _INSIDE) - here) / _INSIDE
        fall = max(fall, _GENTLEST)
        missing = math.exp(here) / fall - self.beyond(edge, side)
        return missing * (abs(edge) + 1.0 / fall) ** 2


def edges(exam: Examination) -> Iterator[Reason]:
    """Ask a mixture whether it ends abruptly."""
    if not isinstance(exam.q, Mixture) or exam.q.dim < _MANY or len(exam.q.components) < 2:
        return
    line = Line.of(exam.q)
    if max(line.lacks(-1.0), line.lacks(1.0)) > _LACKING:
        yield Reason(
            "warn",
            f"the mixture ends abruptly along {exam.labels[line.parameter]}: its last components "
            "lie where the posterior has not yet fallen off",
            "Allow more gradients or components, reparametrise, or draw from the posterior itself: "
            "scorevi.sample(fit).",
        )
