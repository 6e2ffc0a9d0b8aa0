"""Mixtures: densities, moments, draws, and what they refuse."""

import numpy as np
import pytest
import scipy.special
import scipy.stats

from scorevi import Gaussian, Mixture
from scorevi.examples import random_gaussian

WEIGHTS = np.array([0.2, 0.3, 0.5])


def mixture(dim=3, scale=1.0):
    parts = [random_gaussian(dim, 10.0, seed=seed) for seed in range(3)]
    moved = [
        Gaussian(scale * (part.mean + 2.0 * k), scale * part.factor, None)
        for k, part in enumerate(parts)
    ]
    return Mixture(WEIGHTS, moved)


@pytest.mark.parametrize("dim", [1, 2, 5])
@pytest.mark.parametrize("scale", [1e-8, 1.0, 1e8])
def test_its_density_is_that_of_scipy(dim, scale):
    q = mixture(dim, scale)
    theta = q.sample(50, seed=1)
    parts = [
        scipy.stats.multivariate_normal.logpdf(theta, part.mean, part.covariance, True)
        for part in q.components
    ]
    expected = scipy.special.logsumexp(np.stack(parts, 1), axis=1, b=WEIGHTS)
    np.testing.assert_allclose(q.log_density(theta), expected, rtol=1e-6, atol=1e-6)
    assert isinstance(q.log_density(theta[0]), float)


def test_its_score_is_the_gradient_of_its_log_density():
    q = mixture()
    for theta in q.sample(10, seed=0):
        steps = 1e-5 * np.eye(3)
        slopes = [(q.log_density(theta + s) - q.log_density(theta - s)) / 2e-5 for s in steps]
        np.testing.assert_allclose(q.score(theta), slopes, rtol=1e-5, atol=1e-6)


def test_moments_quantiles_and_entropy_are_those_of_its_draws():
    """Of 200,000 draws, to five standard errors: a false alarm in 10⁵ runs."""
    q, size = mixture(), 200_000
    draws = q.sample(size, seed=0)
    assert np.all(np.abs(draws.mean(axis=0) - q.mean) < 5 * q.sd / np.sqrt(size))
    np.testing.assert_allclose(np.cov(draws.T), q.covariance, rtol=0.03, atol=0.05)
    for level, values in zip((0.05, 0.5, 0.95), q.quantile((0.05, 0.5, 0.95)), strict=True):
        share = (draws < values).mean(axis=0)
        assert np.all(np.abs(share - level) < 5 * np.sqrt(level * (1 - level) / size))
    value, error = q.entropy()
    exact = -q.log_density(draws).mean()
    assert abs(value - exact) < 5 * error


def test_draws_of_noise_are_even_over_the_components():
    q = Mixture([0.25, 0.75], [Gaussian([-1e3], [[1.0]]), Gaussian([1e3], [[1.0]])])
    rng = np.random.default_rng(0)
    for size in (1, 2, 7, 40):
        points = q.points(rng.standard_normal((size, 2)))
        assert abs((points.theta < 0).sum() - 0.25 * size) <= 1.0
        np.testing.assert_allclose(points.log_q, q.log_density(points.theta))
    rare = [(q.points(rng.standard_normal((1, 2))).theta < 0).item() for _ in range(4000)]
    assert abs(np.mean(rare) - 0.25) < 5 * np.sqrt(0.25 * 0.75 / 4000)


def test_one_component_is_a_gaussian():
    p = random_gaussian(4, 100.0, seed=1)
    q = Mixture([3.0], [p])
    theta = p.sample(20, seed=0)
    np.testing.assert_allclose(q.log_density(theta), p.log_density(theta), rtol=1e-12)
    np.testing.assert_allclose(q.score(theta), p.score(theta), rtol=1e-9)
    np.testing.assert_allclose(q.sd, p.sd, rtol=1e-12)
    assert q.coordinates.kl(p) < 1e-12
    np.testing.assert_allclose(q.distance(theta), p.distance(theta))


@pytest.mark.parametrize(
    ("weights", "parts", "message"),
    [
        ([1.0, 1.0], 1, "`weights` must have one entry for each of the 1 components"),
        ([], 0, "`weights` must have one entry for each of the 0"),
        ([1.0, -1.0], 2, "`weights` must be positive and finite"),
        ([1.0, np.nan], 2, "`weights` must be positive and finite"),
    ],
)
def test_what_is_no_mixture_is_refused(weights, parts, message):
    with pytest.raises(ValueError, match=message):
        Mixture(weights, [random_gaussian(2)] * parts)


def test_components_have_one_dimension():
    with pytest.raises(ValueError, match=r"`components` must have one dimension; got \[1, 2\]"):
        Mixture([1, 1], [random_gaussian(1), random_gaussian(2)])
