"""Draws for ArviZ."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Collection
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.special

from scorevi.base.arrays import AnyArray, Array, Seed, as_count, seed_entropy
from scorevi.base.evaluate import Evaluator
from scorevi.base.extras import require
from scorevi.base.status import warn_each_time
from scorevi.base.target import named_by, split
from scorevi.base.variables import Include, Variables, check_include

if TYPE_CHECKING:
    from scorevi.results.fit import Fit
    from scorevi.results.sample import Sample

_OF_ARVIZ = ("chain", "draw")
_REASON = 300
"""The most characters of another library's message to repeat."""


def to_arviz(fit: Fit, size: int = 1000, seed: Seed = None, include: Include = "all") -> Any:
    """Return draws as InferenceData (ArviZ 0.x) or DataTree (1.x), as one chain.

    The groups:

    - ``posterior``: the constrained parameters and, unless ``include`` is ``"parameters"``, what
      the model derives from them. Log likelihoods and draws of data have groups of their own,
      whatever ``include`` is.
    - ``unconstrained_posterior``: the same draws on the space that was fitted
    - ``sample_stats``: ``lp``, the log density of the target; ``log_q``, that of the fitted
      Gaussian, both on the unconstrained space; ``importance_weight``, proportional to their
      ratio and summing to one. The target is evaluated once per draw for it.
    - ``log_likelihood``, ``posterior_predictive`` and ``observed_data``, where the model tells
      them

    ArviZ has axes called ``chain`` and ``draw``. Variables and axes of these names get an
    underscore at the end, as does an axis that has the name of a variable; the attribute
    ``renamed`` says so.
    """
    check_include(include)
    entropy = seed_entropy(seed)
    theta = fit.sample(as_count("size", size), entropy)
    return as_arviz(fit, theta, entropy, include, importance, _attributes(fit, entropy))


def as_arviz(
    owner: Fit | Sample,
    theta: Array,
    entropy: int,
    include: Include,
    stats: Callable[[Any, Array], dict[str, AnyArray]],
    attributes: dict[str, Any],
    chains: int = 1,
) -> Any:
    """Return draws (n, D), one chain after another, with all that their owner can say of them."""
    arviz = require("arviz")
    variables = Variables() if owner.target is None else owner.target.variables
    predicted = _predicted(variables, theta, entropy)
    values = _all_but_predicted(owner, theta, entropy)
    pointwise = variables.pointwise(theta)
    observed = {name: np.asarray(value) for name, value in variables.observed.items()}
    variables.check_names(
        {name: value.shape[1:] for name, value in (values | predicted).items()},
        {name: value.shape[1:] for name, value in pointwise.items()}
        | {name: value.shape for name, value in observed.items()},
    )
    wanted = owner.named(theta[:1], "parameters") if include == "parameters" else values
    posterior = {name: value for name, value in values.items() if name in wanted}
    groups = {
        "posterior": {
            name: value
            for name, value in variables.included(posterior, "all").items()
            if name not in pointwise
        },
        "unconstrained_posterior": split(theta, owner.parameters),
        "sample_stats": stats(owner, theta),
        "log_likelihood": pointwise,
        "posterior_predictive": predicted | {name: values[name] for name in variables.predictive},
    }
    data = {group: named for group, named in groups.items() if named}
    return _tree(arviz, data, observed, variables, attributes, chains)


def _all_but_predicted(owner: Fit | Sample, theta: Array, seed: int) -> dict[str, Array]:
    """Return all named variables, those apart too, but not what is drawn anew."""
    if owner.target is None:
        return owner.named(theta, "everything", seed)
    silent = dataclasses.replace(owner.target.variables, predict=None)
    return named_by(silent, owner.parameters, theta, "everything", seed)


def _predicted(variables: Variables, theta: Array, seed: int) -> dict[str, Array]:
    """Return draws of data; none, and a warning, where the model cannot be drawn from."""
    try:
        return variables.predicted(theta, seed)
    except ValueError as error:
        warn_each_time(f"The group posterior_predictive is left out: {reason_of(error)}.")
        return {}


def reason_of(error: Exception) -> str:
    """Return the first line of another library's message; some go on with what they were given."""
    return str(error).partition("\n")[0].rstrip(".")[:_REASON]


def importance(fit: Fit, theta: Array) -> dict[str, Array]:
    """Return the log densities of target and q at the rows of theta, and the weights from them."""
    log_q = fit.q.log_density(theta)
    if fit.target is None or not fit.target.has_log_density:
        return {"log_q": log_q}
    lp = Evaluator(fit.target)(theta).log_density
    assert lp is not None
    with np.errstate(invalid="ignore"):
        ratio = np.where(np.isfinite(lp), lp - log_q, -np.inf)
        weight = scipy.special.softmax(ratio) if np.isfinite(ratio).any() else ratio * np.nan
    return {"lp": lp, "log_q": log_q, "importance_weight": weight}


def _attributes(fit: Fit, entropy: int) -> dict[str, Any]:
    return {
        "inference_library": "scorevi",
        "inference_library_version": fit.version,
        "solver": fit.solver,
        "seed": str(fit.seed),
        "draws_seed": str(entropy),
        "num_gradients": fit.num_gradients,
        "num_updates": fit.num_updates,
        "seconds": fit.seconds,
        "elbo": fit.elbo,
        "fisher": fit.fisher,
        "status": str(fit.status),
    }


def _tree(
    arviz: Any,
    groups: dict[str, dict[str, Array]],
    observed: dict[str, Array],
    variables: Variables,
    attributes: dict[str, Any],
    chains: int,
) -> Any:
    """Assemble what the installed ArviZ calls its data."""
    variable_names = {name for named in (*groups.values(), observed) for name in named}
    axes = {*variables.coords, *(axis for names in variables.dims.values() for axis in names)}
    new_name = _replacements(variable_names, _OF_ARVIZ)
    new_axis = _replacements(axes, {*_OF_ARVIZ, *variable_names, *new_name.values()})
    pairs = {*new_name.items(), *new_axis.items()}
    renamed = [f"{old} to {new}" for old, new in pairs if old != new]
    if renamed:
        attributes = attributes | {"renamed": ", ".join(sorted(renamed))}
    groups = {
        group: {new_name[name]: value for name, value in named.items()}
        for group, named in groups.items()
    }
    sampled = {
        group: {name: value.reshape(chains, -1, *value.shape[1:]) for name, value in named.items()}
        for group, named in groups.items()
    }
    observed = {new_name[name]: value for name, value in observed.items()}
    dims = {
        new_name.get(name, name): [new_axis[axis] for axis in axes]
        for name, axes in variables.dims.items()
    }
    coords = {new_axis[name]: np.asarray(labels) for name, labels in variables.coords.items()}
    # These two may have other shapes, and so other dims, than the variables they are named after.
    own_dims = {
        "unconstrained_posterior": _where_alike(
            dims, groups["unconstrained_posterior"], groups["posterior"]
        ),
        "log_likelihood": _leading(dims, groups.get("log_likelihood", {})),
    }
    apart = {group: sampled.pop(group) for group in own_dims if group in sampled}
    if int(arviz.__version__.partition(".")[0]) >= 1:
        if observed:
            sampled["observed_data"] = observed
        data = arviz.from_dict(
            sampled, coords=coords, dims=dims, attrs={"/": attributes, "posterior": attributes}
        )
        for group, named in apart.items():
            data[group] = arviz.from_dict({group: named}, coords=coords, dims=own_dims[group])[
                group
            ]
        return data
    data = arviz.from_dict(
        **sampled,
        observed_data=observed or None,
        coords=coords,
        dims=dims,
        attrs=attributes,
        posterior_attrs=attributes,
    )
    for group, named in apart.items():
        dataset = arviz.convert_to_dataset(named, coords=coords, dims=own_dims[group])
        data.add_groups({group: dataset}, warn_on_custom_groups=False)
    return data


def _replacements(names: Collection[str], reserved: Collection[str]) -> dict[str, str]:
    """Return a name for each: its own, or if that is reserved one with underscores at the end."""
    taken = {*names, *reserved}
    new = {}
    for name in sorted(names):
        new[name] = name
        if name in reserved:
            while new[name] in taken:
                new[name] += "_"
            taken.add(new[name])
    return new


def _where_alike(
    dims: dict[str, list[str]], named: dict[str, Array], like: dict[str, Array]
) -> dict[str, list[str]]:
    """Leave out the dims of a parameter whose unconstrained form has another shape."""
    return {
        name: axes
        for name, axes in dims.items()
        if name not in named or name not in like or named[name].shape == like[name].shape
    }


def _leading(dims: dict[str, list[str]], named: dict[str, Array]) -> dict[str, list[str]]:
    """Cut the dims of multivariate data, whose log likelihood has fewer axes than they have."""
    return {name: dims[name][: value.ndim - 1] for name, value in named.items() if name in dims}
