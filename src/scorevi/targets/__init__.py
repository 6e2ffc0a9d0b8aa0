"""Where scores come from."""

from __future__ import annotations

from scorevi.base.target import Evaluation, Failure, Parameter, Target
from scorevi.base.variables import Variables
from scorevi.targets.function import FunctionTarget, from_function
from scorevi.targets.jax import JaxTarget, from_jax
from scorevi.targets.numpyro import from_numpyro
from scorevi.targets.pymc import PymcTarget, from_pymc
from scorevi.targets.shards import ShardedTarget, from_shards
from scorevi.targets.stan import StanTarget, from_stan
from scorevi.targets.taking import as_target

__all__ = [
    "Evaluation",
    "Failure",
    "FunctionTarget",
    "JaxTarget",
    "Parameter",
    "PymcTarget",
    "ShardedTarget",
    "StanTarget",
    "Target",
    "Variables",
    "as_target",
    "from_function",
    "from_jax",
    "from_numpyro",
    "from_pymc",
    "from_shards",
    "from_stan",
]
