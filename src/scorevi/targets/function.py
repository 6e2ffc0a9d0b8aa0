"""Targets from plain NumPy functions."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from scorevi.base.arrays import Array, as_count
from scorevi.base.source import source_of
from scorevi.base.target import (
    Evaluation,
    Failure,
    Names,
    Parameter,
    ShapeError,
    check_early,
    describe,
    failure,
    parse_names,
)
from scorevi.base.variables import Constrain, Variables, check_arguments
from scorevi.targets.points import Inverse

Function = Callable[[Array], Any]


@dataclass(frozen=True, eq=False, repr=False)
class FunctionTarget:
    """A target made by :func:`from_function`."""

    dim: int
    score: Function
    log_density: Function | None
    parameters: tuple[Parameter, ...]
    variables: Variables
    score_batched: bool
    log_density_batched: bool
    thread_safe: bool = False
    """Whether several threads may evaluate it at once."""

    @property
    def has_log_density(self) -> bool:
        """Whether a log density was given."""
        return self.log_density is not None

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate at the rows of theta; a row on which a pointwise function fails is NaN."""
        failures: dict[int, Failure] = {}
        n = len(theta)
        score = _call("score", self.score, self.score_batched, theta, theta.shape, failures)
        if self.log_density is None:
            return Evaluation(score, None, failures)
        log_density = _call(
            "log_density", self.log_density, self.log_density_batched, theta, (n,), failures
        )
        return Evaluation(score, log_density, failures)

    def __repr__(self) -> str:
        return describe(self)


def from_function(
    score: Function,
    dim: int,
    log_density: Function | None = None,
    names: Names = None,
    *,
    constrain: Constrain | None = None,
    batched: bool | None = None,
    thread_safe: bool = False,
    **variables: Any,
) -> FunctionTarget:
    """Make a target of a NumPy score function, and optionally its log density.

    Parameters
    ----------
    score
        The gradient of the log density on the unconstrained space: either of a batch,
        (n, dim) → (n, dim), or of one point, (dim,) → (dim,).
    dim
        The number of unconstrained dimensions.
    log_density
        The log density, up to a constant: (n, dim) → (n,), or (dim,) → a number. With it a fit
        reports the ELBO, and can start at the mode.
    names
        A name for each dimension, or a dict from name to shape; "theta" if left out.
    constrain
        Maps draws (n, dim) to a dict of named arrays (n, *shape) on the scale the user thinks in.
    batched
        Whether the functions take batches. Left out, each is tried, once and here, on three
        points together and one by one; those calls are not part of any fit's budget.
    thread_safe
        Whether several threads may call the functions at once, as restarts then do. Say so only
        of functions that change nothing: no array that they fill anew on each call, no counter,
        no cache, no library that keeps such things. Left out, one thread at a time calls them.
    **variables
        More, as in :class:`scorevi.targets.Variables`: ``unconstrain``, from a dict of values on
        that scale to one point (dim,), for starts by name; and for ArviZ ``log_likelihood``,
        ``observed``, ``predictive``, ``predict``, ``dims``, ``coords``; and for reports ``source``,
        the model as text, which is that of the functions if left out.

    Examples
    --------
    >>> import scorevi
    >>> target = scorevi.from_function(lambda x: -x, dim=2, names=["a", "b"])
    >>> target.evaluate(np.ones((1, 2))).score
    array([[-1., -1.]])
    """
    check_arguments(from_function, variables)
    dim = as_count("dim", dim)
    for name, function in (("score", score), ("log_density", log_density)):
        if function is None and name == "log_density":
            continue
        if not callable(function):
            raise ValueError(f"`{name}` must be a function; got {type(function).__name__}.")
    variables.setdefault("source", source_of(score, log_density))
    named = Variables(constrain=constrain, **variables)
    parameters = parse_names(names, dim)
    if constrain is not None and named.unconstrain is not None:
        inverse = Inverse(named.unconstrain, constrain, parameters)
        named = dataclasses.replace(named, unconstrain=inverse)
    check_early(named, parameters)
    score_batched = log_density_batched = bool(batched)
    if batched is None:
        score_batched = _detect("score", score, dim, (dim,))
        if log_density is not None:
            log_density_batched = _detect("log_density", log_density, dim, ())
    return FunctionTarget(
        dim=dim,
        score=score,
        log_density=log_density,
        parameters=parameters,
        variables=named,
        score_batched=score_batched,
        log_density_batched=log_density_batched,
        thread_safe=thread_safe,
    )


def _call(
    name: str,
    function: Function,
    batched: bool,
    theta: Array,
    shape: tuple[int, ...],
    failures: dict[int, Failure],
) -> Array:
    if batched:
        value = function(theta.copy())  # whatever it does to its argument
        usual = type(value) is np.ndarray and value.shape == shape and value.dtype == np.float64
        return value if usual else _checked(name, value, shape)
    result = np.full(shape, np.nan)
    for row, point in enumerate(theta):
        if row in failures:
            continue
        try:
            result[row] = _checked(name, function(point.copy()), shape[1:])
        except Exception as error:
            failures[row] = failure(error)
    return result


def _checked(name: str, value: Any, shape: tuple[int, ...]) -> Array:
    if value is None:
        raise ShapeError(f"`{name}` returned None; is a `return` missing?")
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError):
        raise ShapeError(
            f"`{name}` must return an array of real numbers; got {type(value).__name__}."
        ) from None
    if array.shape == shape:
        return array
    # A number where one number is wanted is unambiguous however many brackets it wears.
    if array.size == 1 and int(np.prod(shape)) == 1:
        return array.reshape(shape)
    meaning = {0: "a number", 1: "one per dimension", 2: "(batch, dim)"}[len(shape)]
    if name == "log_density" and len(shape) == 1:
        meaning = "one per point of the batch"
    raise ShapeError(f"`{name}` must return shape {shape}, {meaning}; got {array.shape}.")


def _detect(name: str, function: Function, dim: int, shape: tuple[int, ...]) -> bool:
    """Try a function on three points, together and one by one, and compare."""
    count = 2 if dim == 3 else 3
    rng = np.random.default_rng(0)
    problems: list[Exception] = []
    for points in (rng.uniform(-1, 1, (count, dim)), rng.uniform(0.1, 0.9, (count, dim))):
        with np.errstate(all="ignore"):
            together = _attempt(name, function, points, (count, *shape))
            alone = [_attempt(name, function, point, shape) for point in points]
        singles = [value for value in alone if not isinstance(value, Exception)]
        if isinstance(together, Exception):
            if singles:
                return False
            problems += [together, *(value for value in alone if isinstance(value, Exception))]
        elif not singles:
            return True
        else:
            return all(
                np.allclose(one, row, rtol=1e-4, equal_nan=True)
                for one, row in zip(alone, together, strict=True)
                if not isinstance(one, Exception)
            )
    wrong = [problem for problem in problems if isinstance(problem, ShapeError)]
    if wrong:
        raise ValueError(
            f"`{name}` fits neither form. On a batch of {count} points: {_text(problems[0])} "
            f"On one point: {_text(problems[1])}"
        )
    raise ValueError(
        f"`{name}` could not be tried out to see whether it takes a batch or one point; "
        f"it raised {_text(problems[0])} If dim={dim} is right, state batched=True or False."
    )


def _attempt(name: str, function: Function, theta: Array, shape: tuple[int, ...]) -> Any:
    try:
        return _checked(name, function(theta.copy()), shape)
    except Exception as error:
        return error


def _text(error: Exception) -> str:
    text = str(error) if isinstance(error, ShapeError) else f"{type(error).__name__}: {error}"
    return text if text.endswith(".") else text + "."
