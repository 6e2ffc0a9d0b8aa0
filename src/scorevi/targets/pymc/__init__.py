"""Targets from PyMC models: compiled once by PyTensor, in double precision.

The data and the lengths of the dims are taken as they are when the target is made, and become
constants of its functions: a later ``pm.set_data`` changes the model, not the target. Apart from
that it lets PyTensor fix every shape, which makes for faster code.
"""

from scorevi.targets.pymc.making import from_pymc, is_model
from scorevi.targets.pymc.target import PymcTarget

__all__ = ["PymcTarget", "from_pymc", "is_model"]
