"""The verdict, and what it is made of."""

import dataclasses
import json
import math
import pickle

import numpy as np
import pytest
from one_gaussian import fit_gaussian

import scorevi
from scorevi.examples import eight_schools, funnel, gaussian, random_gaussian, sinh_arcsinh
from scorevi.results.report import as_json
from scorevi.studies import trust
from scorevi.studies.held_out import held_out
from scorevi.studies.trials import trials
from scorevi.studies.zoo import zoo
from scorevi.trust.check import Reason, Verdict
from scorevi.trust.weights import smooth

pytestmark = pytest.mark.filterwarnings("ignore::scorevi.FitWarning")


@pytest.mark.slow
@pytest.mark.parametrize("name", zoo() | held_out())
def test_no_wrong_fit_passes_and_no_right_one_fails(name):
    found = trials(("zoo", "held out"), 1, name)
    (trial,) = (trial for trial in found if trial.target == name)
    assert trial.verdict in (("warn", "fail") if trial.wrong else ("pass", "warn"))


@pytest.mark.slow
def test_the_moments_of_the_zoo_are_true():
    """By importance sampling from a wide Student t, where the dimension allows it."""
    rng = np.random.default_rng(0)
    names = ("banana", "ring", "two modes that touch, 50 : 50", "hard boundary")
    steep = ("log of gamma, shape 0.3", "scale mixture of six values")
    low = [name for name in held_out() if name not in steep]
    for animal in [*(zoo()[name]() for name in names), *(held_out()[name]() for name in low)]:
        dim = animal.target.dim
        freedom, scale = 5.0, 2.5 * animal.truth.sd
        t = rng.standard_t(freedom, (200_000, dim))
        theta = animal.truth.mean + scale * t
        log_proposal = -0.5 * (freedom + 1) * np.log1p(t**2 / freedom).sum(axis=1)
        with np.errstate(all="ignore"):
            log_density = animal.target.evaluate(theta).log_density
        log_weight = np.where(np.isfinite(log_density), log_density - log_proposal, -np.inf)
        weight = np.exp(log_weight - log_weight.max())
        weight /= weight.sum()
        mean = weight @ theta
        sd = np.sqrt(weight @ (theta - mean) ** 2)
        np.testing.assert_allclose(mean, animal.truth.mean, atol=0.05 * animal.truth.sd.max())
        np.testing.assert_allclose(sd, animal.truth.sd, rtol=0.05)


def test_a_pass_has_no_reasons_and_says_what_it_cost():
    fit = fit_gaussian(random_gaussian(5))
    assert fit.verdict is None
    verdict = fit.check()
    assert verdict == "pass"
    assert verdict.ok
    assert verdict.reasons == ()
    assert 400 < verdict.num_evaluations <= 700
    assert fit.verdict is verdict
    assert verdict.explain().startswith("pass")


@pytest.mark.slow
def test_it_names_the_parameter_with_the_tail():
    verdict = fit_gaussian(funnel(5, 3.0)).check()
    assert verdict == "warn" or verdict == "fail"
    assert any("v (a long left tail" in reason.text for reason in verdict.reasons)


def test_a_minor_mode_fails():
    target = zoo()["two modes, 90 : 10"]().target
    # From a Gaussian: a point is where a search begins, which finds the other.
    fit = fit_gaussian(target, initial=scorevi.Gaussian(np.array([10.0, 0.0]), np.eye(2)))
    assert fit.mean[0] == pytest.approx(10, abs=0.1)
    verdict = fit.check()
    assert verdict == "fail"
    assert "there is another mode, 10 sd away in theta[0], with an ELBO above" in verdict.explain()
    assert fit.check(modes=False) == "pass"


def test_a_fit_that_is_not_at_the_best_gaussian_is_told_where_to_go():
    p = random_gaussian(4, seed=3)
    fit = fit_gaussian(gaussian(p.mean, p.covariance), "gsm", stop=False, max_gradients=8)
    verdict = fit.check()
    assert verdict != "pass"
    assert any("should still move" in reason.text for reason in verdict.reasons)


def test_a_failed_fit_fails_without_more_evaluations():
    fit = fit_gaussian(scorevi.from_function(np.zeros_like, 2, batched=True))
    verdict = fit.check()
    assert verdict == "fail"
    assert verdict.num_evaluations == 0
    assert "diverged" in fit.status


@pytest.mark.parametrize("options", [{}, {"max_gradients": 20}, {"max_gradients": 150}])
def test_a_verdict_does_not_send_back_to_itself(options):
    fit = fit_gaussian(eight_schools(), **options)
    told = json.dumps([as_json(fit, {}), fit.check().explain(), as_json(fit, {})])
    assert fit.status.explain() == fit.status.explain().strip()
    assert "fit.check()" not in told


def test_without_a_log_density_it_cannot_pass():
    fit = fit_gaussian(scorevi.from_function(np.negative, 2, batched=True))
    verdict = fit.check()
    assert verdict == "warn"
    assert "no log density" in verdict.reasons[0].text
    with pytest.raises(ValueError, match="Importance weights need the log density"):
        fit.resample(10, seed=1)


@pytest.mark.slow
def test_the_verdict_is_saved_with_the_fit(tmp_path):
    fit = fit_gaussian(funnel(3, 1.0), restarts=1)
    verdict = fit.check()
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    assert back.verdict == verdict
    assert back.verdict.reasons == verdict.reasons
    assert back.verdict.khat == verdict.khat
    assert len(back.restarts) == 1
    np.testing.assert_array_equal(back.restarts[0].mean, fit.restarts[0].mean)
    with pytest.raises(
        ValueError, match="pickled or loaded without its model, so it cannot be checked anew"
    ):
        back.check()
    assert pickle.loads(pickle.dumps(verdict)).reasons == verdict.reasons


def test_the_gravest_reason_decides():
    warn, fail = Reason("warn", "a", "b"), Reason("fail", "c", "d")
    assert Verdict((warn, fail)) == "fail"
    assert Verdict((warn, fail)).reasons[0] is fail
    assert Verdict((warn,)) == "warn"
    assert not Verdict((fail,)).ok


# --- weights ------------------------------------------------------------------------------------


def test_khat_has_the_sign_and_size_that_theory_gives():
    """Ratios that are Pareto with shape k; the estimate of 4,000 of them has an error near 0.1."""
    rng = np.random.default_rng(0)
    for k in (0.2, 0.5, 0.9):
        ratio = -k * np.log(rng.random(4000))
        assert smooth(ratio).khat == pytest.approx(k, abs=0.2)
    # Of the wrong sign the tail would be bounded, and the estimate far below zero.
    assert smooth(np.log(rng.random(4000))).khat < 0


def test_weights_sum_to_one_and_leave_out_what_is_not_finite():
    rng = np.random.default_rng(1)
    ratio = rng.normal(size=500)
    ratio[:5] = [np.nan, -np.inf, np.inf, np.nan, -np.inf]
    weights = smooth(ratio)
    assert weights.weights.sum() == pytest.approx(1)
    assert (weights.weights[:5] == 0).all()
    assert 0 < weights.ess < 495


def test_equal_weights_and_few_weights():
    equal = smooth(np.full(100, 3.0))
    assert equal.khat == -math.inf
    assert equal.reliable
    assert equal.ess == pytest.approx(100)
    few = smooth(np.zeros(10))
    assert few.khat == math.inf
    assert not few.reliable


def test_a_few_that_stand_out_from_even_weights_are_no_tail():
    ratio = 0.01 * np.random.default_rng(2).normal(size=4000)
    ratio[:4] = [1.0, 1.4, 1.7, 2.0]
    weights = smooth(ratio)
    assert weights.reliable
    np.testing.assert_allclose(weights.weights, np.exp(ratio) / np.exp(ratio).sum())


# --- restarts, resampling, error bars -----------------------------------------------------------


def test_restarts_find_the_better_mode_and_are_kept():
    target = zoo()["two modes, 90 : 10"]().target
    there = scorevi.Gaussian(np.array([12.0, 0.0]), np.eye(2))
    fit = fit_gaussian(target, initial=there, restarts=3, seed=2)
    assert fit.mean[0] == pytest.approx(0, abs=0.1)
    assert len(fit.restarts) == 3
    assert fit.num_gradients > 4 * 4
    assert "the best of 4 runs" in fit.notes[0]
    assert any(restart.mean[0] > 9 for restart in fit.restarts)


def test_restarts_that_disagree_are_told():
    target = zoo()["two modes, 50 : 50"]().target
    fit = fit_gaussian(target, initial=np.array([10.0, 0.0]), restarts=2)
    assert "a fit from another start" in fit.check(modes=False).explain()


@pytest.mark.slow
def test_restarts_are_reproducible_and_counted():
    one, two = (fit_gaussian(eight_schools(), restarts=2, seed=3) for _ in range(2))
    np.testing.assert_array_equal(one.mean, two.mean)
    assert [r.seed for r in one.restarts] == [r.seed for r in two.restarts]
    with pytest.raises(ValueError, match="`restarts` must be a whole number >= 0; got -1"):
        fit_gaussian(eight_schools(), restarts=-1)


def test_resampling_corrects_a_skewed_fit():
    """Of 4,000 resampled draws the mean has an error of 0.016 sd, and the sd one of 2 %."""
    base = random_gaussian(2, seed=2)
    target = sinh_arcsinh(base, 0.2, 1.0)
    truth = np.sinh(np.arcsinh(base.sample(400_000, 0)) + 0.2)
    fit = fit_gaussian(target)
    for replace in (True, False):
        sample = fit.resample(4000, replace=replace, proposals=40_000, seed=1)
        assert sample.theta.shape == (4000, 2)
        assert sample.draws["theta"].shape == (4000, 2)
        assert 4000 < sample.ess <= 40_000
        error = np.abs(sample.theta.mean(axis=0) - truth.mean(axis=0)) / truth.std(axis=0)
        assert error.max() < 0.06
        np.testing.assert_allclose(sample.theta.std(axis=0), truth.std(axis=0), rtol=0.08)
    assert len(np.unique(sample.theta, axis=0)) == 4000


def test_resampling_refuses_where_it_would_be_wrong():
    fit = fit_gaussian(funnel(10, 3.0))
    with pytest.raises(scorevi.FitError, match=r"k-hat is .*, above 0\.7"):
        fit.resample(1000, seed=0, proposals=20_000)
    with pytest.raises(ValueError, match="`proposals` must be at least `size`, 30, without"):
        fit.resample(30, replace=False, proposals=25, seed=1)


@pytest.mark.slow
def test_error_bars_are_those_of_fits_from_many_seeds():
    """Means of fits from 12 seeds spread as their error bars say, within a factor of 3.

    With 12 seeds the spread itself is known to within a factor of 1.5, and the bars of one fit
    hold the noise of their own 4,000 draws.
    """
    target = sinh_arcsinh(random_gaussian(3, seed=2), 0.5, 1.0)
    fits = [fit_gaussian(target, seed=seed, stop=False, max_gradients=400) for seed in range(12)]
    spread = np.std([fit.mean for fit in fits], axis=0, ddof=1)
    bars = np.median([fit.error_bars(4000).mean for fit in fits], axis=0)
    assert (bars < 3 * np.maximum(spread, 0.02 * fits[0].q.sd)).all()
    assert (bars > spread / 3).all()


def test_error_bars_of_an_exact_fit_are_zero():
    fit = fit_gaussian(random_gaussian(4))
    bars = fit.error_bars()
    assert (bars.mean < 1e-6 * fit.q.sd).all()
    assert (bars.sd < 1e-6 * fit.q.sd).all()


# --- the study ----------------------------------------------------------------------------------


def test_the_tables_of_the_study_go_into_a_file(tmp_path):
    found = list(trials(("zoo",), 1, "Gaussian, D = 2"))
    assert trust.confusion(found).splitlines()[2] == "| zoo | right | 1 | 0 | 0 |"
    path = tmp_path / "trust.md"
    path.write_text("a\n<!-- confusion -->\nold\n<!-- end -->\nb\n")
    trust.write(path, {"confusion": trust.confusion(found)})
    text = path.read_text()
    assert "old" not in text
    assert text.startswith("a\n")
    assert text.endswith("<!-- end -->\nb\n")
    with pytest.raises(ValueError, match="has no place for the table"):
        trust.write(path, {"targets": ""})


def poisson_regression(seed):
    rng = np.random.default_rng(seed)
    x = 2.0 * rng.standard_normal((200, 5))
    y = rng.poisson(np.exp(x @ rng.normal(0.0, 0.3, 5)))
    return scorevi.from_function(
        lambda b: (y - np.exp(b @ x.T)) @ x - b,
        5,
        lambda b: (b @ x.T) @ y - np.exp(b @ x.T).sum(axis=1) - 0.5 * np.vecdot(b, b),
        batched=True,
    )


@pytest.mark.parametrize("seed", range(10))
def test_a_fit_that_is_far_too_wide_is_told_so(seed):
    """Not that its intervals may be too short."""
    fit = fit_gaussian(poisson_regression(seed), "bbvi", seed=seed, max_gradients=400)
    verdict = fit.check()
    assert verdict == "fail"
    assert "most of the fit lies where the posterior has nothing" in verdict.explain()
    assert "too short" not in verdict.explain()


@pytest.mark.parametrize("budget", [3, 10])
def test_a_fit_that_has_not_arrived_is_not_told_of_another_mode(budget):
    p = random_gaussian(5, seed=3)
    target = sinh_arcsinh(scorevi.Gaussian(p.mean + 30.0, p.factor), 0.1, 1.0)
    verdict = fit_gaussian(target, max_gradients=budget).check()
    assert verdict == "fail"
    assert "another mode" not in verdict.explain()
    assert "has not arrived" in verdict.explain()


def test_few_draws_are_refused_and_more_are_new_ones():
    fit = fit_gaussian(eight_schools(), seed=5)  # of which the first draws do not decide
    with pytest.raises(ValueError, match=r"`draws` must be a whole number >= 25; got 1\."):
        fit.check(draws=1)
    with pytest.raises(ValueError, match=r"`draws` must be a whole number >= 2; got 1\."):
        fit.error_bars(draws=1)
    seen = []
    target = scorevi.from_function(
        lambda x: (seen.append(x), fit.target.score(x))[1],
        fit.dim,
        fit.target.log_density,
        batched=True,
    )
    watched = dataclasses.replace(fit, target=target)
    watched.check(modes=False)
    points = np.concatenate(seen)
    assert len(np.unique(points, axis=0)) == len(points) >= 2000


def test_bad_scores_on_the_way_are_no_reason_to_doubt_what_has_none():
    """The start looks far outside, where a rate overflows; no draw of q does."""
    x = np.linspace(0.0, 30.0, 31)
    design = np.column_stack([np.ones(31), x, x**2 / 30])
    y = np.random.default_rng(0).poisson(np.exp(1.0 + 0.05 * x))

    def terms(beta):
        link = beta @ design.T
        with np.errstate(over="ignore"):
            return link, np.where(link > 60.0, np.nan, np.exp(link))

    def log_density(beta):
        link, rate = terms(beta)
        return link @ y - rate.sum(axis=1) - 0.5 * (beta**2).sum(axis=1)

    def score(beta):
        return (y - terms(beta)[1]) @ design - beta

    target = scorevi.from_function(score, 3, log_density, batched=True)
    fit = scorevi.fit(target, seed=0)
    assert fit.bad_scores.total > 0.1 * fit.num_gradients
    assert fit.check() == "pass"


@pytest.mark.slow
def test_resampled_draws_have_the_tail_that_q_lacks():
    """Of 4,000 draws the sd has an error of 1 %, and the mean of ten such one of 0.4 %.

    By draws of q alone it would be 3 % too small: what lies outside is not there to be chosen.
    """
    target = scorevi.from_function(lambda x: -x / 2.25, 1, lambda x: -np.vecdot(x, x) / 4.5)
    fit = scorevi.fit(target, seed=0)
    narrow = dataclasses.replace(fit, q=scorevi.Gaussian.standard(1))
    sds = [narrow.resample(4000, seed=seed).theta.std() for seed in range(10)]
    assert np.mean(sds) == pytest.approx(1.5, rel=0.015)  # by chance in one of 10,000 runs


@pytest.mark.parametrize("proposals", [25, 30, 100])
def test_few_proposals_do(proposals):
    fit = scorevi.fit(scorevi.examples.logistic_regression(3, seed=0), seed=0)
    assert fit.resample(10, seed=1, proposals=proposals).theta.shape == (10, 3)


def test_a_stray_draw_is_no_reason_to_refuse():
    """Where wider draws leave no large weight, the tail of q's own may be of any shape."""
    target = scorevi.from_function(lambda x: -x, 2, lambda x: -0.5 * np.vecdot(x, x))
    fit = scorevi.fit(target, seed=0)
    narrow = dataclasses.replace(fit, q=scorevi.Gaussian.from_moments([0, 0], 0.4 * np.eye(2)))
    for seed in range(10):
        chosen = narrow.resample(2000, seed=seed)
        assert chosen.khat == 0.0
        # Of 2,000 draws out of 8,000 the error of an sd is 2 %: four of them in one of 1,000 runs.
        np.testing.assert_allclose(chosen.theta.std(axis=0), 1.0, atol=0.09)
    far = dataclasses.replace(fit, q=scorevi.Gaussian.from_moments([0, 0], 0.05 * np.eye(2)))
    with pytest.raises(scorevi.FitError, match="k-hat"):
        far.resample(2000, seed=0)


def with_bump(height, place=2.3, width=0.05):
    """A standard normal in two dimensions with a bump, which holds a hundredth of it at most."""

    def bump(x):
        return height * np.exp(-0.5 * ((x[:, 0] - place) / width) ** 2)

    def score(x):
        found, share = -x, bump(x) / (1.0 + bump(x))
        found[:, 0] -= share * (x[:, 0] - place) / width**2
        return found

    def log_density(x):
        return -0.5 * np.vecdot(x, x) + np.log1p(bump(x))

    return scorevi.from_function(score, 2, log_density, batched=True)


@pytest.mark.parametrize("seed", range(10))
def test_a_stray_draw_is_no_reason_to_warn(seed):
    """One draw in a bump has a k-hat of any size; wider draws bound what it can weigh."""
    fit = scorevi.fit(random_gaussian(2), seed=0)
    stray = dataclasses.replace(fit, q=scorevi.Gaussian.standard(2), target=with_bump(2.5))
    verdict = stray.check(seed=seed, modes=False)
    assert verdict == "pass"
    assert verdict.khat > 0.7
    assert "of a few stray draws, ESS" in verdict.explain()
    assert "of a few stray draws, ESS" in verdict.figures


@pytest.mark.parametrize("seed", range(10))
def test_what_wider_draws_do_not_bound_is_a_reason_to_warn(seed):
    """The same q where the posterior is 1.6 times as wide along one parameter."""
    fit = scorevi.fit(random_gaussian(2), seed=0)
    wide = gaussian([0.0, 0.0], np.diag([1.6**2, 1.0]))
    narrow = dataclasses.replace(fit, q=scorevi.Gaussian.standard(2), target=wide)
    assert narrow.check(seed=seed, modes=False) != "pass"


def test_trials_that_were_kept_are_not_made_again(tmp_path):
    suites, name = ("zoo",), "Gaussian, D = 2, condition 10"
    found = list(trials(suites, 2, name))
    path = tmp_path / "trials.jsonl"
    assert trust.kept(path, suites, 2) == []
    lines = [json.dumps(trial._asdict()) for trial in found]
    path.write_text(lines[0] + "\n")
    assert trust.kept(path, suites, 2) == []  # one seed is missing
    path.write_text("\n".join(lines) + "\n")
    again = trust.kept(path, suites, 2)
    assert [trial.gradients for trial in again] == [trial.gradients for trial in found]
    assert trust.kept(path, ("hierarchies",), 2) == []
    assert list(trials(suites, 2, name, done={("zoo", name)})) == []
