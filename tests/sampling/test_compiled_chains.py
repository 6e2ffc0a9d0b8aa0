"""Chains in compiled code: the same posterior as nutpie's, counted to the gradient, repeatable."""

import numpy as np
import pytest

import scorevi
from scorevi import Gaussian
from scorevi.base.evaluate import Evaluator
from scorevi.sampling import compiled_chains
from scorevi.sampling.asked import Asked
from scorevi.sampling.choosing import sampler_for
from scorevi.sampling.compiled_chains import run
from scorevi.sampling.compiled_loop import loop_of
from scorevi.sampling.rounds import Limits, advance, begin, is_enough
from scorevi.sampling.running import DEPTH

jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytest.importorskip("nutpie")
jnp = jax.numpy

pytestmark = [pytest.mark.jax, pytest.mark.slow]

STATS = {
    "lp",
    "energy",
    "diverging",
    "tree_depth",
    "reached_max_treedepth",
    "n_steps",
    "acceptance_rate",
    "step_size",
}
DEEPEST = 2**DEPTH - 1


def cosh(theta):
    """A density with light tails, of which no Gaussian has the shape."""
    return -jnp.cosh(theta).sum()


@pytest.fixture(scope="module")
def target():
    return scorevi.from_jax(cosh, 3)


@pytest.fixture(scope="module")
def half_space():
    """A standard normal without a score to one side, and without a density farther off."""

    def log_density(theta):
        value = -0.5 * (theta**2).sum()
        value = jnp.where(theta[0] > 1.0, jnp.sqrt(1.0 - theta[0]) + value, value)
        return jnp.where(theta[0] < -1.5, -jnp.inf, value)

    return scorevi.from_jax(log_density, 2)


def ran(target, draws=60, seeds=(5, 6), budget=None, at=None, step_size=0.6, white=None):
    white = white or Gaussian.standard(target.dim)
    starts = np.tile(white.mean if at is None else at, (len(seeds), 1))
    evaluators = [Evaluator(target, budget) for _ in seeds]
    stretches, stopped = run(evaluators, white, starts, draws, step_size, list(seeds))
    assert not stopped
    return stretches, evaluators


def sampled(sampler, target, white, asked, at):
    course = begin(at, sampler)
    while not is_enough(course, asked):
        course, cut = advance(course, white, target, asked, Limits(400_000, None))
        assert not cut
    return course


def test_moments_of_a_gaussian_though_q_is_off():
    # Means of an effective sample of 1,000 or more have errors of 0.032 sd, and log sds no larger
    # ones: five of them, in eight figures, is a false alarm in 200,000.
    truth = scorevi.examples.random_gaussian(4, 20, seed=3)
    precision = np.linalg.inv(truth.covariance)
    target = scorevi.from_jax(lambda t: -0.5 * (t - truth.mean) @ precision @ (t - truth.mean), 4)
    q = Gaussian(truth.mean + 0.3 * truth.sd, 0.8 * truth.factor)
    course = sampled("blackjax", target, q, Asked(2000, 1000, 0), q.sample(4, 0))
    flat = course.theta.reshape(-1, 4)
    assert (np.abs(flat.mean(axis=0) - truth.mean) < 0.16 * truth.sd).all()
    assert (np.abs(np.log(flat.std(axis=0) / truth.sd)) < 0.16).all()
    assert course.divergences == 0
    assert 0.6 < course.stats["acceptance_rate"].mean() < 0.95  # it was to be 0.8
    assert set(course.stats) == STATS


def test_nutpie_and_blackjax_agree_on_what_is_not_gaussian(target):
    # Quantiles of 1,500 effective draws each, as shares that are binomial: their difference has an
    # error of at most 0.0183; five of them, for nine figures, is a false alarm in 200,000.
    white = Gaussian(np.full(3, 0.2), 0.9 * np.eye(3))
    both = [
        sampled(sampler, target, white, Asked(3000, 1500, 1), white.sample(4, 1))
        for sampler in ("nutpie", "blackjax")
    ]
    theirs, ours = (course.theta.reshape(-1, 3) for course in both)
    for level in (0.1, 0.5, 0.9):
        at = np.quantile(theirs, level, axis=0)
        assert (np.abs((ours < at).mean(axis=0) - level) < 0.092).all()
    # By quadrature. The log sd of 1,500 effective draws has an error of 0.02 to 0.026.
    grid = np.linspace(-6.0, 6.0, 4001)
    weight = np.exp(-np.cosh(grid))
    sd = np.sqrt((weight * grid**2).sum() / weight.sum())
    assert (np.abs(np.log(ours.std(axis=0) / sd)) < 0.13).all()
    # Both aim at the same rate of acceptance, so they come to much the same step size.
    assert abs(np.log(both[0].step_size / both[1].step_size)) < 0.5


def test_a_round_is_the_same_however_it_is_divided(target, monkeypatch):
    whole, evaluators = ran(target)
    monkeypatch.setattr(compiled_chains, "_STEPS", 1)
    monkeypatch.setattr(compiled_chains, "_TURN", -1.0)  # every turn is long enough
    parts, others = ran(target)
    for one, other in zip(whole, parts, strict=True):
        np.testing.assert_array_equal(one.theta, other.theta)
        for name in STATS:
            np.testing.assert_array_equal(one.stats[name], other.stats[name])
    assert [one.spent for one in evaluators] == [one.spent for one in others]
    (alone,), _ = ran(target, seeds=(6,))
    np.testing.assert_array_equal(alone.theta, whole[1].theta)


def test_the_metric_is_that_of_q():
    """In the coordinates of q a Gaussian is N(0, I), and trajectories are the same for all."""
    found = []
    for q in (
        Gaussian.standard(3),
        Gaussian.from_moments([3.0, -1e3, 0.1], [[4, 30, 0], [30, 400, 0.001], [0, 0.001, 1e-6]]),
    ):
        target = scorevi.from_jax(
            lambda t, d: -0.5 * (t - d[0]) @ d[1] @ (t - d[0]),
            3,
            data=(q.mean, np.linalg.inv(q.covariance)),
        )
        start = q.unwhiten(np.array([0.5, -0.3, 1.0]))
        stretches, _ = ran(target, 20, at=start, white=q)
        found.append([(q.whiten(one.theta), one.stats["n_steps"]) for one in stretches])
    for one, other in zip(*found, strict=True):
        np.testing.assert_allclose(one[0], other[0], atol=1e-6)
        np.testing.assert_array_equal(one[1], other[1])


def test_one_compilation_does_for_all():
    target = scorevi.from_jax(cosh, 2)
    for scale, step_size, draws, seeds in ((1.0, 0.5, 7, (1, 2)), (2.0, 0.3, 300, (3, 4, 5, 6))):
        white = Gaussian(np.full(2, scale), scale * np.eye(2))
        ran(target, draws, seeds, 10_000, step_size=step_size, white=white)
    assert loop_of(target)._cache_size() == 1


def test_gradients_are_counted_as_they_are_made():
    calls = [0]

    def count(_):
        calls[0] += 1

    def log_density(theta):
        jax.debug.callback(count, theta[0])
        return cosh(theta)

    target = scorevi.from_jax(log_density, 2)
    assert sampler_for(target) == "nutpie"  # as it asks Python anyway
    ran(target, 1, (1,))  # compiled
    jax.effects_barrier()
    calls[0] = 0
    stretches, evaluators = ran(target, 30, (1, 2, 3))
    jax.effects_barrier()
    assert sum(one.spent for one in evaluators) == calls[0]
    for stretch, evaluator in zip(stretches, evaluators, strict=True):
        assert evaluator.spent == 1 + stretch.stats["n_steps"].sum()


@pytest.mark.parametrize("budget", [0, 1, 2, 50, 201, 1500])
def test_a_budget_is_never_exceeded_and_what_fits_is_as_without_one(target, budget):
    free, _ = ran(target, 300, step_size=0.1)
    bound, evaluators = ran(target, 300, step_size=0.1, budget=budget)
    for whole, part, evaluator in zip(free, bound, evaluators, strict=True):
        count = len(part.theta)
        np.testing.assert_array_equal(part.theta, whole.theta[:count])
        steps = int(part.stats["n_steps"].sum())
        assert steps <= evaluator.spent <= budget
        # The draw after the last did not fit, and no tree that began could.
        assert count < 300
        assert evaluator.spent + whole.stats["n_steps"][count] >= budget
        assert min(budget, 1) <= evaluator.spent
        assert set(part.stats) == STATS


def test_a_round_without_a_budget_for_it_gives_nothing(target):
    course = begin(np.zeros((4, 3)), "blackjax")
    course, cut = advance(course, Gaussian.standard(3), target, Asked(100, 10, 0), Limits(3, None))
    assert cut == "exhausted"
    assert course.adaptation_gradients == 0


def test_bad_scores_are_survived_and_counted(half_space):
    (stretch,), (evaluator,) = ran(half_space, 3000, (3,), step_size=0.5)
    bad = evaluator.bad
    assert len(stretch.theta) == 3000
    assert stretch.theta[:, 0].max() <= 1.0
    assert stretch.theta[:, 0].min() >= -1.5
    assert bad.counts["nan"] > 100
    assert bad.counts["infinite"] > 20
    assert bad.total == stretch.stats["diverging"].sum()  # each ends its trajectory
    assert np.isfinite(stretch.stats["lp"]).all()
    assert np.isfinite(stretch.stats["energy"]).all()
    assert evaluator.spent == 1 + stretch.stats["n_steps"].sum()
    for point, cause, detail in bad.examples:
        assert (cause, detail) in (
            ("nan", "the score is NaN"),
            ("infinite", "the log density is infinite"),
        )
        assert (point[0] > 1.0) == (cause == "nan")
    # A normal cut to [-1.5, 1] has a mean of -0.148 and an sd of 0.65; of an effective sample of
    # 300 or more, five errors is a false alarm in a million.
    assert abs(stretch.theta[:, 0].mean() + 0.148) < 0.19


def test_a_score_that_is_too_large():
    steep = scorevi.from_jax(lambda t: jnp.where(t[0] > 1.0, 1e160 * t[0], -0.5 * t[0] ** 2), 1)
    (stretch, *_), (evaluator, *_) = ran(steep, 300)
    assert set(evaluator.bad.counts) == {"overflow"}
    assert stretch.theta.max() <= 1.0


def test_a_start_without_a_score_is_left(half_space):
    (stretch,), (evaluator,) = ran(half_space, 200, (1,), at=np.array([1.3, 0.0]), step_size=0.4)
    assert evaluator.bad.examples[0].point.tolist() == [1.3, 0.0]
    assert (stretch.theta[-100:, 0] <= 1.0).all()


def test_where_nearly_all_is_bad_a_chain_ends():
    target = scorevi.from_jax(lambda t: jnp.where(jnp.abs(t[0]) > 1e-9, jnp.nan, 0.0) + t[0], 1)
    (stretch,), (evaluator,) = ran(target, 5000, (1,), at=np.zeros(1))
    assert len(stretch.theta) < 200
    assert evaluator.bad.total == evaluator.spent - 1


def test_the_time_is_looked_at_between_turns(target, monkeypatch):
    advance_one = compiled_chains._Chain.advance
    evaluators = [Evaluator(target, None, np.inf) for _ in range(4)]

    def until_late(self, *arguments):
        advance_one(self, *arguments)
        if self.drawn >= 100:
            for evaluator in evaluators:
                evaluator.deadline = 0.0

    monkeypatch.setattr(compiled_chains._Chain, "advance", until_late)
    starts = np.zeros((4, 3))
    stretches, stopped = run(evaluators, Gaussian.standard(3), starts, 10**6, 0.5, range(4))
    assert not stopped
    assert all(1 <= len(one.theta) <= 1000 for one in stretches)  # by turns
    assert [one.spent for one in evaluators] == [1 + s.stats["n_steps"].sum() for s in stretches]


def test_single_precision_stays_the_users_choice(target):
    before = jax.config.jax_enable_x64
    stretches, _ = ran(target, 5)
    assert stretches[0].theta.dtype == np.float64
    assert jax.config.jax_enable_x64 == before
    assert jnp.zeros(1).dtype == (jnp.float64 if before else jnp.float32)
