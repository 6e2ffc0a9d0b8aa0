"""Making a target of builders that run where the data are."""

from __future__ import annotations

import dataclasses
import functools
import os
from collections.abc import Callable, Sequence
from typing import Any

from scorevi._version import __version__
from scorevi.base.arrays import as_count
from scorevi.base.cluster import check_client
from scorevi.base.extras import require
from scorevi.base.sending import sent
from scorevi.base.target import Names, check_early, parse_names
from scorevi.base.variables import Constrain, Variables
from scorevi.targets.points import Inverse
from scorevi.targets.shards.session import Builder
from scorevi.targets.shards.target import ShardedTarget
from scorevi.targets.shards.worker import Recipe
from scorevi.targets.taking import as_target


def from_shards(
    builders: Sequence[Callable[[], Any]],
    dim: int,
    *,
    prior: Any = None,
    client: Any = None,
    workers: int | None = None,
    log_density: bool = True,
    names: Names = None,
    constrain: Constrain | None = None,
    **variables: Any,
) -> ShardedTarget:
    """Make a target of data that lie on many workers: a prior, and a sum over shards.

    The log joint is log p(θ) + Σ log p(data of shard i | θ). Each batch of points goes to the
    workers, and the sum of scores and log densities comes back; the data stay where they are.

    Parameters
    ----------
    builders
        Functions without arguments, one for each shard. Each runs on a worker, loads its part of
        the data there, and returns its log likelihood as a target: whatever
        :func:`scorevi.fit` takes, by NumPy, JAX or Stan. ``functools.partial`` gives it a path or
        the number of its part; what is positional in it may be a Dask future, or delayed, such as
        a partition of a collection, and is handed over on the worker. A builder must do the same
        wherever it runs, since it runs again where a worker is lost.
    dim
        The number of unconstrained dimensions.
    prior
        The term that is not a sum over data, as a target or an object with ``dim`` and ``score``,
        such as a :class:`scorevi.Gaussian`; evaluated in this process. None for a flat one.
    client
        A ``distributed.Client``; the address of a scheduler, ``"tcp://10.0.0.1:8786"``; or None
        for processes on this machine, which begin and end with the fit, as the connection to an
        address does. What comes after the fit, such as ``fit.check()``, begins them again; inside
        ``with target:`` they stay for all of it. With a client shards stay while the target lives.
    workers
        How many processes, where there is no client; one for each core, at most one a shard, if
        left out.
    log_density
        Whether the shards and the prior know their log densities. False for scores alone.
    names, constrain, **variables
        As for :func:`scorevi.from_function`; they are used in this process.

    Examples
    --------
    >>> import numpy as np
    >>> import scorevi
    >>> def shard(mean):
    ...     return scorevi.Gaussian([mean], [[1.0]])
    >>> builders = [functools.partial(shard, mean) for mean in (1.0, 3.0)]
    >>> scorevi.from_shards(builders, 1, prior=scorevi.Gaussian.standard(1), names=["mu"])
    <ShardedTarget of 2 shards, D = 1: mu>
    """
    require("distributed")
    dim = as_count("dim", dim)
    if workers is not None:
        workers = as_count("workers", workers, optional=True)
        if client is not None:
            raise ValueError("`workers` must be left out with `client`, whose workers are its own.")
    if not isinstance(builders, (list, tuple)) or not builders:
        raise ValueError(
            f"`builders` must be a list of functions, one for each shard; got {_told(builders)}."
        )
    term = None if prior is None else as_target(prior)
    if term is not None and term.dim != dim:
        raise ValueError(f"`prior` must have {dim} dimensions, as `dim` says; got {term.dim}.")
    if term is not None and log_density and not term.has_log_density:
        raise ValueError("`prior` must have a log density; say log_density=False for scores alone.")
    named = Variables(constrain=constrain, **variables)
    parameters = parse_names(names, dim)
    if constrain is not None and named.unconstrain is not None:
        inverse = Inverse(named.unconstrain, constrain, parameters)
        named = dataclasses.replace(named, unconstrain=inverse)
    check_early(named, parameters)
    return ShardedTarget(
        dim=dim,
        builders=tuple(
            _builder(index, one, dim, log_density) for index, one in enumerate(builders)
        ),
        prior=term,
        parameters=parameters,
        variables=named,
        has_log_density=bool(log_density),
        client=check_client(client),
        workers=min(workers or os.cpu_count() or 1, len(builders)),
    )


def _builder(index: int, function: Any, dim: int, log_density: bool) -> Builder:
    if not callable(function):
        raise ValueError(
            f"`builders` must hold functions without arguments; builder {index} is "
            f"{type(function).__name__}. functools.partial(make, path) gives one its argument."
        )
    arguments: tuple[Any, ...] = ()
    if isinstance(function, functools.partial) and any(map(_is_dask, function.args)):
        # Dask hands over what stands there, on the worker.
        arguments = function.args
        function = functools.partial(function.func, **function.keywords)
    try:
        content = sent(function)
    except Exception as error:
        raise ValueError(
            f"`builders` must hold what can be sent to a worker; pickling builder {index} raised "
            f"{type(error).__name__}: {error}. Open files and connections inside the function."
        ) from error
    recipe = Recipe(index, content, dim, bool(log_density), __version__)
    return Builder(recipe, arguments)


def _is_dask(argument: Any) -> bool:
    future = require("distributed").Future
    return isinstance(argument, future) or hasattr(argument, "__dask_graph__")


def _told(builders: Any) -> str:
    return "none" if isinstance(builders, (list, tuple)) else type(builders).__name__
