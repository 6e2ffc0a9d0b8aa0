r"""Whether the score is the gradient of the log density that was given with it.

Between two points the log density changes by the mean of the scores times the way, up to the third
order (the trapezoidal rule). Draws that a fit has paid for tell at once where the two agree. Where
they do not, the third order may be to blame, so a few pairs of points close together decide: around
draws, along the direction in which the disagreement is largest. A disagreement that stays however
close the points are is the score's own.
"""

from __future__ import annotations

import math

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.labels import theta_labels
from scorevi.base.pairs import Draws
from scorevi.families import Gaussian, LowRank

ADVICE = "Check the score against finite differences of the log density: sign, factors, terms."
_SUSPICIOUS = 0.02
"""The share of the change of log density that may be of third order and pass without a look."""
_STEPS = (5e-2, 5e-4, 5e-6, 5e-8)
"""Half the way between two points, in standard deviations of q, which may be far too wide."""
_PLACES = 3
_OFF, _FLAT = 0.1, 0.02
"""A disagreement that counts: as a share of the change, and per standard deviation of the way."""
_MOST_NAMED, _NAMED = 200, 3
"""Parameters that are looked at one by one, and that are named."""
_STEP_OF_ONE, _OFF_OF_ONE = 1e-3, 0.05
"""Of one parameter: half the way, in its standard deviations, and a disagreement that is named."""


def contradiction(
    draws: Draws | None, q: Gaussian | LowRank | None, evaluator: Evaluator
) -> str | None:
    """Return in words how the score contradicts the log density; None where it does not.

    Costs nothing where the draws agree, and 6 evaluations as a rule where they do not, within the
    evaluator's budget. Where it does, 2D more say which parameters it is.
    """
    if draws is None or q is None:
        return None
    with np.errstate(all="ignore"):  # draws of a q that is far too wide may have any score
        return _contradiction(draws, q, evaluator)


def _contradiction(draws: Draws, q: Gaussian | LowRank, evaluator: Evaluator) -> str | None:
    usable = np.isfinite(draws.log_density) & np.isfinite(draws.score).all(axis=1)
    draws = Draws(*(column[usable] for column in draws))
    if len(draws.theta) < 2:
        return None
    way = np.diff(draws.theta, axis=0)
    predicted = 0.5 * np.vecdot(draws.score[1:] + draws.score[:-1], way)
    missing = np.diff(draws.log_density) - predicted
    if not np.median(np.abs(missing)) > _SUSPICIOUS * np.median(np.abs(predicted)):
        return None
    worst = _worst_direction(q.whiten(way + q.mean), missing)
    direction = np.asarray(q.image(worst[None])[0])
    places = draws.theta[np.linspace(0, len(draws.theta) - 1, _PLACES).astype(int)]
    text = None
    for step in _STEPS:  # the last is the shortest, and tells most
        text = _disagreement(places, step * direction, step, evaluator)
        if text is None:
            return None
    return f"{text}{_by_name(places[0], q, evaluator)}"


def _by_name(place: Array, q: Gaussian | LowRank, evaluator: Evaluator) -> str:
    """Name the parameters whose slopes disagree, where it is not all of them."""
    dim = len(place)
    if dim > _MOST_NAMED:
        return ""
    steps = _STEP_OF_ONE * q.sd
    found = evaluator.spare(np.concatenate([place + np.diag(steps), place - np.diag(steps)]))
    if found is None or found.log_density is None:
        return ""
    slope = (found.log_density[:dim] - found.log_density[dim:]) / (2.0 * steps)
    said = 0.5 * (np.diag(found.score[:dim]) + np.diag(found.score[dim:]))
    larger = np.maximum(np.abs(slope), np.abs(said))
    off = np.flatnonzero(np.abs(slope - said) > _OFF_OF_ONE * larger + _FLAT / q.sd)
    if not 0 < len(off) <= dim // 2:
        return ""
    labels = theta_labels(evaluator.target)
    named = [f"{labels[j]} {said[j]:.3g} where the slope is {slope[j]:.3g}" for j in off[:_NAMED]]
    return f"; the score of {', of '.join(named)}"


def _worst_direction(way: Array, missing: Array) -> Array:
    """Return the direction, a unit vector, along which most of the change is not explained."""
    count, dim = way.shape
    ridge = float(np.vdot(way, way)) / dim / math.sqrt(count)
    if dim <= count:
        slope = np.linalg.solve(way.T @ way + ridge * np.eye(dim), way.T @ missing)
    else:  # the same, by a matrix of the size of the draws
        slope = way.T @ np.linalg.solve(way @ way.T + ridge * np.eye(count), missing)
    length = float(np.linalg.norm(slope))
    return slope / length if 0 < length < math.inf else np.eye(1, dim)[0]


def _disagreement(places: Array, half: Array, step: float, evaluator: Evaluator) -> str | None:
    """Compare score and log density at both sides of each place; None where two of three agree."""
    found = evaluator.spare(np.concatenate([places + half, places - half]))
    if found is None or found.log_density is None:
        return None
    ahead, behind = np.arange(len(places)), np.arange(len(places)) + len(places)
    actual = found.log_density[ahead] - found.log_density[behind]
    predicted = (found.score[ahead] + found.score[behind]) @ half
    larger = np.maximum(np.abs(actual), np.abs(predicted))
    off = np.abs(actual - predicted) > _OFF * larger + _FLAT * 2 * step
    if off.sum() < 2:
        return None
    first = int(np.argmax(off))
    ratios = predicted[off] / actual[off]
    if np.ptp(ratios) < 0.01 * abs(float(ratios[0])):
        how = f"it is {float(ratios[0]):.2g} times the gradient of it"
    else:
        how = (
            f"between two nearby points the log density changes by {actual[first]:.3g} where the "
            f"score says {predicted[first]:.3g}"
        )
    return f"the score contradicts the log density: {how}"
