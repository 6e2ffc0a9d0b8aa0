"""Many Gaussians looked at together: the same as one after the other."""

import numpy as np
import pytest
import scipy.special

from scorevi import Gaussian, Mixture
from scorevi.examples import random_gaussian
from scorevi.families.stacked import log_sum


def mixture(dim, condition, scale):
    scales = np.geomspace(scale, 1.0, dim) if scale < 1.0 else np.geomspace(1.0, scale, dim)
    parts = [random_gaussian(dim, condition, seed=seed) for seed in range(4)]
    return Mixture(
        [0.1, 0.2, 0.3, 0.4],
        [
            Gaussian(scales * (part.mean + k), scales[:, None] * part.factor, None)
            for k, part in enumerate(parts)
        ],
    )


@pytest.mark.parametrize("dim", [1, 3, 14, 60])
@pytest.mark.parametrize("condition", [1.0, 1e4, 1e10])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_it_is_what_each_component_says(dim, condition, scale):
    q = mixture(dim, condition, scale)
    theta = q.sample(100, seed=0)
    log_parts, log_q, score = q.look(theta)
    each = np.stack([part.log_density(theta) for part in q.components], axis=1) + q.log_weights
    digits = 1e-10 * np.sqrt(condition)
    np.testing.assert_allclose(log_parts, each, rtol=digits, atol=digits)
    np.testing.assert_allclose(q.log_parts(theta), log_parts, rtol=1e-12, atol=1e-12)
    total = scipy.special.logsumexp(each, axis=1)
    np.testing.assert_allclose(log_q, total, rtol=digits, atol=digits)
    shares = np.exp(each - total[:, None])
    scores = np.stack([part.score(theta) for part in q.components], axis=1)
    expected = q.coordinates.whiten_score(np.einsum("nk,nkd->nd", shares, scores))
    found = q.coordinates.whiten_score(score)
    np.testing.assert_allclose(found, expected, rtol=digits, atol=digits * np.abs(expected).max())


def test_it_does_not_depend_on_how_many_points_there_are():
    q = mixture(14, 10.0, 1.0)
    theta = q.sample(3000, seed=0)
    np.testing.assert_allclose(q.look(theta).score[2990:], q.look(theta[2990:]).score, rtol=1e-10)


def test_the_sum_of_nothing_is_nothing():
    parts = np.array([[-np.inf, -np.inf], [0.0, -np.inf], [-1e4, -1e4]])
    np.testing.assert_allclose(log_sum(parts), [-np.inf, 0.0, -1e4 + np.log(2.0)])
