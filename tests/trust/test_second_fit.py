"""A fit that is not the best Gaussian is found out by a second one."""

import numpy as np
import pytest
from conftest import SHORT, logistic_regression
from one_gaussian import fit_gaussian

import scorevi
from scorevi.base.estimates import robust_elbo

pytestmark = SHORT


def shelf(dim=12):
    """A scale with a shelf to its left, on which the others are as narrow as the scale is small."""

    def log_density(x):
        scale, theta = x[:, 0], x[:, 1:]
        height = -30.0 / (1.0 + np.exp(2 * (scale + 4)))
        return (
            height
            - 0.5 * np.exp(2 * scale)
            - (dim - 1) * scale
            - 0.5 * np.vecdot(theta, theta) * np.exp(-2 * scale)
        )

    def score(x):
        scale, theta = x[:, :1], x[:, 1:]
        rise = 1.0 / (1.0 + np.exp(2 * (scale + 4)))
        pull = theta * np.exp(-2 * scale)
        by_scale = 60.0 * rise * (1 - rise) - np.exp(2 * scale) - (dim - 1)
        return np.concatenate([by_scale + np.vecdot(pull, theta)[:, None], -pull], axis=1)

    return scorevi.from_function(score, dim, log_density, batched=True)


def in_the_neck(target, seed):
    sd = np.concatenate([[0.2], np.full(target.dim - 1, np.exp(-9.0))])
    start = scorevi.Gaussian(np.concatenate([[-9.0], np.zeros(target.dim - 1)]), np.diag(sd))
    return fit_gaussian(target, "replay", initial=start, seed=seed, max_gradients=1500)


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_a_fit_in_the_neck_fails(seed):
    target = shelf()
    fit = in_the_neck(target, seed)
    assert fit.mean[0] < -5
    verdict = fit.check(seed=seed)
    assert verdict == "fail"
    assert "nats higher" in verdict.explain()
    assert fit_gaussian(target, seed=seed).mean[0] > -4
    without = fit.check(seed=seed, modes=False)
    assert "nats higher" not in without.explain()
    assert verdict.num_evaluations - without.num_evaluations < 4000


def test_where_the_posterior_is_near_gaussian_it_costs_little():
    fit = fit_gaussian(logistic_regression(5))
    verdict = fit.check()
    assert verdict == "pass"
    assert verdict.num_evaluations < 2000


def test_one_draw_in_a_far_tail_does_not_decide():
    values = np.random.default_rng(0).standard_normal(100)
    plain, error = robust_elbo(values)
    assert plain == pytest.approx(values.mean())
    assert error == pytest.approx(0.1, rel=0.2)
    values[0] = -1e9
    assert robust_elbo(values)[0] == pytest.approx(plain, abs=0.2)
    values[:30] = -np.inf
    assert robust_elbo(values)[0] == pytest.approx(values[30:].mean() + np.log(0.7))
    values[:60] = np.nan
    assert robust_elbo(values) == (-np.inf, np.inf)
