"""Shards in Stan: compiled here, or found in the cache, and loaded by each worker."""

import functools

import numpy as np
import pytest
from stan_programs import PROGRAMS, REGRESSION

import scorevi

pytest.importorskip("distributed")
pytest.importorskip("bridgestan")

from scorevi.base.cluster import connected

pytestmark = [pytest.mark.dask, pytest.mark.slow]


def _part(number):
    rng = np.random.default_rng(number)
    x = rng.standard_normal(20)
    data = {"N": 20, "x": x, "y": 1 + 2 * x + rng.standard_normal(20)}
    return scorevi.from_stan(REGRESSION, data, include_paths=[PROGRAMS])


def test_the_sum_of_two_programs():
    here = [_part(number) for number in range(2)]
    points = np.random.default_rng(0).standard_normal((3, here[0].dim))
    expected = [target.evaluate(points) for target in here]
    with connected(None, 2) as client:
        builders = [functools.partial(_part, number) for number in range(2)]
        target = scorevi.from_shards(builders, here[0].dim, client=client)
        found = target.evaluate(points)
    assert np.array_equal(found.score, expected[0].score + expected[1].score)
    assert np.array_equal(found.log_density, expected[0].log_density + expected[1].log_density)
