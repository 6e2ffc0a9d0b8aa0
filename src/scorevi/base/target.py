"""What a target is: where scores come from, and what the numbers mean to the user."""

from __future__ import annotations

import itertools
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import NamedTuple, Protocol, TypeAlias, runtime_checkable

import numpy as np

from scorevi.base.arrays import Array, as_count
from scorevi.base.variables import Include, Variables

_SHOWN = 8
"""Parameters that the short form of a target lists."""
Names: TypeAlias = "Sequence[str] | Mapping[str, int | tuple[int, ...]] | str | None"


class Parameter(NamedTuple):
    """A named array of unconstrained values, a stretch of the vector theta."""

    name: str
    shape: tuple[int, ...] = ()

    @property
    def size(self) -> int:
        """The number of entries."""
        return int(np.prod(self.shape, dtype=int))


class Failure(NamedTuple):
    """Why there is no score at a point."""

    cause: str
    detail: str


class ShapeError(ValueError):
    """A user's function returned an array of the wrong shape."""


class TargetLost(ValueError):
    """A target cannot be evaluated at any point, for a reason outside of it: no score is to blame.

    A fit ends with it, and goes on from its checkpoint once the reason is gone.
    """


def failure(error: Exception) -> Failure:
    """Classify an exception that came out of an evaluation."""
    if isinstance(error, ShapeError):
        return Failure("wrong-shape", str(error))
    return Failure("raised", f"{type(error).__name__}: {error}")


class Evaluation(NamedTuple):
    """What a target says about a batch of n points.

    A row of which the evaluation failed is NaN in ``score`` and has an entry in ``failures``.
    """

    score: Array
    log_density: Array | None
    failures: Mapping[int, Failure] = {}


@runtime_checkable
class Target(Protocol):
    """A posterior, up to its normalising constant, on an unconstrained space of ``dim``."""

    @property
    def dim(self) -> int:
        """The number of unconstrained dimensions, D."""

    @property
    def parameters(self) -> tuple[Parameter, ...]:
        """The names and shapes that the vector theta is made of, in order."""

    @property
    def has_log_density(self) -> bool:
        """Whether evaluations carry the log density with the score."""

    @property
    def variables(self) -> Variables:
        """What the user calls things, where that is more than a stretch of theta."""

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate the score, and the log density if known, at the rows of theta (n, D)."""


def is_thread_safe(target: object) -> bool:
    """Return whether several threads may evaluate a target at once: only if it says so itself.

    A target says so by an attribute ``thread_safe`` that is true. It is no part of :class:`Target`,
    so that one which knows nothing of threads is a target too, evaluated by one at a time.
    """
    return bool(getattr(target, "thread_safe", False))


def opened(target: object) -> AbstractContextManager[object]:
    """Return what keeps ready, for a block, all that a target needs to be evaluated.

    Most need nothing. One that does, such as a cluster, is a context manager, which may be entered
    any number of times, also within itself; outside of it each evaluation has to begin anew.
    """
    return target if isinstance(target, AbstractContextManager) else nullcontext()


def parse_names(names: Names, dim: int) -> tuple[Parameter, ...]:
    """Read the ``names`` argument of the target constructors.

    Examples
    --------
    >>> parse_names(None, 3)
    (Parameter(name='theta', shape=(3,)),)
    >>> parse_names(["mu", "tau"], 2)
    (Parameter(name='mu', shape=()), Parameter(name='tau', shape=()))
    >>> parse_names({"mu": (), "theta": 8}, 9)
    (Parameter(name='mu', shape=()), Parameter(name='theta', shape=(8,)))
    """
    if names is None:
        return (Parameter("theta", (dim,)),)
    if isinstance(names, str):
        return (Parameter(names, (dim,)),)
    if isinstance(names, Mapping):
        parameters = tuple(Parameter(str(name), _shape(shape)) for name, shape in names.items())
    elif isinstance(names, Iterable):
        parameters = tuple(Parameter(str(name)) for name in names)
    else:
        raise ValueError(
            "`names` must be a list of one name per value, or a dict from name to shape; "
            f"got {type(names).__name__}."
        )
    check_distinct("names", parameters)
    total = sum(parameter.size for parameter in parameters)
    if total != dim:
        raise ValueError(
            f"`names` must name {dim} values, the dimension of the target; got {total}. "
            "Give a list of one name per value, or a dict from name to shape."
        )
    return parameters


def check_distinct(argument: str, parameters: Sequence[Parameter]) -> None:
    """Refuse two parameters of one name."""
    counts = Counter(parameter.name for parameter in parameters)
    twice = sorted(name for name, count in counts.items() if count > 1)
    if twice:
        raise ValueError(
            f"`{argument}` must give distinct names; {', '.join(twice)} occurs more than once."
        )


def check_early(variables: Variables, parameters: Sequence[Parameter]) -> None:
    """Check the names in ``dims`` and the like where all names are known without a draw."""
    functions = (variables.constrain, variables.derive, variables.log_likelihood)
    if all(function is None for function in functions):
        data = {name: np.shape(value) for name, value in variables.observed.items()}
        variables.check_names(dict(parameters), data)


def split(theta: Array, parameters: Sequence[Parameter]) -> dict[str, Array]:
    """Cut rows (n, D) into the named arrays, each of shape (n, *shape)."""
    ends = list(itertools.accumulate(parameter.size for parameter in parameters))
    return {
        parameter.name: theta[:, end - parameter.size : end].reshape(len(theta), *parameter.shape)
        for parameter, end in zip(parameters, ends, strict=True)
    }


def labels(name: str, shape: tuple[int, ...]) -> list[str]:
    """Return one label per entry of a named array, in row-major order.

    Examples
    --------
    >>> labels("beta", (2, 2))
    ['beta[0,0]', 'beta[0,1]', 'beta[1,0]', 'beta[1,1]']
    """
    if shape == ():
        return [name]
    return [f"{name}[{','.join(map(str, index))}]" for index in np.ndindex(*shape)]


def named(
    target: Target, theta: Array, include: Include = "all", seed: int = 0
) -> dict[str, Array]:
    """Return the named, constrained variables of a target at the rows of theta (n, D)."""
    return named_by(target.variables, target.parameters, theta, include, seed)


def named_by(
    variables: Variables,
    parameters: Sequence[Parameter],
    theta: Array,
    include: Include = "all",
    seed: int = 0,
) -> dict[str, Array]:
    """Return what :func:`named` does, of variables that need not be a target's own."""
    values = variables.constrained(theta)
    if values is None:
        values = split(theta, parameters)
    if include != "parameters":
        values = values | variables.derived(theta, seed)
    if include == "everything":
        values = values | variables.predicted(theta, seed)
    return variables.included(values, include)


def all_labels(parameters: Sequence[Parameter]) -> list[str]:
    """Return one label per entry of theta.

    Examples
    --------
    >>> all_labels([Parameter("mu"), Parameter("eta", (2,))])
    ['mu', 'eta[0]', 'eta[1]']
    """
    return [label for name, shape in parameters for label in labels(name, shape)]


def describe(target: Target, what: str = "") -> str:
    """Return a target's short form: what it is, its dimension and its parameters.

    Examples
    --------
    >>> import scorevi
    >>> scorevi.examples.eight_schools()
    <FunctionTarget, D = 10: eta[8], mu, log_tau>
    """
    names = [
        name + (f"[{','.join(map(str, shape))}]" if shape else "")
        for name, shape in target.parameters
    ]
    if len(names) > _SHOWN:
        names[_SHOWN:] = [f"... {len(names) - _SHOWN} more"]
    what = f" {what}" if what else ""
    return f"<{type(target).__name__}{what}, D = {target.dim}: {', '.join(names)}>"


def _shape(shape: int | tuple[int, ...]) -> tuple[int, ...]:
    sizes = shape if isinstance(shape, (tuple, list)) else (shape,)
    return tuple(as_count("names", size) for size in sizes)
