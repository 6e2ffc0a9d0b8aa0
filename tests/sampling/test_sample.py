"""``scorevi.sample``: right or not passed, within its limits, the same bits again."""

import contextlib
import os
import pickle
import signal
import threading
import warnings

import numpy as np
import pytest

import scorevi
from scorevi import Gaussian, Mixture
from scorevi.base.status import FitError, FitWarning
from scorevi.sampling.asked import Asked
from scorevi.sampling.keeping import Keeper
from scorevi.sampling.looking import look
from scorevi.sampling.rounds import Limits, advance, begin
from scorevi.targets import as_target
from scorevi.targets.isolated import evaluating

pytest.importorskip("nutpie")

pytestmark = pytest.mark.slow


def two_modes(apart=10.0, weights=(0.5, 0.5)):
    means = ([-0.5 * apart, 0.0], [0.5 * apart, 0.0])
    q = Mixture(weights, [Gaussian.from_moments(mean, np.eye(2)) for mean in means])
    return scorevi.from_function(q.score, 2, q.log_density)


def errors(sample, mean, sd):
    """Errors of means in sds, and of log sds."""
    flat = sample.flat
    return np.abs(flat.mean(axis=0) - mean) / sd, np.abs(np.log(flat.std(axis=0) / sd))


@pytest.mark.parametrize("method", [None, "nuts"])
def test_a_gaussian(method):
    # An effective sample of 400 has errors of 0.05 sd; five of them is a false alarm in a million.
    target = scorevi.examples.random_gaussian(6, 100, seed=2)
    sample = scorevi.sample(target, method=method, seed=1)
    assert sample.method == (method or "importance")
    assert sample.check() == "pass", sample.check().explain()
    assert sample.ess.min() >= 400
    assert sample.rhat.max() <= 1.01
    mean_errors, sd_errors = errors(sample, target.mean, target.sd)
    assert mean_errors.max() < 0.25
    assert sd_errors.max() < 0.2
    assert sample.num_gradients == sum(sample.gradients.values())
    phases = {"fit", "looking", "weights"}
    assert set(sample.gradients) == phases | ({"adaptation", "draws"} if method else set())


def test_both_ways_agree_on_a_posterior_that_is_not_gaussian():
    # Both have an effective sample of 800 or more: a difference of five errors, 0.25 sd, is a false
    # alarm in a million.
    target = scorevi.examples.eight_schools()
    fit = scorevi.fit(target, family="mixture", seed=0)
    samples = [scorevi.sample(fit, 2000, ess=800, method=m) for m in ("importance", "nuts")]
    for sample in samples:
        assert sample.check() == "pass", sample.check().explain()
        assert sample.gradients["fit"] == fit.num_gradients
        assert sample.fit is fit
    means, sds = ([f(s.flat, axis=0) for s in samples] for f in (np.mean, np.std))
    assert (np.abs(means[0] - means[1]) < 0.25 * sds[1]).all()
    assert (np.abs(np.log(sds[0] / sds[1])) < 0.25).all()


def test_two_modes_ten_sd_apart_are_found_and_weighed_right():
    # The share of the first mode, 0.7, has an error of 0.016 in 800 effective draws.
    sample = scorevi.sample(two_modes(weights=(0.7, 0.3)), ess=800)
    assert sample.check() == "pass", sample.check().explain()
    assert sample.method == "importance"
    assert abs((sample.flat[:, 0] < 0).mean() - 0.7) < 0.08
    assert isinstance(sample.fit.q, scorevi.Mixture)


def test_chains_that_are_stuck_in_two_modes_do_not_pass():
    with pytest.warns(FitWarning, match="do not mix"):
        sample = scorevi.sample(two_modes(), method="nuts", max_gradients=20_000)
    assert sample.check() == "fail"
    assert sample.rhat.max() > 1.5
    with pytest.raises(FitError, match="do not mix"):
        sample.raise_for_status()


@pytest.mark.parametrize("seed", range(2))
def test_a_funnel_is_right_or_not_passed(seed):
    target = scorevi.examples.funnel(5, scale=3.0)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # of a verdict that fails
        sample = scorevi.sample(target, seed=seed, max_gradients=25_000)
    if sample.check() == "pass":
        assert abs(sample.flat[:, 0].mean()) < 0.5
        assert abs(np.log(sample.flat[:, 0].std() / 3.0)) < 0.3


@pytest.mark.parametrize(
    ("most", "method"), [(30, None), (900, None), (2500, None), (2100, "nuts"), (5003, "nuts")]
)
def test_no_gradient_more_than_allowed(most, method):
    calls = [0]
    q = scorevi.examples.random_gaussian(4, seed=1)

    def score(theta):
        calls[0] += len(theta)
        return -np.sinh(theta - q.mean)

    def log_density(theta):
        return -np.cosh(theta - q.mean).sum(axis=1)

    target = scorevi.from_function(score, 4, log_density, batched=True)
    with pytest.warns(FitWarning, match="Raise max_gradients"):
        sample = scorevi.sample(target, 4000, ess=3000, max_gradients=most, method=method)
    assert sample.num_gradients <= most
    assert calls[0] <= most


@pytest.fixture(params=["importance", "nuts"])
def method(request):
    return request.param


def killed_after(rounds, monkeypatch):
    """Have the process be killed, as it were, after so many writings."""
    written = [0]
    write = Keeper.keep

    def keep(self, kept, *, now=False):
        write(self, kept, now=now)
        written[0] += 1
        if written[0] == rounds:
            raise SystemExit

    monkeypatch.setattr(Keeper, "keep", keep)


@pytest.mark.parametrize("rounds", [1, 2, 8])
def test_a_killed_sample_goes_on_to_the_same_bits(rounds, method, tmp_path, monkeypatch):
    target = scorevi.examples.random_gaussian(3, 10, seed=4)
    options = {"ess": 700, "method": method, "seed": 3}
    whole = scorevi.sample(target, **options)
    path = tmp_path / "run.ckpt"
    kept = options | {"checkpoint": path, "checkpoint_seconds": 0.0}
    with monkeypatch.context() as patch:
        killed_after(rounds, patch)
        with contextlib.suppress(SystemExit):
            scorevi.sample(target, **kept)
    again = scorevi.sample(target, **kept, resume=True)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again.gradients == whole.gradients
    assert again.check() == "pass"
    with pytest.raises(ValueError, match=r"of this same sample.*`seed` is 3 there and 4 here"):
        scorevi.sample(target, **kept | {"seed": 4}, resume=True)
    with pytest.raises(ValueError, match="the model or its data have changed"):
        scorevi.sample(scorevi.examples.random_gaussian(3, 10, seed=5), **kept, resume=True)


def test_ctrl_c_keeps_what_there_is():
    calls = [0]
    before = set(threading.enumerate())

    def log_density(theta):
        calls[0] += len(theta)
        if calls[0] > 9000:
            signal.raise_signal(signal.SIGINT)
            calls[0] = -(10**9)
        return -np.cosh(theta).sum(axis=1)

    target = scorevi.from_function(lambda t: -np.sinh(t), 3, log_density)
    sample = scorevi.sample(target, 8000, ess=6000, method="nuts")
    assert sample.status == "interrupted"
    assert sample.size >= 100
    assert sample.check() == "warn", sample.check().explain()
    assert np.abs(sample.flat.mean(axis=0)).max() < 0.3
    assert set(threading.enumerate()) <= before


@pytest.mark.parametrize("where", [5, 300])
def test_ctrl_c_in_the_fit_or_in_the_look(where):
    calls = [0]

    def log_density(theta):
        calls[0] += len(theta)
        if calls[0] > where:
            calls[0] = -(10**9)
            raise KeyboardInterrupt
        return -np.cosh(theta).sum(axis=1)

    target = scorevi.from_function(lambda t: -np.sinh(t), 3, log_density, batched=True)
    with pytest.warns(FitWarning, match="nothing was drawn"):
        sample = scorevi.sample(target)
    assert sample.status == "interrupted"
    assert sample.check() == "fail"
    with pytest.raises(FitError, match=r"Nothing was drawn\. interrupted"):
        sample.draws()


def test_ctrl_c_while_weighing_keeps_what_was_weighed():
    calls = [0]

    def log_density(theta):
        calls[0] += len(theta)
        if calls[0] > 3000:
            calls[0] = -(10**9)
            raise KeyboardInterrupt
        return -np.cosh(theta).sum(axis=1)

    target = scorevi.from_function(lambda t: -np.sinh(t), 3, log_density, batched=True)
    sample = scorevi.sample(target, 1000, ess=4000, method="importance")
    assert (sample.status, sample.method, sample.size) == ("interrupted", "importance", 5000)
    assert sample.check() == "warn", sample.check().explain()
    assert np.abs(sample.flat.mean(axis=0)).max() < 0.3


def test_workers_give_the_same_bits(method):
    target = scorevi.examples.logistic_regression(3, 40)
    options = {"draws": 200, "ess": 50, "method": method, "family": "gaussian", "seed": 2}
    alone = scorevi.sample(target, **options, workers=1)
    beside = scorevi.sample(target, **options, workers=3)
    np.testing.assert_array_equal(beside.theta, alone.theta)
    assert beside.target is target
    assert beside.gradients == alone.gradients


def test_what_dies_in_a_worker_is_counted(tmp_path):
    deadly = tmp_path / "deadly"

    def log_density(theta):
        if theta[0, 0] > 1.0 and deadly.exists():
            deadly.unlink()
            os._exit(1)
        return -np.cosh(theta).sum(axis=1)

    target = scorevi.from_function(lambda t: -np.sinh(t), 2, log_density)
    fit = scorevi.fit(target, isolate=True)
    starts = fit.sample(4, seed=0)
    course = begin(starts - starts.max(axis=0) - 1.0)
    deadly.touch()
    with evaluating(target, *fit.isolation) as isolated:
        while not course.theta.shape[1]:
            limits = Limits(10_000, None)
            course, _ = advance(course, fit.q, isolated, Asked(100, 10, 0), limits)
    assert course.bad_counts == {"died": 1}
    assert course.bad_examples[0].point[0] > 1.0
    assert course.divergences <= 1


def test_a_fit_that_failed_gives_nothing():
    target = scorevi.from_function(lambda t: 0 * t, 2, lambda t: 0 * t[:, 0])
    with pytest.warns(FitWarning, match="nothing was drawn"):
        sample = scorevi.sample(target)
    assert sample.size == 0
    assert sample.check() == "fail"
    assert sample.status == "diverged"
    with pytest.raises(FitError, match="nothing was drawn"):
        scorevi.sample(target, raise_on_failure=True)
    assert pickle.loads(pickle.dumps(sample)).size == 0


def test_what_is_refused():
    target = as_target(Gaussian.standard(2))
    with pytest.raises(ValueError, match="`draws` must be a whole number >= 1"):
        scorevi.sample(target, 0)
    with pytest.raises(ValueError, match="`ess` must be a positive number; got -1"):
        scorevi.sample(target, ess=-1)
    with pytest.raises(ValueError, match="`chains` must be a whole number >= 4; got 3"):
        scorevi.sample(target, chains=3)
    with pytest.raises(ValueError, match='`method` must be one of "importance", "nuts", or None'):
        scorevi.sample(target, method="hmc")
    with pytest.raises(ValueError, match="`resume` needs `checkpoint`"):
        scorevi.sample(target, resume=True)
    with pytest.raises(ValueError, match="`checkpoint_seconds` must be a number >= 0"):
        scorevi.sample(target, checkpoint_seconds=-1)
    score_alone = scorevi.from_function(lambda t: -t, 2)
    with pytest.raises(ValueError, match="`target` must have a log density to be sampled"):
        scorevi.sample(score_alone)
    fit = pickle.loads(pickle.dumps(scorevi.fit(target)))
    with pytest.raises(ValueError, match="without its model, so it cannot be sampled"):
        scorevi.sample(fit)


def test_more_chains_and_a_seed():
    target = scorevi.examples.random_gaussian(2)
    one, other, third = (
        scorevi.sample(target, 120, ess=60, chains=6, seed=s, method="nuts") for s in (1, 1, 2)
    )
    assert one.theta.shape[0] == 6
    np.testing.assert_array_equal(one.theta, other.theta)
    assert not np.array_equal(one.theta, third.theta)


@pytest.mark.parametrize("times", [1, 2])
def test_a_second_mixture_is_tried_before_chains_are(times, monkeypatch):
    calls, looks = [0], [0]
    q = Mixture([0.5, 0.5], [Gaussian.from_moments([m, 0.0], np.eye(2)) for m in (-2.0, 2.0)])

    def score(theta):
        calls[0] += len(theta)
        return q.score(theta)

    def look_with_doubt(exam):
        looks[0] += 1
        found = look(exam)
        return found._replace(against_weights="made up") if looks[0] <= times else found

    monkeypatch.setattr("scorevi.sampling.drawing.look", look_with_doubt)
    target = scorevi.from_function(score, 2, q.log_density, batched=True)
    sample = scorevi.sample(target, 400, ess=100, family="mixture", seed=3)
    assert looks[0] == 2
    assert sample.method == ("importance" if times == 1 else "nuts")
    assert any("made up: a fit with seed 4" in note for note in sample.notes) == (times == 1)
    assert sample.num_gradients == calls[0]
    assert sample.check() == "pass", sample.check().explain()
