"""Chains by nutpie: the metric is that of q, bad scores are survived, rounds can be repeated."""

import threading

import numpy as np
import pytest

import scorevi
from scorevi import Gaussian
from scorevi.base.evaluate import Evaluator
from scorevi.sampling.asked import Asked
from scorevi.sampling.diagnostics import effective, energy_information, r_hat
from scorevi.sampling.gathering import Gathering, Place
from scorevi.sampling.rounds import Limits, advance, begin, begin_again, is_enough, why_hopeless
from scorevi.sampling.running import Chain, run
from scorevi.sampling.starting import starts
from scorevi.targets import as_target

pytest.importorskip("nutpie")

SKEWED = Gaussian.from_moments([3.0, -1e3, 0.1], [[4, 30, 0], [30, 400, 0.001], [0, 0.001, 1e-6]])


def chains_of(target, white, draws=40, count=2, budget=None, at=None):
    at = white.mean if at is None else at
    return [Chain(white, Evaluator(target, budget), at, draws) for _ in range(count)]


def test_the_metric_is_that_of_q():
    """In the coordinates of q a Gaussian is N(0, I), and trajectories are the same for all."""
    plain, skewed = Gaussian.standard(3), SKEWED
    found = []
    for q in (plain, skewed):
        start = q.unwhiten(np.array([0.5, -0.3, 1.0]))
        stretches, _ = run(chains_of(as_target(q), q, at=start), 0.9, [5, 6])
        z = np.array([q.whiten(stretch.theta) for stretch in stretches])
        found.append((z, [stretch.stats["n_steps"] for stretch in stretches]))
    np.testing.assert_allclose(found[0][0], found[1][0], atol=1e-8)
    np.testing.assert_array_equal(found[0][1], found[1][1])


def test_draws_are_those_of_the_target_though_q_is_off():
    # Means of 4 × 600 draws with an effective sample of 500 or more have errors of at most
    # 0.045 sd; 5 of them is a false alarm in a million.
    target = scorevi.examples.random_gaussian(4, 20, seed=3)
    q = Gaussian(target.mean + 0.3 * target.sd, 0.8 * target.factor)
    course = begin(q.sample(4, 0))
    asked = Asked(2400, 500, 0)
    while not is_enough(course, asked):
        course, cut = advance(course, q, as_target(target), asked, Limits(100_000, None))
        assert not cut
    flat = course.theta.reshape(-1, 4)
    assert (np.abs(flat.mean(axis=0) - target.mean) < 0.23 * target.sd).all()
    assert (np.abs(np.log(flat.std(axis=0) / target.sd)) < 0.2).all()
    assert course.divergences == 0
    accepted = float(course.stats["acceptance_rate"].mean())
    assert 0.6 < accepted < 0.95  # it was to be 0.8
    np.testing.assert_allclose(course.ess, effective(course.theta))
    np.testing.assert_allclose(course.r_hat, r_hat(course.theta))


def test_a_round_is_the_same_with_points_gathered_or_not():
    q = scorevi.examples.gaussian([1.0, 2.0], [[2.0, 1.0], [1.0, 3.0]])
    white = Gaussian.from_moments([1.0, 2.0], np.eye(2))
    gathering = Gathering(q, 4)
    gathered = [
        Chain(white, Evaluator(Place(gathering, k)), white.mean + 0.1, 20 + k) for k in range(4)
    ]
    alone = [Chain(white, Evaluator(q), white.mean + 0.1, 20 + k) for k in range(4)]
    both = [run(chains, 0.7, [1, 2, 3, 4])[0] for chains in (gathered, alone)]
    for one, other in zip(*both, strict=True):
        np.testing.assert_allclose(one.theta, other.theta, atol=1e-10)
        np.testing.assert_array_equal(one.stats["n_steps"], other.stats["n_steps"])


def test_bad_scores_are_survived_and_counted():
    def score(theta):
        if theta[0, 0] > 2.5:
            raise RuntimeError("no such thing")
        return np.where(theta[:, :1] < -2.5, np.nan, -theta)

    def log_density(theta):
        return -0.5 * (theta**2).sum(axis=1)

    target = scorevi.from_function(score, 2, log_density)
    (chain,) = chains_of(target, Gaussian.standard(2), draws=2000, count=1)
    (stretch,), _ = run([chain], 0.8, [3])
    bad = chain.evaluator.bad
    assert bad.counts["raised"] > 0
    assert bad.counts["nan"] > 0
    assert len(stretch.theta) == 2000
    assert np.abs(stretch.theta[:, 0]).max() <= 2.5
    assert 0 < stretch.stats["diverging"].sum() <= bad.total


def test_what_is_drawn_after_the_budget_is_dropped():
    q = scorevi.examples.random_gaussian(3)
    free, bound = (chains_of(as_target(q), q, budget=most, count=1) for most in (None, 100))
    (whole,), _ = run(free, 0.7, [7])
    (cut,), _ = run(bound, 0.7, [7])
    assert bound[0].evaluator.spent == 100
    count = len(cut.theta)
    assert 5 < count < 40
    np.testing.assert_array_equal(cut.theta, whole.theta[:count])
    assert cut.stats["n_steps"].sum() <= 99


def test_starts_are_apart_and_where_the_weights_are():
    rng = np.random.default_rng(0)
    theta = rng.standard_normal((400, 2))
    log_ratio = np.where(theta[:, 0] > 0, 0.0, -50.0)
    log_ratio[:20] = -np.inf
    at = starts(theta, log_ratio, Gaussian.standard(2), 4, seed=1)
    assert (at[:, 0] > 0).all()
    assert min(np.linalg.norm(a - b) for k, a in enumerate(at) for b in at[:k]) > 0.7
    np.testing.assert_array_equal(at, starts(theta, log_ratio, Gaussian.standard(2), 4, seed=1))


def test_chains_that_do_not_mix_are_given_up():
    modes = [Gaussian.from_moments([m, 0.0], np.eye(2)) for m in (-8.0, 8.0)]
    target = as_target(scorevi.Mixture([0.5, 0.5], modes))
    course = begin(np.array([[-8.0, 0], [8, 0], [-8, 1], [8, 1]]))
    asked = Asked(1000, 400, 0)
    while not (why := why_hopeless(course, asked, 50_000)):
        course, cut = advance(course, Gaussian.standard(2), target, asked, Limits(50_000, None))
        assert not cut
    assert "the chains do not mix" in why
    assert course.r_hat[0] > 1.5


def test_chains_without_a_step_size_begin_elsewhere_twice():
    target, asked = as_target(Gaussian.standard(2)), Asked(1000, 400, 0)
    course = begin(np.zeros((4, 2)))
    spent = []
    while True:
        course, _ = advance(course, Gaussian.standard(2), target, asked, Limits(50_000, None))
        # As if it had taken much more.
        taken = course.gradients_before + 20_000
        course = course._replace(adaptation_gradients=taken)
        assert "no step size was found within 20000 gradients" in why_hopeless(course, asked, 1000)
        again = begin_again(course, np.ones((4, 2)))
        if again is None:
            break
        assert again.adapting
        assert again.last.tolist() == [[1.0, 1.0]] * 4
        assert again.number > 0
        assert why_hopeless(again, asked, 1000) == ""
        course = again
        spent.append(course.adaptation_gradients)
    assert spent == [20_000, 40_000]


def test_points_of_all_chains_are_evaluated_together():
    sizes = []

    def log_density(theta):
        sizes.append(len(theta))
        if (theta > 3).any():
            raise RuntimeError("too far")
        return -0.5 * (theta**2).sum(axis=1)

    target = scorevi.from_function(lambda theta: -theta, 2, log_density, batched=True)
    gathering = Gathering(target, 3)
    answers = {}

    def ask(chain, points):
        place = Place(gathering, chain)
        answers[chain] = [place.evaluate(np.array([point])) for point in points]
        gathering.leave()

    points = {0: [[1.0, 0]] * 2, 1: [[0.0, 2]] * 4, 2: [[9.0, 0]]}
    threads = [threading.Thread(target=ask, args=one) for one in points.items()]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        gathering.serve(0.01)
    assert [len(answers[chain]) for chain in range(3)] == [2, 4, 1]
    assert sizes == [3, 1, 1, 1, 2, 1, 1]  # the first batch raised, and went one by one
    assert answers[0][1].log_density[0] == -0.5
    assert answers[1][3].score[0].tolist() == [0.0, -2.0]
    assert answers[2][0].failures[0].cause == "raised"


def test_energies_of_a_creeping_chain_have_little_information():
    rng = np.random.default_rng(0)
    independent = rng.standard_normal((4, 500))
    assert energy_information(independent) > 1.5
    assert energy_information(np.cumsum(independent, axis=1)) < 0.1
