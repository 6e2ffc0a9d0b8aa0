"""Targets from JAX log densities: differentiated, vectorised and compiled, in double precision.

Everything runs under JAX's scoped 64-bit switch; the user's global setting is never touched.
"""

from scorevi.targets.jax.making import from_jax
from scorevi.targets.jax.target import JaxTarget

__all__ = ["JaxTarget", "from_jax"]
