import numpy as np
import pytest
import scipy.stats
from hypothesis import given
from hypothesis import strategies as st
from scipy.linalg import lapack

from scorevi import Gaussian
from scorevi.examples import random_gaussian


@pytest.fixture
def q():
    return random_gaussian(4, 30, seed=3)


def test_density_and_score_equal_scipys(q):
    reference = scipy.stats.multivariate_normal(q.mean, q.covariance)
    theta = q.sample(7, seed=0)
    np.testing.assert_allclose(q.log_density(theta), reference.logpdf(theta))
    precision = np.linalg.inv(q.covariance)
    np.testing.assert_allclose(q.score(theta), (q.mean - theta) @ precision, rtol=1e-9)
    assert q.entropy() == pytest.approx(reference.entropy())
    assert q.log_density(theta[0]) == pytest.approx(reference.logpdf(theta[0]))
    assert q.score(theta[0]).shape == (4,)


def test_kl_equals_the_textbook_formula(q):
    other = random_gaussian(4, 5, seed=4)
    precision = np.linalg.inv(other.covariance)
    shift = other.mean - q.mean
    expected = 0.5 * (
        np.trace(precision @ q.covariance)
        + shift @ precision @ shift
        - 4
        + np.linalg.slogdet(other.covariance)[1]
        - np.linalg.slogdet(q.covariance)[1]
    )
    assert q.kl(other) == pytest.approx(expected, rel=1e-10)
    assert q.kl(q) == pytest.approx(0, abs=1e-12)


@given(st.integers(1, 12), st.floats(-8, 8), st.integers(0, 1000))
def test_from_moments_gives_the_moments_back_on_any_scale(dim, log_scale, seed):
    rng = np.random.default_rng(seed)
    scales = 10.0 ** rng.uniform(-abs(log_scale), abs(log_scale), dim)
    base = random_gaussian(dim, 100, seed)
    covariance = base.covariance * np.outer(scales, scales)
    q = Gaussian.from_moments(base.mean * scales, (covariance + covariance.T) / 2)
    np.testing.assert_allclose(q.covariance, covariance, rtol=1e-9)
    np.testing.assert_allclose(q.cholesky @ q.cholesky.T, covariance, rtol=1e-8)
    assert q.kl(q) < 1e-10


def test_cholesky_does_not_square_the_condition_number():
    q = random_gaussian(6, 1e24, seed=0)
    log_det = np.log(np.diag(q.cholesky)).sum()
    assert log_det == pytest.approx(q.log_det, abs=1e-3)


def test_sample_has_the_moments(q):
    # Whitened by the truth, n·|mean|² is chi-squared with 4 degrees of freedom: false alarm 1e-6.
    white = np.linalg.solve(q.factor, (q.sample(4000, seed=5) - q.mean).T)
    assert 4000 * (white.mean(axis=1) ** 2).sum() < scipy.stats.chi2(4).isf(1e-6)
    scatter = (white**2).sum()
    low, high = scipy.stats.chi2(16000).ppf([5e-7, 1 - 5e-7])
    assert low < scatter < high


def test_sampling_is_seeded_and_leaves_the_global_state_alone(q):
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    np.testing.assert_array_equal(q.sample(3, seed=1), q.sample(3, seed=1))
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_integers_are_welcome():
    q = Gaussian.from_moments([1, 2], [[2, 0], [0, 3]])
    assert q.mean.dtype == q.factor.dtype == np.float64


@pytest.mark.parametrize(
    ("mean", "covariance", "message"),
    [
        ([0, 0], np.eye(3), r"`covariance` must have shape \(2, 2\); got \(3, 3\)"),
        ([[0, 0]], np.eye(2), r"`mean` must have shape \(any,\); got \(1, 2\)"),
        ([], np.zeros((0, 0)), "`mean` must have at least one entry"),
        ([0, np.nan], np.eye(2), "`mean` must be finite; 1 of its entries"),
        ([0, 0], [[1, 2], [2, 1]], "positive definite; its correlation matrix has an eigenvalue"),
        ([0, 0], [[1, 0], [0, -1]], "positive definite; its diagonal entry 1 is -1"),
        ([0, 0], [[1, 0.5], [0.1, 1]], "`covariance` must be symmetric; it differs"),
        (["a", "b"], np.eye(2), "`mean` must be an array of real numbers"),
        ([1j, 0], np.eye(2), "`mean` must be an array of real numbers"),
    ],
)
def test_bad_moments_are_named(mean, covariance, message):
    with pytest.raises(ValueError, match=message):
        Gaussian.from_moments(mean, covariance)


@pytest.mark.parametrize(
    ("mean", "factor", "message"),
    [
        ([0, 0], np.ones((2, 2)), "`factor` must be invertible"),
        ([0, 0, 0], np.eye(2), r"`mean` must have shape \(2,\); got \(3,\)"),
        ([0, 0], np.ones((2, 3)), "`factor` must be square"),
    ],
)
def test_bad_factors_are_named(mean, factor, message):
    with pytest.raises(ValueError, match=message):
        Gaussian(mean, factor)


def test_wrong_points_are_named(q):
    with pytest.raises(ValueError, match=r"`theta` must have shape \(4,\) or \(n, 4\); got \(3,\)"):
        q.log_density(np.zeros(3))
    with pytest.raises(ValueError, match="`other` must have dimension 4; got 2"):
        q.kl(Gaussian.standard(2))


@pytest.mark.parametrize("dim", [1, 4, 30])
def test_whitening_undoes_unwhitening(dim):
    rng = np.random.default_rng(dim)
    # A root that is far from triangular: |z| would be the same with any, z itself is not.
    q = Gaussian(rng.normal(size=dim), rng.normal(size=(dim, dim)))
    z = rng.normal(size=(7, dim))
    np.testing.assert_allclose(q.whiten(q.unwhiten(z)), z, rtol=1e-8, atol=1e-8)
    one = q.whiten(q.unwhiten(z)[0])
    assert one.shape == (dim,)
    np.testing.assert_allclose(one, z[0], rtol=1e-8, atol=1e-8)
    np.testing.assert_allclose(q.distance(q.unwhiten(z)), np.linalg.norm(z, axis=1), rtol=1e-8)
    assert q.distance(q.unwhiten(z)[0]) == pytest.approx(np.linalg.norm(z[0]))
    assert q.whiten(np.empty((0, dim))).shape == (0, dim)


def test_whitening_factorises_once(monkeypatch, q):
    calls = []
    factorise = lapack.dgetrf
    monkeypatch.setattr(lapack, "dgetrf", lambda *a, **k: calls.append(1) or factorise(*a, **k))
    before = q.factor.copy()
    for _ in range(3):
        q.whiten(q.sample(2, seed=0))
    assert len(calls) == 1
    np.testing.assert_array_equal(q.factor, before)


def test_what_cannot_be_whitened_is_named():
    with pytest.raises(np.linalg.LinAlgError, match="singular"):
        Gaussian(np.zeros(2), np.ones((2, 2)), 0.0).whiten(np.zeros((1, 2)))
    with pytest.raises(ValueError, match=r"`theta` must have shape \(2,\) or \(n, 2\); got \(3,\)"):
        Gaussian.standard(2).whiten(np.zeros(3))
