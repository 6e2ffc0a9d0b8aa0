"""How far the best Gaussian still is, and when that is near enough."""

import math

import numpy as np
import pytest
from conftest import logistic_regression
from one_gaussian import fit_gaussian

import scorevi
from scorevi.engine.arrival import Arrival, Distance
from scorevi.engine.records import Updates
from scorevi.engine.stopping import StopRule
from scorevi.examples import random_gaussian, sinh_arcsinh
from scorevi.families import Gaussian
from scorevi.solvers.base import Batch


def arrival(q, target, batches=40, size=16):
    found, rng = Arrival(), np.random.default_rng(0)
    for _ in range(batches):
        points = q.points(rng.standard_normal((size, q.dim)))
        score, log_density, _ = scorevi.targets.as_target(target).evaluate(points.theta)
        found.add(q, Batch.of(q, points, score, log_density))
    return found.near(q)


@pytest.mark.parametrize(("moved", "wider"), [(0.0, 1.0), (0.3, 1.0), (0.0, 1.25), (-0.1, 0.9)])
def test_distances_from_a_gaussian_are_those_that_there_are(moved, wider):
    p = random_gaussian(5, 100, seed=1)
    q = Gaussian(p.mean + moved * p.sd, p.factor * wider, p.log_det + 5 * math.log(wider))
    near = arrival(q, p)
    # In standard deviations of q; the score of a Gaussian has no noise but that of q's width.
    assert near.mean_least <= 1.05 * abs(moved) / wider + 1e-9
    assert near.mean >= 0.8 * abs(moved) / wider
    assert near.mean <= abs(moved) / wider + 0.1
    assert abs(near.log_sd - abs(math.log(wider))) < 0.15
    assert near.is_within(0.05) is (moved == 0.0 and wider == 1.0)
    assert near.is_beyond(0.02) is not (moved == 0.0 and wider == 1.0)


def test_a_bent_score_lengthens_the_way():
    """Along a skewed marginal mean and sd go together, and the mismatch alone says too little."""
    target = sinh_arcsinh(random_gaussian(1, seed=0), 0.8, 1.0)
    best = fit_gaussian(target, max_gradients=20_000, stop=False).q
    q = Gaussian(best.mean - 0.4 * best.sd, best.factor * 0.85, best.log_det + math.log(0.85))
    near = arrival(q, target, batches=200)
    assert near.mean > 0.3
    assert near.mean_least < 0.6


def test_where_q_was_when_it_drew_is_not_where_it_is():
    """A q that has just arrived is not known to be off, and not known to have arrived either."""
    p = random_gaussian(5, 100, seed=1)
    q = Gaussian(p.mean + 2.0 * p.sd, 1.3 * p.factor, p.log_det + 5 * math.log(1.3))
    found, rng = Arrival(), np.random.default_rng(0)
    for _ in range(40):
        points = q.points(rng.standard_normal((16, q.dim)))
        score, log_density, _ = scorevi.targets.as_target(p).evaluate(points.theta)
        found.add(q, Batch.of(q, points, score, log_density))
    assert found.near(q).is_beyond(1.0)
    assert not found.near(p).is_within(1.0)
    assert not found.near(p).is_beyond(0.1)


def test_few_batches_tell_nothing():
    p = random_gaussian(2, seed=0)
    near = arrival(p, p, batches=7)
    assert not near.is_within(10.0)
    assert not near.is_beyond(0.0)
    assert "cannot be told" in str(near)


def records(count):
    gradients = [10 * (k + 1) for k in range(count)]
    noise = np.random.default_rng(0).standard_normal(count)
    return Updates(gradients, gradients, list(noise), list(np.exp(0.1 * noise)), list(noise))


def test_near_enough_ends_a_fit_and_says_how_near():
    status = StopRule(3).judge(records(10), near=Distance(0.06, 0.04, 0.0, 0.0))
    assert status == "converged"
    assert status.cause == "means within 0.06 sd, sds within 4%"
    assert StopRule(3).judge(records(10), near=Distance(0.12, 0.04, 0.0, 0.0)) is None
    assert StopRule(3, 0.2).judge(records(10), near=Distance(0.12, 0.04, 0.0, 0.0)) == "converged"


@pytest.mark.parametrize(
    ("near", "word", "said"),
    [
        ((0.3, 0.3, 0.0, 0.0), "converged", "as far as the noise of the draws tells"),
        ((0.3, 0.3, 0.2, 0.0), "stalled", "the scores say that it is off: means within 0.3 sd"),
    ],
)
def test_what_is_level_ends_and_is_not_converged_where_it_is_known_to_be_far(near, word, said):
    rule, status = StopRule(3), None
    for count in range(20, 2000):
        status = status or rule.judge(records(count), near=Distance(*near))
    assert status == word
    assert said in status.cause


def test_a_default_fit_says_how_near_it_is():
    fit = fit_gaussian(logistic_regression(), seed=0)
    assert fit.status == "converged"
    assert fit.status.cause.startswith("means within 0.0")
    longer = fit_gaussian(logistic_regression(), seed=1, max_gradients=20_000, stop=False)
    assert np.abs((fit.mean - longer.mean) / longer.q.sd).max() < 0.1
    assert np.abs(np.log(fit.q.sd / longer.q.sd)).max() < 0.1


def test_a_smaller_tolerance_asks_for_more():
    fits = [
        fit_gaussian(logistic_regression(), seed=0, tolerance=tolerance)
        for tolerance in (0.3, 0.03)
    ]
    assert fits[1].num_gradients > 2 * fits[0].num_gradients
    assert all(fit.status == "converged" for fit in fits)


@pytest.mark.parametrize("tolerance", [0, -1.0, math.nan, "small", None])
def test_a_tolerance_is_a_positive_number(tolerance):
    with pytest.raises(ValueError, match="`tolerance` must be a positive number; got"):
        fit_gaussian(logistic_regression(), tolerance=tolerance)
