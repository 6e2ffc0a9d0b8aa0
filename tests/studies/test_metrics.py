"""Every metric against a closed form."""

import numpy as np
import pytest
import scipy.stats

import scorevi
from scorevi.studies.metrics import (
    elbo,
    even_noise,
    fisher,
    forward_kl,
    marginal_wasserstein,
    moment_errors,
)


def pair(dim, seed=0):
    return (scorevi.examples.random_gaussian(dim, 30.0, seed=seed + k) for k in (1, 2))


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_even_noise_has_the_moments_of_the_standard_normal(dim):
    z = even_noise(200, dim)
    np.testing.assert_allclose(z.mean(axis=0), 0, atol=1e-14)
    np.testing.assert_allclose(z.T @ z / len(z), np.eye(dim), atol=1e-12)


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_forward_kl(dim):
    p, q = pair(dim)
    samples = p.unwhiten(even_noise(200, dim))  # exactly the moments of p: no Monte-Carlo error
    assert forward_kl(q, samples, p.log_density(samples)) == pytest.approx(p.kl(q), rel=1e-9)
    assert forward_kl(p, samples, p.log_density(samples)) == 0.0


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_elbo(dim):
    p, q = pair(dim)
    target = scorevi.examples.gaussian(p.mean, p.covariance)  # without its normaliser
    log_evidence = p.log_det + 0.5 * dim * np.log(2 * np.pi)
    assert elbo(q, target, even_noise(200, dim)) == pytest.approx(log_evidence - q.kl(p), rel=1e-9)


def test_an_elbo_of_what_does_not_exist_is_minus_infinity():
    target = scorevi.from_function(
        np.zeros_like, 2, lambda x: np.where(x[:, 0] > 0, 0.0, np.nan), batched=True
    )
    assert elbo(scorevi.Gaussian.standard(2), target, even_noise(20, 2)) == -np.inf


@pytest.mark.parametrize("dim", [1, 3, 10])
def test_fisher(dim):
    p, q = pair(dim)
    target = scorevi.examples.gaussian(p.mean, p.covariance)
    # With h = −Lᵀ P (L z + δ): the mismatch is (I − LᵀPL) z − LᵀPδ.
    precision, root = np.linalg.inv(p.covariance), q.factor
    slope = np.eye(dim) - root.T @ precision @ root
    shift = root.T @ precision @ (q.mean - p.mean)
    expected = (np.sum(slope**2) + shift @ shift) / dim
    assert fisher(q, target, even_noise(200, dim)) == pytest.approx(expected, rel=1e-8)
    assert fisher(p, target, even_noise(200, dim)) == pytest.approx(0.0, abs=1e-20)


def test_moment_errors_are_those_of_the_worst_marginal():
    errors = moment_errors(
        np.array([1.0, 0.0]), np.array([1.0, 6.0]), np.array([0.0, 0.1]), np.array([4.0, 2.0])
    )
    assert errors.mean == 0.25
    assert errors.sd == pytest.approx(np.log(4.0))


def quantiles(count=4000):
    return scipy.stats.norm.ppf((np.arange(count) + 0.5) / count)


def test_marginal_wasserstein_of_a_shift_and_of_a_scale():
    x = quantiles()
    still = np.column_stack([x, 3.0 * x])
    moved = np.column_stack([x + 0.5, 3.0 * x])
    wider = np.column_stack([x, 3.0 * 1.4 * x])
    assert marginal_wasserstein(moved, still) == pytest.approx(0.5, rel=1e-3)
    # E|s z − z| for a monotone map, in units of the reference: (s − 1) √(2/π)
    assert marginal_wasserstein(wider, still) == pytest.approx(0.4 * np.sqrt(2 / np.pi), rel=2e-3)
