"""Replay: exact on Gaussians at the information limit, steady on the rest."""

import numpy as np
import pytest
from conftest import SEEDS, SHORT, logistic_regression
from hypothesis import given, settings
from hypothesis import strategies as st
from one_gaussian import fit_gaussian, iterate_gaussian
from trials import plateau

import scorevi
from scorevi import Gaussian, Replay
from scorevi.base.pairs import Pair
from scorevi.examples import dense_base, gaussian, random_gaussian, sinh_arcsinh
from scorevi.solvers.memory import regress
from scorevi.solvers.replay import _eager, _moved_a_little
from scorevi.solvers.weights import weights
from scorevi.studies.best_gaussian import best_gaussian
from scorevi.studies.metrics import elbo


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("condition", [1.0, 1e2, 1e4, 1e6])
@pytest.mark.parametrize("dim", [1, 2, 10, 64])
def test_a_gaussian_is_found_at_the_information_limit(dim, condition, seed):
    p = random_gaussian(dim, condition, seed=100 + seed)
    target = gaussian(p.mean, p.covariance)
    enough = max(4, dim + 2) if dim < 3 else dim + 2
    fit = fit_gaussian(target, solver="replay", initial=Gaussian.standard(dim), seed=seed,
                      max_gradients=enough)  # fmt: skip
    assert fit.num_gradients == enough
    assert fit.q.kl(p) <= 1e-8


@pytest.mark.parametrize("scale", [1e-8, 1e8])
def test_scales_far_from_the_starts(scale):
    p = Gaussian.from_moments([scale, -scale], scale**2 * np.array([[1.0, 0.5], [0.5, 1.0]]))
    fit = fit_gaussian(
        gaussian(p.mean, p.covariance), solver="replay", max_gradients=200, stop=False
    )
    assert fit.q.kl(p) <= 1e-6


@pytest.mark.parametrize("condition", [1e5, 1e6])
def test_a_wide_gaussian_is_not_called_improper(condition):
    """What the start's climbs have seen hardly spans the space, and rounding hides the curvature.

    Along those directions eigenvalues come out negative, which says nothing of the target.
    """
    p = random_gaussian(17, condition, seed=0)
    p = Gaussian(1e6 * p.mean, 1e6 * p.factor)
    fit = fit_gaussian(p, max_gradients=300)
    assert fit.status.ok
    assert fit.q.kl(p) < 1e-6


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_plateau_with_a_wall_behind_it_is_left(seed):
    """The exponential of one of many parameters is N(1, 0.1²), and the start far below.

    Draws beyond the wall have scores of thousands, which must not throw q about for ever.
    """
    dim = 60
    target = plateau(None, dim, None, None)
    start = Gaussian(np.concatenate([[-5.0], np.zeros(dim - 1)]), np.eye(dim))
    fit = fit_gaussian(target, "replay", initial=start, max_gradients=2500, seed=seed)
    assert abs(fit.mean[0]) < 0.02
    np.testing.assert_allclose(fit.q.sd, [0.1] + [1.0] * (dim - 1), rtol=0.1)


def test_it_stays_where_it_is_once_it_is_there():
    p = random_gaussian(5, 10, seed=0)
    target = gaussian(p.mean, p.covariance)
    fit = fit_gaussian(target, solver="replay", max_gradients=5000)
    assert fit.q.kl(p) < 1e-12
    assert fit.trace.fisher[-1] < 1e-20


@given(st.integers(1, 8), st.integers(0, 1000), st.floats(0.3, 3.0))
@settings(max_examples=40, deadline=None)
def test_the_regression_is_exact_on_a_linear_score(dim, seed, scale):
    rng = np.random.default_rng(seed)
    z = scale * rng.standard_normal((dim + 4, dim))
    root = rng.standard_normal((dim, dim))
    precision, pull = root @ root.T + np.eye(dim), rng.standard_normal(dim)
    evidence = regress(z, pull - z @ precision, rng.uniform(0.1, 1.0, dim + 4))
    assert evidence.linear
    assert evidence.trust == 1.0
    np.testing.assert_allclose(evidence.intercept, pull, rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(evidence.precision, precision, rtol=1e-6, atol=1e-6)


@pytest.mark.parametrize("count", [60, 400, 3000])
def test_the_regression_estimates_what_stein_says(count):
    """A cubic score: E[h] and E[∇h] are known; 6 standard errors of a pilot, false alarm 1e-8.

    The counts cover ordinary least squares, the kernel, and the memory too large for it.
    """

    def h(z):
        return 0.4 - 1.2 * z + 0.3 * (z**2 - 1.0) - 0.05 * z**3

    rng = np.random.default_rng(0)
    estimates = []
    for _ in range(40):
        z = rng.standard_normal((count, 2))
        evidence = regress(z, h(z), np.ones(count))
        assert 0.0 <= evidence.trust <= 1.0
        assert not evidence.linear
        estimates.append([*evidence.intercept, *np.diag(evidence.precision)])
    mean, error = np.mean(estimates, axis=0), np.std(estimates, axis=0, ddof=1) / np.sqrt(40)
    expected = np.array([0.4, 0.4, 1.2 + 0.15, 1.2 + 0.15])
    # least squares on a nonlinear score has a bias of order 1/count
    assert (np.abs(mean - expected) < 6 * error + 2.0 / count).all()


def test_the_kernel_takes_the_quadratic_part_out():
    """On a quadratic score it is closer to the truth, a = 0 and M = 0, than least squares is."""
    rng = np.random.default_rng(0)
    kernel = plain = 0.0
    for _ in range(30):
        z = rng.standard_normal((200, 3))
        h = -z + z[:, :1] * z - np.eye(3)[0]
        found = regress(z, h, np.ones(200))
        off = found.precision - np.eye(3)
        kernel += found.intercept @ found.intercept + np.vdot(off, off)
        design = np.concatenate([np.ones((200, 1)), z], axis=1)
        coefficients = np.linalg.lstsq(design, h + z)[0]
        slope = 0.5 * (coefficients[1:] + coefficients[1:].T)
        plain += coefficients[0] @ coefficients[0] + np.vdot(slope, slope)
    assert kernel < 0.5 * plain


def test_weights_fall_off_and_keep_their_effective_size():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((200, 3)) * 4.0
    then = -0.5 * np.vecdot(z / 4.0, z / 4.0) - 3 * np.log(4.0)
    weight = weights(z, then, 0.0, needed=8.0)
    assert weight.max() == 1.0
    assert weight.sum() ** 2 / (weight @ weight) >= 8.0
    far = weights(z + 50.0, then, 0.0, needed=30.0)
    assert far.sum() ** 2 / (far @ far) >= 29.9


@pytest.mark.slow
def test_the_memory_is_bounded_and_the_batch_grows():
    solver = Replay()
    steps = iterate_gaussian(logistic_regression(), solver=solver, max_gradients=3000, seed=0)
    last = list(steps)[-1]
    assert last.info.pairs == 512
    fit = fit_gaussian(logistic_regression(), solver=solver, max_gradients=3000, seed=0, stop=False)
    sizes = np.diff(fit.trace.num_gradients)
    assert sizes[0] == 2
    assert set(sizes[:-1]) == {2, 3, 4, 8, 16, 32, 64}  # 3 to reach D + 2 = 7
    assert fit.num_gradients == 3000


def test_pairs_of_the_optimiser_are_remembered():
    p = random_gaussian(6, 10, seed=0)
    target = gaussian(p.mean, p.covariance)
    fit = fit_gaussian(target, solver="replay", initial="lbfgs", max_gradients=100)
    first = iterate_gaussian(target, solver="replay", initial="lbfgs")
    assert next(first).info.pairs > 4
    assert fit.q.kl(p) < 1e-10


def test_remembered_pairs_far_away_are_left_out():
    solver = Replay()
    state = solver.init(Gaussian.standard(2))
    pairs = [Pair(np.array([x, 0.0]), np.array([-x, 0.0]), 0.0) for x in (0.5, 1.0, 100.0)]
    state = solver.remember(state, pairs)
    np.testing.assert_allclose(state.z[:, 0], [0.5, 1.0])
    np.testing.assert_allclose(state.h[:, 0], [-0.5, -1.0])


def test_pairs_that_do_not_span_the_space_decide_nothing():
    line = np.linspace(-1.0, 1.0, 20)[:, None] * np.array([1.0, 2.0, 3.0])
    assert regress(line, -line, np.ones(20)) is None
    assert regress(np.eye(3), -np.eye(3), np.ones(3)) is None


@pytest.mark.parametrize("dim", [20, 100, 256])
def test_many_pairs_of_an_optimisers_path_do_not_mislead(dim):
    p = random_gaussian(dim, 40, seed=0)
    fit = fit_gaussian(gaussian(p.mean, p.covariance), max_gradients=256 + 2 * (dim + 2))
    assert fit.q.kl(p) <= 1e-8


@SHORT
def test_a_budget_below_the_first_batch_is_one_smaller_batch():
    p = random_gaussian(100, 10, seed=0)
    fit = fit_gaussian(gaussian(p.mean, p.covariance), solver="replay", max_gradients=7)
    assert (fit.num_gradients, fit.num_updates) == (7, 1)


def test_bad_batch_sizes_are_named():
    with pytest.raises(ValueError, match="`batch_size` must be a whole number >= 1 or None"):
        Replay(batch_size=0)
    fit = fit_gaussian(
        Gaussian.standard(3), solver="replay", batch_size=5, max_gradients=2000, stop=False
    )
    assert fit.num_gradients == 2000


# --- the bars it was built to, where they are cheap to hold -----------------------------------


def nats_short(target, gradients, draws):
    """The median over three seeds."""
    dim = target.dim
    half = np.random.default_rng(7).standard_normal((2000, dim))
    z = np.concatenate([half, -half])
    best = elbo(best_gaussian(target, Gaussian.standard(dim), draws=draws).q, target, z)
    fits = [
        fit_gaussian(target, solver="replay", max_gradients=gradients, seed=seed, stop=False)
        for seed in range(3)
    ]
    return np.median([best - elbo(fit.q, target, z) for fit in fits])


@pytest.mark.parametrize(("skew", "tail"), [(0.2, 1), (0.5, 1), (0, 0.8), (0, 1.4), (0, 2)])
def test_mildly_bent_targets_at_320_gradients(skew, tail):
    target = sinh_arcsinh(dense_base(), skew, tail)
    assert nats_short(target, 320, 6000) < 0.1


@pytest.mark.parametrize(("skew", "tail"), [(1, 1), (0, 0.5)])
def test_strongly_bent_targets_at_640_gradients(skew, tail):
    target = sinh_arcsinh(dense_base(), skew, tail)
    assert nats_short(target, 640, 6000) < 0.3


@pytest.mark.slow
def test_logistic_regression_at_10_gradients_a_dimension():
    target = scorevi.examples.logistic_regression(50, 500, 0.5)
    assert nats_short(target, 500, 4000) < 0.1


@pytest.mark.parametrize("steepness", [1.0, 1e3, 1e4, 1e6, 1e8])
def test_the_eager_step_is_the_exact_one_dimensional_solution(steepness):
    """S U S + S = V is a quadratic equation in one dimension; 50 batches of three pairs."""
    rng = np.random.default_rng(0)
    weight = 1e3
    for _ in range(50):
        z = rng.standard_normal((3, 1))
        h = steepness * rng.standard_normal((3, 1))
        u, v = (
            weight * r.var() + weight / (1 + weight) * r.mean() ** 2 for r in (h[:, 0], z[:, 0])
        )
        s = 2 * (1 + v) / (1 + np.sqrt(1 + 4 * u * (1 + v)))
        exact = weight / (1 + weight) * (s * h.mean() + z.mean())
        shift, values, _ = _eager(z, h)
        assert shift[0] == pytest.approx(np.clip(exact, -0.5, 0.5), rel=1e-6, abs=1e-9)
        assert values[0] == pytest.approx(np.clip(s, 1 / 16, 1.5), rel=1e-9)


def centered(groups):
    """A centered hierarchy: known errors, a scale with the prior log τ ~ N(−½, 1)."""
    rng = np.random.default_rng(0)
    sd = rng.uniform(0.5, 1.5, groups)
    y = 0.5 * rng.standard_normal(groups) + sd * rng.standard_normal(groups)

    def log_density(theta):
        mu, log_tau, group = np.split(theta, [1, 2], axis=1)
        z = (group - mu) * np.exp(-log_tau)
        own = np.vecdot((y - group) / sd, (y - group) / sd) + np.vecdot(z, z)
        prior = mu**2 / 4 + (log_tau + 0.5) ** 2 + 2 * groups * log_tau
        return -0.5 * (own + prior[:, 0])

    def score(theta):
        mu, log_tau, group = np.split(theta, [1, 2], axis=1)
        z = (group - mu) * np.exp(-log_tau)
        pull = z * np.exp(-log_tau)
        of_scale = np.vecdot(z, z)[:, None] - groups - log_tau - 0.5
        return np.hstack(
            [pull.sum(axis=1, keepdims=True) - mu / 4, of_scale, (y - group) / sd**2 - pull]
        )

    return scorevi.from_function(score, groups + 2, log_density)


@pytest.mark.slow
def test_a_valley_is_not_crept_along():
    """Six fits of 1,500 gradients are 0.03 to 0.1 sd off in the median; creeping ones are 0.4."""
    target = centered(38)
    late = [
        step.q
        for step in iterate_gaussian(target, seed=1000, max_gradients=20_000)
        if step.num_gradients > 10_000
    ]
    mean, sd = np.mean([q.mean for q in late], axis=0), np.mean([q.sd for q in late], axis=0)
    fits = [fit_gaussian(target, seed=seed, max_gradients=1500, stop=False) for seed in range(6)]
    assert np.median([np.abs((fit.mean - mean) / sd).max() for fit in fits]) < 0.2


def test_coordinates_are_changed_alike_in_many_dimensions():
    """A draw stays where it is, and so does its score, when q moves by a triangular factor."""
    state = Replay().init(random_gaussian(6, 10, seed=0))
    rng = np.random.default_rng(0)
    z, h = rng.standard_normal((2, 9, 6))
    state = state._replace(z=z, h=h, log_q_then=np.zeros(9))
    precision = np.eye(6) + 0.05 * np.ones((6, 6))
    lower, shift = np.linalg.cholesky(precision), 0.1 * np.arange(6)
    moved = _moved_a_little(state, 3, shift, lower)
    factor = state.q.factor
    np.testing.assert_allclose(moved.q.unwhiten(moved.z), state.q.unwhiten(z))
    np.testing.assert_allclose(moved.q.mean, state.q.mean + factor @ shift)
    covariance = factor @ np.linalg.inv(precision) @ factor.T
    np.testing.assert_allclose(moved.q.factor @ moved.q.factor.T, covariance)
    assert moved.q.log_det == pytest.approx(np.linalg.slogdet(moved.q.factor)[1])
    scores = np.linalg.solve(factor.T, h.T)
    np.testing.assert_allclose(moved.h, (moved.q.factor.T @ scores).T)
