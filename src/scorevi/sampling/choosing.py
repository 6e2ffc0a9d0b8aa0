"""By which sampler chains run: BlackJAX where a target is in JAX, nutpie for all others."""

from __future__ import annotations

import importlib.metadata
import re
from typing import Literal

import numpy as np

from scorevi.base.extras import require
from scorevi.base.target import Target
from scorevi.targets.jax import JaxTarget

Sampler = Literal["nutpie", "blackjax"]
_KNOWN = ((1, 7), (2, 0))
"""Versions of BlackJAX whose pieces fit together as they are put together here: from, below."""


def sampler_for(target: Target) -> Sampler:
    """Return by which sampler the chains of a target run.

    BlackJAX runs whole chains in compiled code, where the score is a function in JAX that is
    computed in this process. One that asks Python on the way, by a callback, has nothing to gain
    by that, and may raise, which is a bad score to nutpie and would be the end of a compiled chain.
    """
    if isinstance(target, JaxTarget) and _has_blackjax() and not _calls_back(target):
        return "blackjax"
    return "nutpie"


def _has_blackjax() -> bool:
    try:
        version = importlib.metadata.version("blackjax")
    except importlib.metadata.PackageNotFoundError:
        return False
    numbers = tuple(int(part) for part in re.findall(r"\d+", version)[:2])
    return _KNOWN[0] <= numbers < _KNOWN[1]


def _calls_back(target: JaxTarget) -> bool:
    """Whether a score asks Python for something: by what it is made of, traced but not run."""
    jax = require("jax")
    with jax.enable_x64(True):
        point = jax.ShapeDtypeStruct((1, target.dim), np.float64)
        traced = jax.make_jaxpr(target.log_density_and_score)(point)
    return "callback[" in str(traced)
