"""Weighted draws: what they are worth, how they are chosen, and how several kinds are weighed."""

import numpy as np
import pytest

from scorevi import Gaussian, Mixture
from scorevi.base.evaluate import Evaluator
from scorevi.sampling.pool import Pool
from scorevi.sampling.weighted import choose, effective_weighted, tails
from scorevi.targets import as_target
from scorevi.trust.wider_draws import wider_than


def test_equal_weights_are_worth_as_many_draws_as_there_are():
    t = np.random.default_rng(0).standard_normal((300, 4))
    np.testing.assert_allclose(effective_weighted(t, np.full(300, 1 / 300)), 300.0)


def test_the_effective_sample_predicts_the_error_of_weighted_means():
    # p is N(0, 1), q is N(0, 1.5²): the variance of the weighted mean, over 2000 repetitions, is
    # known to about 3 %, so that a false alarm at 15 % is 5 sigma.
    rng = np.random.default_rng(1)
    means, squares, promised = [], [], []
    for _ in range(2000):
        t = 1.5 * rng.standard_normal((200, 1))
        w = np.exp(-0.5 * t[:, 0] ** 2 * (1 - 1 / 2.25))
        w /= w.sum()
        means.append(w @ t[:, 0])
        squares.append(w @ t[:, 0] ** 2)
        promised.append(effective_weighted(t, w)[0])
    worth = min(1 / np.var(means), 2 / np.var(squares))
    assert np.mean(promised) == pytest.approx(worth, rel=0.15)


def test_each_draw_is_chosen_as_often_as_its_weight_says():
    rng = np.random.default_rng(2)
    w = rng.exponential(size=50)
    w /= w.sum()
    for size in (7, 50, 1000):
        counts = np.bincount(choose(w, size, rng), minlength=50)
        assert counts.sum() == size
        assert (np.abs(counts - size * w) < 1.0).all()


def test_a_draw_without_weight_is_never_chosen():
    w = np.array([0.0, 0.5, 0.0, 0.5, 0.0])
    assert set(choose(w, 400, np.random.default_rng(0))) == {1, 3}


def test_a_square_may_have_a_tail_that_the_weights_have_not():
    # Student t with 2 degrees of freedom, drawn from itself: weights are even, squares have no
    # mean.
    t = np.random.default_rng(3).standard_t(2.0, (4000, 1))
    w = np.full(4000, 1 / 4000)
    assert tails(t, w, np.zeros(4000)).max() > 0.7
    gaussian = np.random.default_rng(3).standard_normal((4000, 1))
    assert tails(gaussian, w, np.zeros(4000)).max() < 0.5


@pytest.mark.parametrize(
    "q",
    [
        Gaussian.from_moments([1.0, -1.0], [[2.0, 0.5], [0.5, 1.0]]),
        Mixture([0.3, 0.7], [Gaussian.standard(2), Gaussian.from_moments([3, 0], np.eye(2))]),
    ],
)
def test_a_pool_of_two_kinds_weighs_like_one_sample(q):
    """The mean weight estimates the constant, 1, whatever the kinds and however many of each."""
    evaluator = Evaluator(as_target(q))
    noise = np.random.default_rng(0).standard_normal((500, q.noise_width))
    theta, _, _, log_q = q.points(noise)
    pool = Pool(theta, log_q, log_q)
    np.testing.assert_array_equal(pool.log_ratio, 0.0)
    wide = wider_than(q).sample(1000, np.random.default_rng(1))
    pool = pool.with_wider(q, wide, q.log_density(wide)).with_own(q, 700, 0, evaluator)
    assert (pool.own, pool.wider, evaluator.spent) == (1200, 1000, 700)
    weights = np.exp(pool.log_ratio)
    assert weights.max() <= 2200 / 1200 + 1e-9
    error = weights.std() / np.sqrt(len(weights))
    assert abs(weights.mean() - 1.0) < 4 * error  # a false alarm in 16,000
    mean = weights @ pool.theta / weights.sum()
    assert (np.abs(mean - q.mean) < 0.2 * q.sd).all()
