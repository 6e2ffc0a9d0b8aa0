"""Making a target of a NumPyro model and its arguments."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scorevi.base.extras import require
from scorevi.base.source import source_of
from scorevi.targets.jax import JaxTarget, from_jax
from scorevi.targets.jax.pytrees import path_name
from scorevi.targets.numpyro.predicting import Predicting, drawn_like
from scorevi.targets.numpyro.sites import (
    Site,
    Structure,
    refuse,
    start_value,
    structure_of,
    supports,
)
from scorevi.targets.observations import warn_of_nan, warn_of_support
from scorevi.targets.points import Inverse, joined

_LOCK = threading.RLock()


def from_numpyro(model: Callable[..., Any], /, *args: Any, **kwargs: Any) -> JaxTarget:
    """Make a target of a NumPyro model.

    The parameters are the latent sites, in the order of the model, on the unconstrained space
    that NumPyro's own samplers use. Draws carry them on their own scale, and with them the
    deterministic sites. ArviZ also gets the data of the observed sites, the log likelihood of
    each observation, and plates as the names of axes.

    Parameters
    ----------
    model
        A function with NumPyro's primitives, perhaps under its handlers (``condition``,
        ``reparam``, ``mask``, ``scale``…).
    *args, **kwargs
        All go to the model. Arrays of floating-point numbers are made double precision, and
        those of whole numbers, which may be indices, 32 bits where they fit.

    Raises
    ------
    ValueError
        If the model has no latent site, or one that is discrete, a constant, or on a space
        without a map from the unconstrained one; if it has a ``numpyro.param`` site; or if
        a plate takes a subsample. The message names the site and says what to do.

    Notes
    -----
    Arrays that the model closes over should be NumPy arrays, or made in double precision: JAX
    makes single-precision arrays by default, and what was rounded stays rounded.

    An angle with ``circular`` support is fitted on the interval from −π to π, cut open there:
    NumPyro's ``CircularReparam`` is better where the posterior comes near the cut.

    Terms added by ``numpyro.factor`` count in the log density, but are no observations, and are
    not among the log likelihoods. Those are of one observation each, whatever ``scale`` they are
    counted with.

    Examples
    --------
    >>> import numpyro
    >>> import numpyro.distributions as dist
    >>> import scorevi
    >>> def model(y):
    ...     mu = numpyro.sample("mu", dist.Normal(0, 5))
    ...     sigma = numpyro.sample("sigma", dist.HalfNormal(2))
    ...     with numpyro.plate("day", len(y)):
    ...         numpyro.sample("y", dist.Normal(mu, sigma), obs=y)
    >>> target = scorevi.from_numpyro(model, np.array([1.2, 0.7, 2.4, 1.9]))
    >>> [parameter.name for parameter in target.parameters]
    ['mu', 'sigma']
    >>> fit = scorevi.fit(target, seed=0)
    >>> bool((fit.draws(100, seed=0)["sigma"] > 0).all())
    True
    """
    if not callable(model):
        raise ValueError(
            f"`model` must be a function with NumPyro's primitives; got {type(model).__name__}."
        )
    numpyro, jax = require("numpyro"), require("jax")
    util = require("numpyro.infer.util")
    substitute = numpyro.handlers.substitute
    # Before the model sees them: NumPyro may refuse what it computes from NaN, without their name.
    said = warn_of_nan(_by_name(jax, model, args, kwargs), "model", "model", stacklevel=2)
    with jax.enable_x64(True):
        args, kwargs = jax.tree.map(lambda leaf: _argument(jax, leaf), (args, kwargs))
        # The key is for what is random beside the latent sites, which then stays as it is.
        seeded = numpyro.handlers.seed(model, 0)

        def trace(conditioned: Callable[..., Any]) -> dict[str, Site]:
            return dict(numpyro.handlers.trace(conditioned).get_trace(*args, **kwargs))

        found: list[Structure] = []

        def look() -> dict[str, Any]:
            sites = trace(substitute(seeded, substitute_fn=lambda site: start_value(numpyro, site)))
            refuse(numpyro, sites)
            structure, data = structure_of(numpyro, jax, sites)
            found.append(structure)
            return data

        # Compiled, because operation by operation JAX would compile each of them by itself.
        data = jax.jit(look)()
        latent, derived, dims, bounded = found[0]
        observed = {name: np.asarray(value) for name, value in data.items()}

        @_alone
        def log_density(position: Any) -> Any:
            return -util.potential_energy(seeded, args, kwargs, position)

        @_alone
        def values(names: Iterable[str], position: Any) -> Any:
            all_values = util.constrain_fn(
                seeded, args, kwargs, position, return_deterministic=True
            )
            return OrderedDict((name, all_values[name]) for name in names)

        @_alone
        def log_likelihood(position: Any) -> Any:
            at = trace(substitute(seeded, data=values(latent, position)))
            return OrderedDict(
                (name, at[name]["fn"].log_prob(at[name]["value"])) for name in observed
            )

        @_alone
        def draw_data(named: Any, key: Any) -> Any:
            anew = numpyro.handlers.seed(numpyro.handlers.uncondition(model), key)
            at = trace(substitute(anew, data=named))
            return drawn_like(jax, at, {name: y.shape for name, y in observed.items()}, key)

        def unconstrain(named: dict[str, Any]) -> Any:
            # Values that are no good are found by what comes of them, and named.
            with jax.enable_x64(True), numpyro.validation_enabled(False):
                position = util.unconstrain_fn(seeded, args, kwargs, named)
                return joined({name: np.asarray(position[name]) for name in latent})

        target = from_jax(
            log_density,
            OrderedDict((name, np.zeros(shape)) for name, shape in latent.items()),
            constrain=lambda position: values(latent, position),
            derive=(lambda position: values(derived, position)) if derived else None,
            log_likelihood=log_likelihood if observed else None,
            observed=observed,
            dims=dims,
            source=source_of(model),
        )

        if not said:
            warn_of_nan(observed, "model", "model", stacklevel=2)
        if bounded:

            def sites_at(position: Any) -> Any:
                return trace(substitute(seeded, data=values(latent, position)))

            for name, inside, support in supports(jax, sites_at, bounded, latent):
                warn_of_support(name, observed[name], inside, support, stacklevel=2)
    constrain = target.variables.constrain
    assert constrain is not None
    inverse = Inverse(unconstrain, constrain, target.parameters)
    predict = Predicting(constrain, draw_data) if observed else None
    named = dataclasses.replace(target.variables, unconstrain=inverse, predict=predict)
    return dataclasses.replace(target, variables=named)


def _alone(function: Callable[..., Any]) -> Callable[..., Any]:
    """Let one thread at a time run a model: NumPyro's handlers are the same for all threads.

    That happens only when JAX traces it; what was compiled knows nothing of handlers.
    """

    @functools.wraps(function)
    def alone(*args: Any) -> Any:
        with _tracing():
            return function(*args)

    return alone


def _tracing() -> threading.RLock:
    """Return the lock; what goes to other processes may refer to a function, not to a lock."""
    return _LOCK


def _argument(jax: Any, leaf: Any) -> Any:
    """Make floating-point numbers double precision, and whole numbers 32 bits if they fit."""
    if not isinstance(leaf, (np.ndarray, np.generic, jax.Array)):
        return leaf
    if jax.numpy.issubdtype(leaf.dtype, np.floating):
        return leaf.astype(np.float64)
    # JAX keeps what it compiles for a NumPy array of 64-bit indices, and takes it again where 64
    # bits are off: the user's own later use of the array would fail.
    if leaf.dtype in (np.int64, np.uint64) and leaf.size:
        limits = np.iinfo(np.int32)
        if limits.min <= leaf.min() and leaf.max() <= limits.max:
            return leaf.astype(np.int32)
    return leaf


def _by_name(
    jax: Any, model: Any, args: Sequence[Any], kwargs: Mapping[str, Any]
) -> dict[str, Any]:
    """Return the arrays among the arguments of a model, by the names that it has for them."""
    try:
        named = dict(inspect.signature(model).bind(*args, **kwargs).arguments)
    except (TypeError, ValueError):  # handlers, which take anything
        named = {f"argument {number}": value for number, value in enumerate(args)}
        named |= kwargs
    leaves, _ = jax.tree_util.tree_flatten_with_path(named)
    return {path_name(path): leaf for path, leaf in leaves}
