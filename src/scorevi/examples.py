"""Targets to try things on; see :mod:`scorevi.targets.synthetic`."""

from scorevi.targets.synthetic import (
    eight_schools,
    funnel,
    gaussian,
    random_gaussian,
    sinh_arcsinh,
)

__all__ = ["eight_schools", "funnel", "gaussian", "random_gaussian", "sinh_arcsinh"]
