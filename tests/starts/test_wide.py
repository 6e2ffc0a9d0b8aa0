"""The climb of a wide Gaussian."""

import numpy as np
import pytest

import scorevi
from scorevi.base.evaluate import Evaluator, Exhausted
from scorevi.examples import gaussian
from scorevi.starts.wide import DRAWS, WideClimb


def climbed(target, at_most=400, budget=None, width=1.0, until=None):
    evaluator = Evaluator(target, budget)
    q = scorevi.Gaussian.standard(target.dim)
    climb = WideClimb(evaluator, q, np.random.default_rng(0))
    climb.climb(width, at_most, until)
    return climb, evaluator


@pytest.mark.parametrize("dim", [1, 2, 30])
def test_independent_coordinates_are_met_to_a_fraction_of_a_nat(dim):
    sd = np.geomspace(0.1, 3.0, dim)
    exact = scorevi.Gaussian.from_moments(np.full(dim, 2.0), np.diag(sd**2))
    climb, _ = climbed(gaussian(exact.mean, exact.covariance), at_most=1000)
    assert climb.q.kl(exact) < 0.1


def test_it_stays_out_of_a_neck():
    def log_density(x):
        scale, theta = x[:, 0], x[:, 1:]
        width = 3.0 * np.expm1(-0.5 * scale**2)
        return width - 20 * scale - 0.5 * (theta**2).sum(axis=1) * np.exp(-2 * scale)

    def score(x):
        scale, theta = x[:, :1], x[:, 1:]
        pull = theta * np.exp(-2 * scale)
        by_scale = -3.0 * scale * np.exp(-0.5 * scale**2) - 20 + np.vecdot(pull, theta)[:, None]
        return np.concatenate([by_scale, -pull], axis=1)

    target = scorevi.from_function(score, 21, log_density, batched=True)
    climb, _ = climbed(target)
    assert climb.q.mean[0] > -1.5


def test_what_it_costs_is_counted_and_bounded():
    target = gaussian(np.full(3, 50.0), np.eye(3))
    climb, evaluator = climbed(target, at_most=10)
    assert evaluator.spent == 2 * DRAWS
    assert climb.best is not None
    with pytest.raises(Exhausted):
        climbed(target, budget=10)


def test_it_ends_where_it_is_told_to_and_goes_on_from_there():
    target = gaussian(np.zeros(3), np.eye(3))
    climb, evaluator = climbed(target, width=8.0, until=lambda wide: wide.log_width.max() < 1.5)
    assert climb.best.log_width.max() < 1.5
    spent, elbo = evaluator.spent, climb.elbo
    climb.climb(1.0, 200)
    assert evaluator.spent > spent
    assert climb.elbo > elbo


def test_half_of_the_scores_may_be_missing():
    def log_density(x):
        return np.where(x[:, 0] < 0.3, -0.5 * (x**2).sum(axis=1), np.nan)

    target = scorevi.from_function(lambda x: -x, 2, log_density, batched=True)
    climb, evaluator = climbed(target)
    assert evaluator.bad.total > 0
    assert climb.q is None or np.isfinite(climb.q.factor).all()
