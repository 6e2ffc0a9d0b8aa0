"""Targets to try things on; see :mod:`scorevi.targets.synthetic`."""

from scorevi.targets.synthetic import (
    dense_base,
    eight_schools,
    funnel,
    gaussian,
    logistic_data,
    logistic_regression,
    random_gaussian,
    sinh_arcsinh,
)

__all__ = [
    "dense_base",
    "eight_schools",
    "funnel",
    "gaussian",
    "logistic_data",
    "logistic_regression",
    "random_gaussian",
    "sinh_arcsinh",
]
