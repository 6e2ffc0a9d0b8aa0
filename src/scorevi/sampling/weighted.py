r"""Effective samples of weighted draws, function by function, and how to choose among them.

With normalised weights w, the mean of a function f has an error whose square is about
:math:`\sum w^2 (f - \mu)^2`; a sample of n independent draws has :math:`\sigma^2/n`. So weighted
draws are as good for f as :math:`\sum w (f - \mu)^2 / \sum w^2 (f - \mu)^2` independent ones. The
functions are every parameter and the square of its distance from its mean.
"""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array
from scorevi.families import Approximation
from scorevi.trust.weights import smooth


def in_units(q: Approximation, theta: Array, w: Array) -> Array:
    """Return draws in standard deviations of q from its mean; zero where they do not count."""
    t = (theta - q.mean) / q.sd
    t[w == 0.0] = 0.0
    return np.asarray(t)


def functions(t: Array, w: Array) -> Array:
    """Return the functions at draws t (n, D) in any units, less their weighted means, (n, 2D)."""
    centred = t - w @ t
    squares = centred**2
    return np.concatenate([centred, squares - w @ squares], axis=1)


def effective_weighted(t: Array, w: Array) -> Array:
    """Return the effective sample of each parameter, the lesser of it and its square, (D,)."""
    f = functions(t, w) ** 2
    with np.errstate(all="ignore"):
        each = (w @ f) / (w**2 @ f)
    return np.asarray(np.minimum(*np.split(each, 2)))


def tails(t: Array, w: Array, log_ratio: Array) -> Array:
    """Return k-hat of the weights times each of the functions, less what may be noise, (2D,).

    The mean of a function is by weights times its values, and these may have a longer tail than
    the weights have.
    """
    with np.errstate(divide="ignore"):
        log_f = np.log(np.abs(functions(t, w)))
    return np.array([surely(smooth(log_ratio + column).khat, len(t)) for column in log_f.T])


def surely(khat: float, count: int) -> float:
    """Return k-hat less its standard error, as many tails are looked at and some seem long.

    It is fitted to the largest 3√n of n values, and has an error of (1 + k)/√m from m of them.
    """
    return khat - (1.0 + max(khat, 0.0)) / math.sqrt(3.0 * math.sqrt(count))


def choose(w: Array, size: int, rng: np.random.Generator) -> NDArray[np.int64]:
    """Choose draws by weights, evenly: each as often as its weight says, to within one.

    Systematic, in a random order, so that the choice adds little to the variance of a mean.
    """
    order = rng.permutation(len(w))
    ends = np.cumsum(w[order])
    places = np.searchsorted(ends, ends[-1] * (np.arange(size) + rng.uniform()) / size)
    return rng.permutation(order[np.minimum(places, len(w) - 1)])


def added_by_choice(w: Array, size: int) -> float:
    """Return what :func:`choose` adds to the variance of a mean, as a share of the variance.

    A draw that is to be chosen k + f times, 0 ≤ f < 1, is chosen once more with probability f.
    """
    share = np.modf(size * w / w.sum())[0]
    return float((share * (1.0 - share)).sum()) / size**2
