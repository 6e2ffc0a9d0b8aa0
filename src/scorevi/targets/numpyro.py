"""Targets from NumPyro models: a log density in JAX, with the names that the model gives.

What NumPyro knows is asked of NumPyro: the bijections, the potential energy, the values of the
sites. The result is a JAX target, so that fits run in the compiled loop.
"""

from __future__ import annotations

import dataclasses
import functools
import inspect
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.extras import require
from scorevi.targets.jax import JaxTarget, from_jax, is_real, path_name
from scorevi.targets.observations import warn_of_nan, warn_of_support
from scorevi.targets.points import Inverse, joined

Site = Mapping[str, Any]
_LOCK = threading.RLock()


class _Structure(NamedTuple):
    """The names in a model, each in the order of the model."""

    latent: dict[str, tuple[int, ...]]
    """Latent sites, with the shapes of their unconstrained forms."""
    derived: list[str]
    """Deterministic sites that hold real numbers."""
    dims: dict[str, list[str]]
    bounded: list[str]
    """Observed sites that cannot have every value."""


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

        found: list[_Structure] = []

        def look() -> dict[str, Any]:
            sites = trace(substitute(seeded, substitute_fn=lambda site: _start(numpyro, site)))
            _refuse(numpyro, sites)
            structure, data = _structure(numpyro, jax, sites)
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
        )

        if not said:
            warn_of_nan(observed, "model", "model", stacklevel=2)
        if bounded:

            def sites_at(position: Any) -> Any:
                return trace(substitute(seeded, data=values(latent, position)))

            for name, inside, support in _supports(jax, sites_at, bounded, latent):
                warn_of_support(name, observed[name], inside, support, stacklevel=2)
    constrain = target.variables.constrain
    assert constrain is not None
    inverse = Inverse(unconstrain, constrain, target.parameters)
    named = dataclasses.replace(target.variables, unconstrain=inverse)
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


def _start(numpyro: Any, site: Site) -> Any:
    """Give a latent site a value that it can have: the image of zero."""
    if not _is_latent(site) or _is_discrete(site):
        return None
    name = site["name"]
    if site["value"] is not None:
        raise ValueError(
            f"`model` must leave its latent sites free; {name!r} has a value, perhaps by "
            "handlers.substitute. To hold it there, use handlers.condition."
        )
    bijection = _bijection(numpyro, site)
    shape = site["kwargs"].get("sample_shape", ()) + bijection.inverse_shape(site["fn"].shape())
    return bijection(np.zeros(shape))


def _is_discrete(site: Site) -> bool:
    return bool(getattr(site["fn"].support, "is_discrete", False))


def _bijection(numpyro: Any, site: Site) -> Any:
    support = site["fn"].support
    try:
        return numpyro.distributions.biject_to(support)
    except NotImplementedError:
        raise ValueError(
            f"`model` must have latent sites that NumPyro can map from the unconstrained space; "
            f"{site['name']!r} has support {support}. Write it in terms of other sites, by hand "
            "or with numpyro.handlers.reparam (ProjectedNormalReparam for a direction)."
        ) from None


def _refuse(numpyro: Any, sites: Mapping[str, Site]) -> None:
    """Refuse a model that cannot be fitted, by the name of the site."""
    for name, site in sites.items():
        if site["type"] == "plate" and len(site["value"]) != site["args"][0]:
            raise ValueError(
                f"`model` must use all of its data; the plate {name!r} takes a subsample of "
                f"{len(site['value'])} out of {site['args'][0]}, and the scores would be noise. "
                "Leave out its `subsample_size`."
            )
    params = [name for name, site in sites.items() if site["type"] == "param"]
    if params:
        raise ValueError(
            f"`model` must have a prior for all that is fitted; {_listed(params)} by "
            "numpyro.param has none. Make it a numpyro.sample site; or, to hold it at its initial "
            f"value, hand over numpyro.handlers.block(model, hide={params})."
        )
    latent = [name for name, site in sites.items() if _is_latent(site)]
    if not latent:
        raise ValueError(
            "`model` must have at least one latent site; all of its numpyro.sample sites are "
            "observed, or it has none."
        )
    discrete = [name for name in latent if _is_discrete(sites[name])]
    if discrete:
        raise ValueError(
            f"`model` must have continuous latent sites; {_listed(discrete)} is discrete. Sum it "
            "out of the model: a mixture as numpyro.distributions.MixtureSameFamily, or the "
            "logsumexp over its values in numpyro.factor. Sites marked for enumeration are not "
            "enumerated here. If it is data, pass it as `obs`."
        )
    constant = [name for name in latent if _is_delta(numpyro, sites[name]["fn"])]
    if constant:
        raise ValueError(
            f"`model` must have latent sites with a density; {_listed(constant)} has a Delta "
            "distribution. Use numpyro.deterministic."
        )


def _is_delta(numpyro: Any, distribution: Any) -> bool:
    # Plates and masks wrap the distribution that was written.
    while not isinstance(distribution, numpyro.distributions.Delta):
        if not hasattr(distribution, "base_dist"):
            return False
        distribution = distribution.base_dist
    return True


def _structure(
    numpyro: Any, jax: Any, sites: Mapping[str, Site]
) -> tuple[_Structure, dict[str, Any]]:
    """Return what is to be known about the sites, and the data of the observed ones."""
    latent, observed, derived = {}, {}, []
    for name, site in sites.items():
        value = site["value"]
        if _is_latent(site):
            latent[name] = jax.eval_shape(_bijection(numpyro, site).inv, value).shape
        elif site["type"] == "sample" and np.size(value):
            # What numpyro.factor adds looks like an observation of nothing, of size zero.
            observed[name] = jax.numpy.broadcast_to(value, _full_shape(site))
        elif site["type"] == "deterministic" and is_real(jax, value):
            derived.append(name)
    empty = [name for name, shape in latent.items() if 0 in shape]
    if empty:
        raise ValueError(
            f"`model` must have latent sites that can vary; {_listed(empty)} has no degree of "
            "freedom, such as a simplex of one entry. Replace it by its only value."
        )
    dims = _dims(sites, [*latent, *derived, *observed])
    bounded = [name for name in observed if _is_bounded(numpyro, sites[name]["fn"])]
    return _Structure(latent, derived, dims, bounded), observed


def _is_bounded(numpyro: Any, distribution: Any) -> bool:
    """Whether some values are outside the support, and none is masked, as those may be."""
    real = getattr(distribution.support, "base_constraint", distribution.support)
    if real is numpyro.distributions.constraints.real:
        return False
    while distribution is not None:
        if isinstance(distribution, numpyro.distributions.MaskedDistribution):
            return False
        distribution = getattr(distribution, "base_dist", None)
    return True


def _supports(
    jax: Any,
    sites_at: Callable[[Any], Mapping[str, Site]],
    names: Sequence[str],
    latent: Mapping[str, tuple[int, ...]],
) -> Iterator[tuple[str, Any, str]]:
    """Yield observed sites, whether they are inside their supports, and those in words.

    Only supports that are the same at two points: another one may come to hold all data yet.
    """
    kinds: dict[str, str] = {}

    def look(position: Any) -> Any:
        sites = sites_at(position)
        found = {}
        for name in names:
            support = sites[name]["fn"].support
            kinds[name] = type(support).__name__.lstrip("_")
            bounds = [jax.numpy.asarray(leaf) for leaf in jax.tree.leaves(support)]
            value = jax.numpy.broadcast_to(sites[name]["value"], _full_shape(sites[name]))
            found[name] = support(value), bounds
        return found

    rng, compiled = np.random.default_rng(0), jax.jit(look)
    one, other = (
        compiled({name: rng.uniform(-1, 1, shape) for name, shape in latent.items()})
        for _ in range(2)
    )
    for name, (inside, bounds) in one.items():
        if all(map(np.array_equal, bounds, other[name][1])):
            figures = ", ".join(str(bound) for bound in bounds if np.ndim(bound) == 0)
            yield name, np.asarray(inside), kinds[name] + (f"({figures})" if figures else "")


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


def _is_latent(site: Site) -> bool:
    return bool(site["type"] == "sample" and not site["is_observed"])


def _full_shape(site: Site) -> tuple[int, ...]:
    """Return the shape of a site: one datum may stand for all that a plate holds."""
    if site["type"] == "deterministic":
        return np.shape(site["value"])
    return np.broadcast_shapes(np.shape(site["value"]), site["fn"].shape())


def _dims(sites: Mapping[str, Site], names: Sequence[str]) -> dict[str, list[str]]:
    """Name the axes after the plates; an axis without one gets the name that ArviZ would give."""
    found = {name: _axes(sites[name]) for name in names}
    return {
        name: [
            axes.get(axis, f"{name}_dim_{axis}") for axis in range(len(_full_shape(sites[name])))
        ]
        for name, axes in found.items()
        if axes
    }


def _axes(site: Site) -> dict[int, str]:
    """Return the plates by the axis that they are along."""
    plates = site["cond_indep_stack"]
    shape = _full_shape(site)
    if site["type"] == "deterministic":
        # Nothing says where its plates end and its own axes begin, but the sizes.
        event_dims = range(len(shape))
    else:
        event_dims = range(site["fn"].event_dim, site["fn"].event_dim + 1)
    for event_dim in event_dims:
        axes = {len(shape) - event_dim + frame.dim: frame for frame in plates}
        if all(axis >= 0 and shape[axis] == frame.size for axis, frame in axes.items()):
            return {axis: frame.name for axis, frame in axes.items()}
    return {}


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(repr, names))
