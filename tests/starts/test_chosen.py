"""The default: replay from a start that was chosen by trying."""

import numpy as np
import pytest
from conftest import SHORT, TARGETS, logistic_regression
from one_gaussian import fit_gaussian

import scorevi
from scorevi.base.evaluate import Evaluator
from scorevi.examples import gaussian, random_gaussian
from scorevi.starts.chosen import choose
from scorevi.starts.start import start
from scorevi.targets.synthetic import EIGHT_SCHOOLS

pytestmark = SHORT


def chosen(target, seed=0, budget=None):
    evaluator = Evaluator(target, budget)
    return start("auto", evaluator, np.random.default_rng(seed)), evaluator


def centered_eight_schools():
    """Its log density grows without bound as tau goes to zero: there is no mode."""
    y, sigma = (np.array(EIGHT_SCHOOLS[name]) for name in ("effect", "standard_error"))

    def score(x):
        theta, mu, tau = x[:, :8], x[:, 8:9], np.exp(x[:, 9:])
        pull = (theta - mu) / tau**2
        by_tau = np.vecdot(pull, theta - mu)[:, None] - 8 + 1 - 2 * tau**2 / (25 + tau**2)
        by_mu = pull.sum(axis=1, keepdims=True) - mu / 25
        return np.concatenate([(y - theta) / sigma**2 - pull, by_mu, by_tau], axis=1)

    def log_density(x):
        theta, mu, log_tau = x[:, :8], x[:, 8], x[:, 9]
        scaled = (theta - mu[:, None]) * np.exp(-log_tau)[:, None]
        noise = (y - theta) / sigma
        prior = -0.5 * mu**2 / 25 - np.log1p(np.exp(2 * log_tau) / 25) + log_tau
        return (
            -0.5 * np.vecdot(noise, noise) - 0.5 * np.vecdot(scaled, scaled) - 8 * log_tau + prior
        )

    return scorevi.from_function(score, 10, log_density, batched=True)


def two_modes():
    """A main mode at 4, and one 60 nats below it that is uphill from zero."""
    modes, heights = np.array([-1.5, 4.0]), np.array([0.0, 60.0])

    def parts(x):
        logs = heights - 0.5 * ((x[:, None, :] - modes[:, None]) ** 2).sum(axis=2) / 0.25
        top = logs.max(axis=1, keepdims=True)
        share = np.exp(logs - top)
        return top[:, 0] + np.log(share.sum(axis=1)), share / share.sum(axis=1, keepdims=True)

    def score(x):
        share = parts(x)[1]
        return (share[:, :, None] * (modes[:, None] - x[:, None, :])).sum(axis=1) / 0.25

    return scorevi.from_function(score, 2, lambda x: parts(x)[0], batched=True)


def regression():
    """20,000 observations: a posterior a thousand times narrower than N(0, I), and correlated."""
    rng = np.random.default_rng(1)
    x = np.stack([np.ones(20_000), 5 + 3 * rng.standard_normal(20_000)], axis=1)
    y = x @ [2.0, 1.0] + rng.standard_normal(20_000)
    exact = scorevi.Gaussian.from_moments(np.linalg.solve(x.T @ x, x.T @ y), np.linalg.inv(x.T @ x))
    return gaussian(exact.mean, exact.covariance), exact


@pytest.mark.parametrize("seed", range(4))
def test_a_posterior_without_a_mode(seed):
    fit = fit_gaussian(centered_eight_schools(), seed=seed, max_gradients=1000)
    assert np.isfinite(fit.q.factor).all()
    # Those lost in the funnel have an ELBO below zero and a log tau below −4.
    assert fit.elbo > 3
    assert fit.mean[9] > -3


@pytest.mark.parametrize("seed", range(4))
def test_a_minor_mode_uphill_from_zero(seed):
    fit = fit_gaussian(two_modes(), seed=seed, max_gradients=600)
    np.testing.assert_allclose(fit.mean, 4.0, atol=0.05)
    np.testing.assert_allclose(fit.q.sd, 0.5, rtol=0.1)


@pytest.mark.parametrize("seed", range(4))
def test_half_of_the_scores_do_not_exist(seed):
    target = scorevi.from_function(
        lambda x: np.where(x[:, :1] > 0, 2 - x, np.nan),
        3,
        lambda x: np.where(x[:, 0] > 0, -0.5 * ((x - 2) ** 2).sum(axis=1), np.nan),
        batched=True,
    )
    fit = fit_gaussian(target, seed=seed, max_gradients=500)
    np.testing.assert_allclose(fit.mean, 2.0, atol=1e-6)


@pytest.mark.parametrize("seed", range(4))
def test_scales_far_apart_and_modes_far_away(seed):
    scales = np.array([1e-4, 1e4, 1.0, 1e2])
    for mean, sd in ((scales, scales), (np.full(4, 1e3), np.ones(4))):
        p = scorevi.Gaussian.from_moments(mean, np.diag(sd**2))
        fit = fit_gaussian(gaussian(p.mean, p.covariance), seed=seed, max_gradients=600)
        assert fit.q.kl(p) < 1e-8


@pytest.mark.parametrize("seed", range(4))
def test_a_posterior_far_narrower_than_the_standard_normal(seed):
    target, exact = regression()
    fit = fit_gaussian(target, seed=seed, max_gradients=400)
    assert fit.q.kl(exact) < 1e-8


def test_what_it_costs():
    easy, evaluator = chosen(TARGETS["eight-schools"]())
    assert evaluator.spent == 6
    assert "among 1 for 6 gradients" in easy.notes[0]
    ceilings = {centered_eight_schools: 500, two_modes: 300, lambda: logistic_regression(30): 400}
    for make, ceiling in ceilings.items():
        target = make()
        spent = []
        for seed in range(5):
            found, evaluator = chosen(target, seed)
            assert len(found.pairs) <= evaluator.spent
            spent.append(evaluator.spent)
        assert 6 < np.median(spent) <= ceiling
        found, evaluator = chosen(target, budget=100)
        assert evaluator.spent <= 50


def test_without_a_log_density_it_is_the_standard_normal():
    found, evaluator = chosen(scorevi.from_function(lambda x: 100 * (3 - x), 2, batched=True))
    np.testing.assert_array_equal(found.q.mean, 0.0)
    assert evaluator.spent == 6


@pytest.mark.parametrize("budget", [2, 3, 5, 12, 13, 40])
def test_small_budgets_are_spent_to_the_last_gradient(budget):
    fit = fit_gaussian(logistic_regression(), max_gradients=budget)
    assert fit.num_updates > 0
    assert fit.num_gradients == budget


def test_a_users_point_is_where_the_choice_begins():
    target = gaussian(np.full(3, 50.0), np.eye(3))
    near = fit_gaussian(target, initial=np.full(3, 50.2), max_gradients=100)
    assert "among 1 for 6 gradients" in near.notes[0]
    off = fit_gaussian(target, initial=np.full(3, 40.0), max_gradients=200)
    # Eight are enough to know a Gaussian, and six more ask whether it is all there is.
    assert "among 1 for 14 gradients" in off.notes[0]
    for fit in (near, off):
        np.testing.assert_allclose(fit.mean, 50.0, atol=1e-6)
    with pytest.raises(ValueError, match=r"`initial` must have shape \(3,\); got \(2,\)"):
        fit_gaussian(target, initial=[1.0, 2.0])


def test_none_means_auto_for_auto_alone():
    target = logistic_regression()
    assert "the start was chosen" in fit_gaussian(target, max_gradients=100).notes[0]
    assert fit_gaussian(target, solver="replay", max_gradients=100).notes == ()


@pytest.mark.parametrize("dim", [1, 2, 10, 100])
def test_wrong_signs_and_flat_densities_are_found_out(dim):
    wrong = scorevi.from_function(
        lambda x: x - 1.0, dim, lambda x: -0.5 * ((x - 1.0) ** 2).sum(axis=1), batched=True
    )
    with pytest.warns(scorevi.FitWarning, match="the score contradicts the log density"):
        assert fit_gaussian(wrong).status == "bad-scores"
    for score in (np.zeros_like, np.positive):
        with pytest.warns(scorevi.FitWarning, match="diverged"):
            assert fit_gaussian(scorevi.from_function(score, dim, batched=True)).num_updates <= dim
    p = random_gaussian(dim, 10, seed=1)
    assert fit_gaussian(gaussian(p.mean, p.covariance)).q.kl(p) < 1e-8


@pytest.mark.parametrize("condition", [1.0, 1e4, 1e8])
@pytest.mark.parametrize("dim", [1, 2, 10, 25])
def test_a_gaussian_is_known_by_its_pairs_before_the_search_is_over(dim, condition):
    p = random_gaussian(dim, condition, seed=dim)
    fit = fit_gaussian(scorevi.examples.gaussian(p.mean, p.covariance))
    assert fit.q.kl(p) < 1e-8
    assert fit.num_gradients < 40 + 4 * dim


def test_racers_that_ran_before_the_budget_ends_count():
    target = centered_eight_schools()

    def choice(budget):
        evaluator = Evaluator(target, budget)
        found = choose(evaluator, np.random.default_rng(0), np.zeros(target.dim))
        return evaluator.spent, found

    spent, found = choice(10_000)
    assert "among 2" in found.note
    cut_short = choice(spent - 1)[1]
    assert "among 2" in cut_short.note
    assert np.isfinite(cut_short.q.factor).all()
    assert "among 1" in choice(40)[1].note


def growth_curves():
    """A centered hierarchy with measurements in the hundreds: climbs end in its neck."""
    rng = np.random.default_rng(3)
    times = np.array([-14.0, -7.0, 0.0, 7.0, 14.0])
    level, slope = rng.normal(240, 15, 12), rng.normal(6, 0.6, 12)
    y = level[:, None] + slope[:, None] * times + rng.normal(0, 6, (12, 5))

    def parts(x):
        level, slope, means, logs = x[:, :12], x[:, 12:24], x[:, 24:26], x[:, 26:]
        off = y - level[..., None] - slope[..., None] * times
        return off, level - means[:, :1], slope - means[:, 1:], means, logs

    def log_density(x):
        off, a, b, means, logs = parts(x)
        rates = np.exp(-2 * logs)
        squares = np.stack([(off**2).sum(axis=(1, 2)), (a**2).sum(axis=1), (b**2).sum(axis=1)], 1)
        prior = -0.5 * (means**2).sum(axis=1) / 1e6 - 1e-3 * rates.sum(axis=1)
        return -0.5 * (squares * rates).sum(axis=1) - logs @ [60.002, 12.002, 12.002] + prior

    def score(x):
        off, a, b, means, logs = parts(x)
        rates = np.exp(-2 * logs)
        data, pull_a, pull_b = off * rates[:, :1, None], a * rates[:, 1:2], b * rates[:, 2:]
        squares = np.stack([(off**2).sum(axis=(1, 2)), (a**2).sum(axis=1), (b**2).sum(axis=1)], 1)
        return np.column_stack(
            [
                data.sum(axis=2) - pull_a,
                data @ times - pull_b,
                pull_a.sum(axis=1) - means[:, 0] / 1e6,
                pull_b.sum(axis=1) - means[:, 1] / 1e6,
                squares * rates - [60.002, 12.002, 12.002] + 2e-3 * rates,
            ]
        )

    return scorevi.from_function(score, 29, log_density, batched=True), level


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(4))
def test_a_hierarchy_far_away_is_not_left_in_its_neck(seed):
    target, level = growth_curves()
    fit = fit_gaussian(target, seed=seed, max_gradients=4000)
    # In the neck all curves are the same, and the scales of the differences go to zero.
    assert np.corrcoef(fit.mean[:12], level)[0, 1] > 0.9
    assert abs(fit.mean[27] - np.log(15)) < 1.0
    assert fit.elbo > -156.0  # the best Gaussian has -155.2


def in_raw_units(seed):
    """Earnings in dollars by height in inches: standard deviations from 0.02 to 10,000."""
    rng = np.random.default_rng(seed)
    x = np.stack([np.ones(1000), rng.normal(66.0, 4.0, 1000)], axis=1)
    y = x @ [-60_000.0, 1300.0] + rng.normal(0.0, 19_000.0, 1000)

    def score(theta):
        off = y[:, None] - x @ theta[:, :2].T
        rate = np.exp(-2 * theta[:, 2])
        return np.column_stack([(x.T @ off).T * rate[:, None], (off**2).sum(axis=0) * rate - 1000])

    def log_density(theta):
        off = y[:, None] - x @ theta[:, :2].T
        return -1000 * theta[:, 2] - 0.5 * (off**2).sum(axis=0) * np.exp(-2 * theta[:, 2])

    slope = np.linalg.solve(x.T @ x, x.T @ y)
    variance = np.mean((y - x @ slope) ** 2)
    precision = np.zeros((3, 3))
    precision[:2, :2], precision[2, 2] = x.T @ x / variance, 2000.0
    exact = scorevi.Gaussian.from_moments(
        [*slope, 0.5 * np.log(variance)], np.linalg.inv(precision)
    )
    return scorevi.from_function(score, 3, log_density, batched=True), exact


@pytest.mark.parametrize("seed", range(4))
def test_raw_units_do_not_creep(seed):
    target, exact = in_raw_units(seed)
    fit = fit_gaussian(target, seed=seed, max_gradients=200)
    assert fit.q.kl(exact) < 0.1


def test_in_many_dimensions_a_climb_spares_a_long_way():
    target = logistic_regression(150, 1500)
    fit = scorevi.fit(target, seed=0)
    assert fit.status == "converged"
    assert isinstance(fit.q, scorevi.Gaussian)
    assert fit.trace.num_gradients[0] <= 650  # 900 by small steps from N(0, I)
    longer = scorevi.fit(target, seed=1, tolerance=0.03, max_gradients=20_000)
    assert np.abs((fit.q.mean - longer.q.mean) / longer.q.sd).max() < 0.15
    assert np.abs(np.log(fit.q.sd / longer.q.sd)).max() < 0.1
