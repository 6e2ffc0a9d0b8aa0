"""A Gaussian of a diagonal and directions: the same as the dense one, without its matrices."""

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import scorevi
from scorevi import Gaussian, LowRank
from scorevi.families import is_sound
from scorevi.families.mirrored import Mirrored


def make(dim=6, rank=2, seed=0, narrow=False):
    rng = np.random.default_rng(seed)
    mean, scale = rng.normal(size=dim), np.exp(rng.normal(size=dim))
    directions = np.linalg.qr(rng.normal(size=(dim, rank)))[0]
    widths = np.exp(rng.normal(size=rank)) * (0.1 if narrow else 3.0)
    return LowRank(mean, scale, directions, widths)


@pytest.mark.parametrize(("dim", "rank"), [(1, 0), (1, 1), (6, 0), (6, 2), (6, 6)])
@pytest.mark.parametrize("narrow", [False, True])
def test_it_equals_the_dense_gaussian(dim, rank, narrow):
    q = make(dim, rank, seed=3, narrow=narrow)
    dense = q.dense()
    theta = q.sample(7, seed=0)
    np.testing.assert_allclose(q.log_density(theta), dense.log_density(theta))
    np.testing.assert_allclose(q.score(theta), dense.score(theta), rtol=1e-8, atol=1e-10)
    np.testing.assert_allclose(q.sd, dense.sd)
    np.testing.assert_allclose(q.distance(theta), dense.distance(theta))
    np.testing.assert_allclose(q.conditional_sd, np.diag(np.linalg.inv(q.covariance)) ** -0.5)
    assert q.entropy() == pytest.approx(dense.entropy())
    assert q.log_det == pytest.approx(np.linalg.slogdet(q.covariance)[1] / 2)
    other = make(dim, rank, seed=4, narrow=not narrow)
    assert q.kl(other) == pytest.approx(dense.kl(other.dense()), rel=1e-9)
    assert q.kl(q) == pytest.approx(0, abs=1e-12)
    doubled = LowRank(q.mean, 2.0 * q.scale, q.directions, q.widths)
    assert q.scaled(2.0).kl(doubled) == pytest.approx(0, abs=1e-12)


@given(st.integers(1, 8), st.integers(0, 3), st.integers(0, 100))
def test_whitening_and_its_inverse(dim, rank, seed):
    q = make(dim, min(dim, rank), seed)
    z = np.random.default_rng(seed).normal(size=(3, dim))
    np.testing.assert_allclose(q.whiten(q.unwhiten(z)), z, rtol=1e-8, atol=1e-8)
    points = q.points(z)
    np.testing.assert_allclose(points.log_q, q.log_density(points.theta), rtol=1e-8)
    np.testing.assert_allclose(q.pull(points, q.score(points.theta)), -z, rtol=1e-7, atol=1e-7)
    np.testing.assert_allclose(q.mismatch(points.theta, q.score(points.theta)), 0, atol=1e-7)
    assert q.whiten(points.theta[0]).shape == (dim,)


def test_the_moments_of_its_draws():
    # 40,000 draws: each of the 28 figures is beyond 5 standard errors with probability 6e-7.
    q = make(4, 2, seed=1)
    draws = q.sample(40_000, seed=2)
    assert np.abs((draws.mean(axis=0) - q.mean) / q.sd).max() < 5 / 200
    white = q.whiten(draws)
    assert np.abs(white.T @ white / 40_000 - np.eye(4)).max() < 5 * 2**0.5 / 200


def test_factors_as_in_factor_analysis():
    rng = np.random.default_rng(0)
    loadings, variances = rng.normal(size=(9, 3)), rng.uniform(0.1, 2.0, 9)
    q = LowRank.from_factors(np.zeros(9), variances, loadings)
    np.testing.assert_allclose(q.covariance, np.diag(variances) + loadings @ loadings.T)


def test_stretching_keeps_correlations():
    q = make(5, 2)
    ratio = np.arange(1.0, 6.0)
    other = q.stretched(q.mean + 1, ratio)
    np.testing.assert_allclose(other.covariance, q.covariance * np.outer(ratio, ratio))
    assert other.log_det == pytest.approx(np.linalg.slogdet(other.covariance)[1] / 2)


def test_it_is_full_rank_unless_rounding_says_otherwise():
    assert make().is_full_rank()
    thin = LowRank(np.zeros(2), np.ones(2), np.array([[1.0], [1.0]]) / 2**0.5, np.array([1e17]))
    assert not thin.is_full_rank()
    assert not is_sound(LowRank.standard(2).scaled(1e16), 0.0)


def test_opposite_draws():
    q = make(5, 2)
    noise = np.random.default_rng(0).normal(size=(5, 5))
    points = Mirrored(q).points(noise)
    np.testing.assert_array_equal(points.z[:3], noise[:3])
    np.testing.assert_array_equal(points.z[3:], -noise[:2])
    np.testing.assert_allclose(points.theta[3] + points.theta[0], 2 * q.mean)


def test_no_matrix_is_made():
    dim, rank = 20_000, 3  # a matrix would be 3.2 GB
    q = make(dim, rank)
    tracemalloc.start()
    theta = q.sample(4, seed=0)
    q.log_density(theta), q.score(theta), q.kl(q), q.sd, q.conditional_sd, q.is_full_rank()
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 60 * 8 * dim * (rank + 1)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (([0.0], [0.0]), "`scale` must be positive; the least is 0."),
        (([0.0, 1.0], [1.0]), r"`scale` must have shape \(2,\); got \(1,\)"),
        (([0.0], [1.0], [[2.0]], [1.0]), "`directions` must have orthonormal columns"),
        (([0.0], [1.0], [[1.0]], [-1.0]), "`widths` must be positive; the least is -1."),
        (([], []), "`mean` must have at least one entry"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        LowRank(*arguments)


def test_other_refusals():
    with pytest.raises(ValueError, match=r"`variances` must be positive; the least is 0\."):
        LowRank.from_factors([0.0], [0.0], [[1.0]])
    with pytest.raises(ValueError, match=r"`theta` must have shape \(6,\) or \(n, 6\); got \(5,\)"):
        make().log_density(np.zeros(5))
    with pytest.raises(ValueError, match="`other` must have dimension 6; got 1"):
        make().kl(LowRank.standard(1))
    with pytest.raises(ValueError, match=r"`covariance` is formed up to 4096 dimensions; this q "):
        LowRank.standard(5000).covariance  # noqa: B018


def test_it_is_a_target():
    q = make()
    fit = scorevi.fit(q, max_gradients=200)
    assert isinstance(fit.q, Gaussian)
    assert fit.q.kl(q.dense()) < 1e-8
