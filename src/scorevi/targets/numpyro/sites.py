"""What the sites of a NumPyro model say: names, shapes, axes, supports, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from scorevi.targets.jax.pytrees import is_real

Site = Mapping[str, Any]


class Structure(NamedTuple):
    """The names in a model, each in the order of the model."""

    latent: dict[str, tuple[int, ...]]
    """Latent sites, with the shapes of their unconstrained forms."""
    derived: list[str]
    """Deterministic sites that hold real numbers."""
    dims: dict[str, list[str]]
    bounded: list[str]
    """Observed sites that cannot have every value."""


def start_value(numpyro: Any, site: Site) -> Any:
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


def refuse(numpyro: Any, sites: Mapping[str, Site]) -> None:
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


def structure_of(
    numpyro: Any, jax: Any, sites: Mapping[str, Site]
) -> tuple[Structure, dict[str, Any]]:
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
    return Structure(latent, derived, dims, bounded), observed


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


def supports(
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
