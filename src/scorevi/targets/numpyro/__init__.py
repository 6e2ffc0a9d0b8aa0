"""Targets from NumPyro models: a log density in JAX, with the names that the model gives.

What NumPyro knows is asked of NumPyro: the bijections, the potential energy, the values of the
sites. The result is a JAX target, so that fits run in the compiled loop.
"""

from scorevi.targets.numpyro.making import from_numpyro

__all__ = ["from_numpyro"]
