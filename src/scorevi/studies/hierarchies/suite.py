"""Which models there are, and how each is made."""

from __future__ import annotations

import importlib
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, NamedTuple

from scorevi.base.extras import require
from scorevi.targets import Target


class Model(NamedTuple):
    """One form of one model."""

    family: str
    """The module that makes it."""
    maker: str
    arguments: Mapping[str, Any]
    through: str
    """The form of the same model that NUTS samples; its draws become draws of this one."""
    renamed: Mapping[str, str]
    """Names of parameters that are called otherwise in that form."""
    listed: bool
    """Whether it is part of the suite, or there only to be sampled."""

    def make(self) -> Target:
        """Make the target; a Stan program is compiled on first use."""
        require("jax")
        family = importlib.import_module(f"{__package__}.{self.family}")
        target: Target = getattr(family, self.maker)(**self.arguments)
        return target


def model(name: str) -> Model:
    """Return a model by name, listed or not."""
    if name not in MODELS:
        known = ", ".join(sorted(MODELS))
        raise ValueError(f"`name` must be that of a hierarchy; got {name!r}. There are {known}.")
    return MODELS[name]


def hierarchies() -> dict[str, Callable[[], Target]]:
    """Return ways to make all targets of the suite, by name.

    Examples
    --------
    >>> makers = hierarchies()
    >>> len(makers) >= 18, "meta-8-centered" in makers
    (True, True)
    """
    return {name: partial(_made, name) for name, model in MODELS.items() if model.listed}


def _made(name: str) -> Target:
    return MODELS[name].make()


def _forms(
    name: str,
    family: str,
    maker: str,
    *,
    sampled: str = "noncentered",
    listed: tuple[str, ...] = ("centered", "noncentered"),
    **arguments: Any,
) -> dict[str, Model]:
    """Return both forms of a model, by name."""
    return {
        f"{name}-{form}": Model(
            family,
            maker,
            {**arguments, "centered": form == "centered"},
            through=f"{name}-{sampled}",
            renamed={},
            listed=form in listed,
        )
        for form in ("centered", "noncentered")
    }


def _single(
    name: str, family: str, maker: str, *, listed: bool = True, **arguments: Any
) -> dict[str, Model]:
    """Return a model of one form, by name."""
    return {name: Model(family, maker, arguments, name, {}, listed)}


def _stan(family: str, maker: str, through: str, **renamed: str) -> Model:
    return Model(family, maker, {}, through, renamed, listed=True)


_SCALES = {"tau": "log_tau", "sigma": "log_sigma"}

MODELS: dict[str, Model] = {
    **_forms("radon", "intercepts", "intercepts", data="radon"),
    **_forms("radon-predictor", "intercepts", "predicted"),
    **_forms("clinics", "intercepts", "intercepts", data="clinics", listed=()),
    "clinics-stan": _stan("intercepts", "intercepts_stan", "clinics-noncentered", **_SCALES),
    **_forms("cafes", "slopes", "slopes", data="cafes"),
    **_forms("schools", "slopes", "slopes", data="schools", listed=()),
    "schools-stan": _stan(
        "slopes", "slopes_stan", "schools-noncentered", **_SCALES, factor="corr", z="b_z"
    ),
    **_forms("growth", "growth", "growth", sampled="centered"),
    **_forms("plates", "binomial", "plates"),
    **_forms("seeds", "binomial", "seeds", listed=()),
    "seeds-stan": _stan("binomial", "seeds_stan", "seeds-noncentered", precision="log_precision"),
    **_forms("hospitals", "binomial", "hospitals"),
    **_forms("sites", "counts", "sites"),
    **_forms("population", "counts", "population", listed=("centered",)),
    **_forms("items", "items", "two_parameters"),
    **_forms("meta-8", "meta", "studies", count=8),
    **_forms("meta-40", "meta", "studies", count=40),
    **_forms("crossed", "crossed", "crossed"),
    **_forms("level", "states", "local_level", sampled="centered"),
    **_single("horseshoe-wide", "sparse", "horseshoe", data="wide"),
    **_single("horseshoe", "sparse", "horseshoe", data="tall", listed=False),
    "horseshoe-stan": _stan(
        "sparse",
        "horseshoe_stan",
        "horseshoe",
        **_SCALES,
        z="beta_z",
        slab_variance="log_slab",
        **{"lambda": "log_lambda"},
    ),
    **_single("process-normal", "processes", "process", outcome="normal"),
    **_single("process-poisson", "processes", "process", outcome="poisson"),
    **_single("two-normals", "mixture", "two_normals"),
}
"""All forms of all models, by name."""

HELD_OUT = frozenset(
    {
        "radon-predictor-centered",
        "radon-predictor-noncentered",
        "schools-stan",
        "hospitals-centered",
        "hospitals-noncentered",
        "population-centered",
        "meta-40-centered",
        "meta-40-noncentered",
        "crossed-centered",
        "crossed-noncentered",
        "horseshoe-wide",
        "process-poisson",
    }
)
"""Not to be looked at while anything is tuned; both forms of a model are in it or neither is."""
