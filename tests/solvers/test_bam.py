"""BaM against the paper's matrix equation and its promises."""

import numpy as np
import pytest
import scipy.linalg
from conftest import SEEDS
from hypothesis import given, settings
from hypothesis import strategies as st
from test_gsm import batch_for

import scorevi
from scorevi import BaM, Gaussian
from scorevi.examples import gaussian, random_gaussian
from scorevi.solvers import Batch
from scorevi.solvers import bam as module


def textbook(mean, covariance, theta, score, weight):
    """The update in the original coordinates, dense: S U S + S = V by a matrix square root."""
    shrink = weight / (1 + weight)
    mean_theta, mean_score = theta.mean(axis=0), score.mean(axis=0)
    of_theta = np.cov(theta.T, bias=True).reshape(covariance.shape)
    of_score = np.cov(score.T, bias=True).reshape(covariance.shape)
    u = weight * of_score + shrink * np.outer(mean_score, mean_score)
    offset = mean - mean_theta
    v = covariance + weight * of_theta + shrink * np.outer(offset, offset)
    inner = scipy.linalg.sqrtm(np.eye(len(mean)) + 4 * u @ v).real
    new = 2 * v @ np.linalg.inv(np.eye(len(mean)) + inner.T).T
    np.testing.assert_allclose(new @ u @ new + new, v, atol=1e-8 * np.abs(v).max())
    return mean / (1 + weight) + shrink * (new @ mean_score + mean_theta), new


def step(q, batch, weight):
    solver = BaM(schedule=weight)
    return solver.step(solver.init(q), batch)[0].q


def assert_same(one, two, tolerance):
    scale = np.abs(two.covariance).max()
    np.testing.assert_allclose(
        one.mean, two.mean, rtol=0, atol=tolerance * (np.abs(two.mean).max() + scale)
    )
    np.testing.assert_allclose(one.covariance, two.covariance, rtol=0, atol=tolerance * scale)


@given(st.integers(1, 40), st.integers(1, 50), st.floats(-3, 1), st.integers(0, 10_000))
@settings(max_examples=120, deadline=None)
def test_equals_the_textbook_update(dim, size, log_weight, seed):
    """Up to λ = 10: beyond, the textbook's own square root loses the digits to compare."""
    q, p = random_gaussian(dim, 30, seed), random_gaussian(dim, 10, seed + 1)
    batch = batch_for(q, p.score, size, seed)
    weight = 10.0**log_weight
    mean, covariance = textbook(q.mean, q.covariance, batch.theta, batch.score, weight)
    new = step(q, batch, weight)
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(new.mean, mean, rtol=0, atol=1e-10 * (scale + np.abs(mean).max()))
    np.testing.assert_allclose(new.covariance, covariance, rtol=0, atol=1e-10 * scale)
    assert new.log_det == pytest.approx(np.linalg.slogdet(new.factor)[1], abs=1e-9)


@given(st.integers(1, 60), st.integers(1, 20), st.floats(-8, 8), st.integers(0, 10_000))
@settings(max_examples=120, deadline=None)
def test_solves_the_matrix_equation_by_both_ways(dim, size, log_weight, seed):
    """S U S + S = V, and V and U as the paper has them, from a standard normal q.

    To 1e-10 up to λ = 1e7, and to as many roundings of λ beyond.
    """
    rng = np.random.default_rng(seed)
    z, h = rng.standard_normal((2, size, dim))
    weight = 10.0**log_weight
    a, v = module._weighted(h, weight), module._weighted(z, weight)
    shrink = weight / (1 + weight)
    for rows, weighted in ((h, a), (z, v)):
        mean = rows.mean(axis=0)
        expected = weight * np.cov(rows.T, bias=True) + shrink * np.outer(mean, mean)
        np.testing.assert_allclose(
            weighted.T @ weighted, expected, rtol=0, atol=1e-13 * np.abs(expected).max()
        )
    mean_h = h.mean(axis=0)
    for way in (module._dense, module._low_rank):
        if way is module._low_rank and size > dim:
            continue
        q, of_mean_h, _ = way(Gaussian.standard(dim), z, h, weight)
        s, big = q.covariance, np.eye(dim) + v.T @ v
        left = s @ a.T
        tolerance = max(1e-10, 1e-17 * weight) * np.abs(big).max()
        np.testing.assert_allclose(left @ left.T + s, big, rtol=0, atol=tolerance)
        np.testing.assert_allclose(of_mean_h, s @ mean_h, rtol=0, atol=tolerance)


@given(st.integers(2, 60), st.floats(-4, 4), st.integers(0, 10_000))
@settings(max_examples=60, deadline=None)
def test_dense_equals_low_rank(dim, log_weight, seed):
    q, p = random_gaussian(dim, 30, seed), random_gaussian(dim, 10, seed + 1)
    batch = batch_for(q, p.score, max(1, dim // 3), seed)
    rows = batch.z, batch.whitened_score, 10.0**log_weight
    one, mean_one, pull_one = module._dense(q, *rows)
    two, mean_two, pull_two = module._low_rank(q, *rows)
    assert_same(one, two, 1e-10)
    mean_h = batch.whitened_score.mean(axis=0)
    scale = np.abs(two.covariance).max() * (1 + np.abs(mean_h).max())
    np.testing.assert_allclose(mean_one, mean_two, rtol=0, atol=1e-10 * scale)
    np.testing.assert_allclose(pull_one, pull_two, rtol=1e-8, atol=1e-8)
    assert one.log_det == pytest.approx(two.log_det, abs=1e-9)


@pytest.mark.parametrize("dim", [1, 5, 40])
def test_a_vanishing_weight_stays_put(dim):
    q, p = random_gaussian(dim, 30, 0), random_gaussian(dim, 10, 1)
    assert step(q, batch_for(q, p.score, 8, seed=2), 1e-14).kl(q) < 1e-12


@pytest.mark.parametrize(("dim", "condition"), [(1, 1), (3, 1e4), (20, 100), (64, 10)])
@pytest.mark.parametrize("weight", [1e10, 1e14])
def test_an_infinite_weight_and_enough_draws_land_on_a_gaussian_target(dim, condition, weight):
    q, p = Gaussian.standard(dim), random_gaussian(dim, condition, 1)
    assert step(q, batch_for(q, p.score, 2 * dim + 2, seed=2), weight).kl(p) <= 1e-8


@pytest.mark.parametrize(("dim", "size"), [(1, 4), (5, 8), (40, 6)])
def test_the_target_is_a_fixed_point(dim, size):
    p = random_gaussian(dim, 30, 0)
    assert step(p, batch_for(p, p.score, size, seed=1), 5.0).kl(p) < 1e-12


@pytest.mark.parametrize("dim", [3, 80])
def test_the_order_of_the_batch_does_not_matter(dim):
    q, p = random_gaussian(dim, 30, 0), random_gaussian(dim, 10, 1)
    batch = batch_for(q, p.score, 4, seed=2)
    turned = Batch(*(None if a is None else a[[2, 0, 3, 1]] for a in batch))
    assert_same(step(q, batch, 3.0), step(q, turned, 3.0), 1e-12)


@given(
    st.integers(1, 60),
    st.integers(1, 40),
    st.floats(-12, 140),
    st.floats(-8, 8),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_positive_definite_whatever_the_scores(dim, size, log_scale, log_weight, seed):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((size, dim))
    h = 10.0**log_scale * rng.standard_normal((size, dim))
    new = step(Gaussian.standard(dim), Batch(z, z, z, h, h, None, None), 10.0**log_weight)
    assert np.isfinite(new.factor).all()
    assert np.isfinite(new.mean).all()
    assert np.isfinite(new.log_det)
    assert np.linalg.slogdet(new.factor)[1] > -np.inf


def test_hostile_scores_leave_the_log_determinant_right():
    rng = np.random.default_rng(0)
    for dim, size in ((2, 8), (6, 4), (40, 8)):
        z, h = rng.standard_normal((2, size, dim))
        h[0] *= 1e40
        new = step(Gaussian.standard(dim), Batch(z, z, z, h, h, None, None), 10.0)
        assert new.log_det == pytest.approx(np.linalg.slogdet(new.factor)[1], abs=1e-3)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("dim", "condition", "gradients"), [(1, 1, 100), (2, 40, 200), (10, 1e4, 800), (70, 40, 3000)]
)
def test_gaussian_targets_are_recovered(dim, condition, gradients, seed):
    p = random_gaussian(dim, condition, seed=seed)
    fit = scorevi.fit(gaussian(p.mean, p.covariance), "bam", max_gradients=gradients, seed=seed)
    assert fit.q.kl(p) <= 1e-4


def test_the_schedules():
    def weights(solver, dim=3):
        target = gaussian(np.ones(dim), np.eye(dim))
        steps = scorevi.iterate(target, solver=solver, max_gradients=12)
        return [float(step.info.weight) for step in steps]

    assert weights(BaM(4)) == [12.0, 6.0, 4.0]
    assert weights(BaM(4, 7)) == [7.0, 7.0, 7.0]
    assert weights(BaM(4, lambda t: 2.0 + t)) == [2.0, 3.0, 4.0]


@pytest.mark.jax
@pytest.mark.parametrize(("dim", "size"), [(6, 4), (80, 8)])
def test_dense_and_low_rank_run_in_the_compiled_loop(dim, size):
    pytest.importorskip("jax")
    p = random_gaussian(dim, 10, seed=1)
    half = np.linalg.inv(p.cholesky)
    one = scorevi.from_jax(lambda x: -0.5 * ((half @ (x - p.mean)) ** 2).sum(), dim)
    two = gaussian(p.mean, p.covariance)
    fits = [
        scorevi.fit(t, BaM(size), max_gradients=20 * size, seed=1, stop=False) for t in (one, two)
    ]
    np.testing.assert_allclose(fits[0].mean, fits[1].mean, rtol=1e-7, atol=1e-8)
    np.testing.assert_allclose(fits[0].q.factor, fits[1].q.factor, rtol=1e-7, atol=1e-8)


@pytest.mark.jax
def test_a_schedule_of_ones_own_runs_in_the_compiled_loop():
    pytest.importorskip("jax")
    solver = BaM(4, lambda t: 5.0 / (1.0 + t) ** 0.5)
    one = scorevi.from_jax(lambda x: -0.5 * ((x - 1.0) ** 2).sum(), 3)
    two = gaussian(np.ones(3), np.eye(3))
    fits = [
        scorevi.fit(target, solver=solver, max_gradients=200, seed=1, stop=False)
        for target in (one, two)
    ]
    np.testing.assert_allclose(fits[0].q.factor, fits[1].q.factor, rtol=1e-8, atol=1e-10)


@pytest.mark.parametrize(
    ("schedule", "message"),
    [
        ("fast", "got 'fast'"),
        (0.0, "got 0.0"),
        (-1, "got -1"),
        (float("nan"), "got nan"),
        (float("inf"), "got inf"),
        (True, "got True"),
        (None, "got None"),
        ([1.0], r"got \[1.0\]"),
        (lambda t: -float(t), "got a function that returns -0.0 at 0"),
        (lambda t: "x", "got a function that returns 'x' at 0"),
    ],
)
def test_bad_schedules_are_named(schedule, message):
    with pytest.raises(ValueError, match=f"`schedule` must be 'decay', a positive num.*{message}"):
        BaM(schedule=schedule)


def test_the_batch_size_is_checked_and_grows_with_the_dimension():
    for wrong in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="`batch_size` must be a whole number >= 1 or None"):
            BaM(batch_size=wrong)
    assert [BaM().batch_size_for(dim) for dim in (1, 10, 1000)] == [8, 20, 256]
    assert BaM(batch_size=5).batch_size_for(1000) == 5
