"""From what a user hands over to a target."""

from __future__ import annotations

import sys
from typing import Any

from scorevi.base.target import Target, is_thread_safe
from scorevi.families import Gaussian, LowRank
from scorevi.targets.function import from_function
from scorevi.targets.pymc import from_pymc, is_model
from scorevi.targets.stan import from_stan


def as_target(thing: Any) -> Target:
    """Turn what a user hands to ``fit`` into a target.

    A target is taken as it is. Any object with ``dim`` and a method ``score``, and perhaps
    ``log_density``, becomes one; a :class:`~scorevi.Gaussian` is such an object. So does a
    ``pymc.Model``.

    Examples
    --------
    >>> from scorevi import Gaussian
    >>> as_target(Gaussian.standard(3)).has_log_density
    True
    """
    if isinstance(thing, Target):
        return thing
    # Whoever has a model has imported its language; nobody else should wait for that.
    bridgestan, pymc = sys.modules.get("bridgestan"), sys.modules.get("pymc")
    if bridgestan is not None and isinstance(thing, bridgestan.StanModel):
        return from_stan(thing)
    if pymc is not None and is_model(pymc, thing):
        return from_pymc(thing)
    if hasattr(thing, "dim") and callable(getattr(thing, "score", None)):
        log_density = getattr(thing, "log_density", None)
        return from_function(
            thing.score,
            thing.dim,
            log_density,
            getattr(thing, "names", None),
            thread_safe=isinstance(thing, (Gaussian, LowRank)) or is_thread_safe(thing),
        )
    if callable(thing):
        raise ValueError(
            "`target` is a plain function, whose dimension is not known. Wrap it: "
            "scorevi.from_jax(log_density, dim) or scorevi.from_function(score, dim), and a "
            "NumPyro model by scorevi.from_numpyro(model, data)."
        )
    raise ValueError(
        "`target` must be a target, made by scorevi.from_function, from_jax, from_numpyro, "
        "from_pymc, from_stan or from_shards; a PyMC model; or an object with the members dim and "
        f"score; got {type(thing).__name__}."
    )
