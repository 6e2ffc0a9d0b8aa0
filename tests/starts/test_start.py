"""Every way to start."""

from itertools import pairwise

import numpy as np
import pytest
from conftest import SHORT, gsm_fit, logistic_regression

import scorevi
from scorevi import Gaussian
from scorevi.base.evaluate import Evaluator
from scorevi.base.pairs import Pair
from scorevi.examples import gaussian, random_gaussian
from scorevi.starts.climb import Ascent, curvature_gaussian
from scorevi.starts.start import start


def begin(target, initial, budget=None):
    evaluator = Evaluator(target, budget)
    return start(initial, evaluator, np.random.default_rng(0)), evaluator


def test_none_is_the_standard_normal():
    result, evaluator = begin(logistic_regression(), None)
    np.testing.assert_array_equal(result.q.covariance, np.eye(5))
    assert evaluator.spent == 0


def test_a_point_is_the_mean_of_an_identity_covariance():
    result, _ = begin(logistic_regression(), [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(result.q.mean, [1, 2, 3, 4, 5])
    np.testing.assert_array_equal(result.q.covariance, np.eye(5))


def test_mode_is_the_papers_start():
    target = logistic_regression()
    result, evaluator = begin(target, "mode")
    assert np.abs(target.evaluate(result.q.mean[None]).score).max() < 1e-3
    np.testing.assert_allclose(result.q.covariance, 0.1 * np.eye(5))
    assert len(result.pairs) == evaluator.spent
    np.testing.assert_allclose(
        result.pairs[3].score, target.evaluate(result.pairs[3].theta[None]).score[0]
    )


@pytest.mark.parametrize("dim", [5, 20, 100])
def test_laplace_begins_a_fit_where_the_search_ends_in_many_small_steps(dim):
    # What it has seen last lies within rounding of the mode, and says nothing of what is linear.
    fit = scorevi.fit(logistic_regression(dim, 10 * dim), initial="laplace", seed=0)
    assert fit.status == "converged"


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e10])
def test_laplace_is_exact_on_a_gaussian(condition):
    p = random_gaussian(6, condition, seed=0)
    result, _ = begin(gaussian(p.mean, p.covariance), "laplace")
    assert result.q.kl(p) < 1e-3


def test_lbfgs_learns_the_curvature():
    p = random_gaussian(6, 40, seed=0)
    result, _ = begin(gaussian(p.mean, p.covariance), "lbfgs")
    wide = Gaussian(p.mean, np.sqrt(0.1) * np.eye(6))
    assert result.q.kl(p) < 0.5 * wide.kl(p)


def walk(dim, length, condition, seed):
    """A path up a Gaussian, in steps of the size of its sds, with the scores along it."""
    p = random_gaussian(dim, condition, seed=seed)
    z = np.random.default_rng(seed).normal(size=(length, dim))
    theta = p.unwhiten(z * np.linspace(2.0, 0.1, length)[:, None])
    return [Pair(t, g, 0.0) for t, g in zip(theta, p.score(theta), strict=True)]


def textbook_bfgs(path, dtype):
    """The inverse Hessian by dense products."""
    pairs = [(two.theta - one.theta, one.score - two.score) for one, two in pairwise(path)]
    step, change = pairs[-1]
    inverse = np.eye(len(step), dtype=dtype) * (step @ change) / (change @ change)
    for step, change in pairs:
        product = step.astype(dtype) @ change
        turned = np.eye(len(step), dtype=dtype) - np.outer(step, change) / product
        inverse = turned @ inverse @ turned.T + np.outer(step, step) / product
    return inverse


@pytest.mark.parametrize("dim", [1, 2, 7, 40])
@pytest.mark.parametrize("length", [2, 3, 21])
@pytest.mark.parametrize("condition", [1.0, 1e3, 1e8])
def test_curvature_is_that_of_the_textbook(dim, length, condition):
    path = walk(dim, length, condition, seed=dim + length)
    q = curvature_gaussian(path)
    expected = textbook_bfgs(path, np.longdouble)
    scale = np.sqrt(np.diag(expected))
    error = (q.covariance - expected) / np.outer(scale, scale)
    assert np.abs(error).max() < 1e-9
    # The root is Cholesky's, as it was with a factorised covariance: draws stay the same.
    np.testing.assert_array_equal(q.factor, np.tril(q.factor))
    assert (np.diag(q.factor) > 0).all()
    assert q.log_det == pytest.approx(np.log(np.diag(q.factor)).sum())
    np.testing.assert_array_equal(q.mean, path[-1].theta)


def test_curvature_is_positive_definite_however_narrow_the_target():
    """Where dense products in double precision lose it."""
    lost = 0
    for seed in range(20):
        path = walk(12, 21, 1e15, seed)
        q = curvature_gaussian(path)
        assert q is not None
        assert np.isfinite(q.log_det)
        lost += np.linalg.eigvalsh(textbook_bfgs(path, float))[0] <= 0
    assert lost > 0


def test_a_path_without_curvature_has_none():
    flat = Pair(np.zeros(2), np.ones(2), 0.0)
    assert curvature_gaussian([flat]) is None
    assert curvature_gaussian([flat, Pair(np.ones(2), np.ones(2), 1.0)]) is None


@pytest.mark.parametrize("way", ["mode", "lbfgs", "laplace"])
def test_a_wall_of_nan_does_not_stop_the_search_for_the_mode(way):
    def inside(theta):
        return theta[:, :1] < 2.5

    target = scorevi.from_function(
        lambda x: np.where(inside(x), 20 * (2.0 - x), np.nan),
        3,
        lambda x: np.where(inside(x)[:, 0], -10 * ((2.0 - x) ** 2).sum(axis=1), np.nan),
        batched=True,
    )
    result, evaluator = begin(target, way, 400)
    np.testing.assert_allclose(result.q.mean, 2.0, atol=1e-3)
    assert evaluator.spent <= 200


def test_a_score_that_fails_where_it_once_was_fine_leaves_the_search_finite():
    """The wall is then at no distance from the best point, and its slope must be a number."""
    seen = []

    def log_density(theta):
        seen.append(theta.copy())
        return -np.inf if len(seen) > 2 else 1e12 * theta.sum()

    target = scorevi.from_function(lambda x: np.full(3, 1e12), 3, log_density, batched=False)
    ascent = Ascent(Evaluator(target, 40))
    ascent.visit(np.ones(3))
    for theta in (ascent.path[-1].theta, np.zeros(3), np.full(3, 1e-200)):
        value, slope = ascent._objective(theta)
        assert np.isfinite(value)
        assert np.isfinite(slope).all()
    ascent.climb(np.ones(3))
    assert np.isfinite(seen).all()


def test_a_start_that_is_not_finite_is_moved():
    def outside(theta):
        return (theta**2).sum(axis=1) > 1.0

    target = scorevi.from_function(
        lambda x: np.where(outside(x)[:, None], 3.0 - x, np.nan),
        2,
        lambda x: np.where(outside(x), -0.5 * ((x - 3.0) ** 2).sum(axis=1), np.nan),
        batched=True,
    )
    result, _ = begin(target, "mode", 400)
    assert "not finite at the start" in result.notes[0]
    np.testing.assert_allclose(result.q.mean, 3.0, atol=1e-3)


@SHORT
def test_the_search_for_the_mode_spends_at_most_half_the_budget():
    p = random_gaussian(50, 1e6, seed=0)
    fit = gsm_fit(gaussian(p.mean, p.covariance), initial="mode", max_gradients=60)
    assert fit.num_updates >= 15
    assert any("ended before it converged" in note for note in fit.notes)
    fit = gsm_fit(gaussian(p.mean, p.covariance), initial="laplace", max_gradients=100)
    assert any("Laplace" in note for note in fit.notes)


def test_a_mode_without_curvature_is_said():
    """A saddle: flat along the second axis."""
    target = scorevi.from_function(
        lambda x: np.stack([-x[:, 0], 0 * x[:, 1]], axis=1),
        2,
        lambda x: -0.5 * x[:, 0] ** 2,
        batched=True,
    )
    result, _ = begin(target, "laplace")
    assert "not negative definite in 1 directions" in result.notes[-1]
    assert np.isfinite(result.q.factor).all()


@pytest.mark.parametrize(
    ("initial", "message"),
    [
        ([1.0, 2.0], r"`initial` must have shape \(5,\); got \(2,\)"),
        ([np.nan] * 5, "`initial` must be finite; 5 of its entries"),
        (Gaussian.standard(2), "`initial` must have the target's dimension, 5; got 2"),
        ("moode", "`initial` must be None, a Gaussian, a point, or one of auto, mode, laplace"),
        ({1.0, 2.0}, "`initial` must be an array of real numbers; got set"),
        ({}, "`initial` must have the values of all parameters; beta is missing"),
    ],
)
def test_wrong_starts_are_named(initial, message):
    with pytest.raises(ValueError, match=message):
        gsm_fit(logistic_regression(), initial=initial)


def test_the_mode_needs_a_log_density():
    with pytest.raises(ValueError, match="looks for the mode, which needs the log density"):
        gsm_fit(scorevi.from_function(np.negative, 2), initial="mode")
