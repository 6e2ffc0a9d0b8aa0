"""Fits that nobody had to make."""

import dataclasses

import numpy as np
from conftest import gsm_fit

import scorevi
from scorevi.base.target import Parameter


def many(dim):
    """A fit of many parameters, some of them correlated."""
    rng = np.random.default_rng(0)
    factor = np.diag(np.exp(rng.standard_normal(dim)))
    factor[:, :3] += 0.5 * rng.standard_normal((dim, 3))
    q = scorevi.Gaussian(rng.standard_normal(dim), factor, 0.0)
    small = gsm_fit(scorevi.examples.random_gaussian(3), max_gradients=100)
    parameters = (Parameter("alpha"), Parameter("effect", (dim - 1,)))
    return dataclasses.replace(small, q=q, parameters=parameters, target=None)
