"""Scores that are not there: counted, redrawn, reported; never a crash, never a silent success."""

import warnings

import numpy as np
import pytest
from conftest import SHORT, gsm_fit, gsm_iterate
from hypothesis import given, settings
from hypothesis import strategies as st

import scorevi
from scorevi.examples import random_gaussian

pytestmark = SHORT

P = random_gaussian(4, 10, seed=0)

FAULTS = {
    "nan": lambda theta: np.full(theta.shape, np.nan),
    "infinite": lambda theta: np.full(theta.shape, np.inf),
    "overflow": lambda theta: np.full(theta.shape, 1e200),
    "wrong-shape": lambda theta: np.zeros(7),
    "raised": lambda theta: 1 / 0,
}


def faulty(rate, kinds, seed=0, batched=False, log_density=None):
    """P's score, of which a share is replaced by faults; and the ledger of what was done."""
    rng = np.random.default_rng(seed)
    ledger = {"points": 0, **dict.fromkeys(FAULTS, 0)}

    def score(theta):
        ledger["points"] += len(np.atleast_2d(theta))
        if rng.random() < rate:
            kind = kinds[rng.integers(len(kinds))]
            ledger[kind] += 1
            return FAULTS[kind](theta)
        return P.score(theta)

    return scorevi.from_function(score, 4, log_density, batched=batched), ledger


@pytest.mark.parametrize("kind", FAULTS)
def test_thirty_percent_of_faults_do_not_stop_a_fit(kind):
    target, ledger = faulty(0.3, [kind])
    fit = gsm_fit(target, max_gradients=2000, seed=1)
    assert fit.status == "budget"
    assert fit.q.kl(P) < 1e-6
    assert fit.num_gradients == ledger["points"] <= 2000
    assert dict(fit.bad_scores.counts) == {kind: ledger[kind]}
    assert kind in fit.bad_scores.describe()
    assert len(fit.bad_scores.examples) == 5
    assert fit.bad_scores.examples[0].point.shape == (4,)


@given(st.floats(0, 0.6), st.integers(0, 1000), st.booleans(), st.integers(2, 300))
@settings(max_examples=40, deadline=None)
def test_the_ledger_is_exact_under_any_mixture_of_faults(rate, seed, batched, budget):
    target, ledger = faulty(rate, list(FAULTS), seed, batched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scorevi.FitWarning)
        fit = gsm_fit(target, max_gradients=budget, seed=seed)
    assert fit.num_gradients == ledger["points"] <= budget
    assert np.isfinite(fit.q.factor).all()
    if not batched:
        assert fit.bad_scores.total == sum(ledger[kind] for kind in FAULTS)
    else:
        assert (fit.bad_scores.total > 0) >= (fit.num_updates == 0)


@pytest.mark.parametrize("batched", [True, False])
@pytest.mark.parametrize("kind", FAULTS)
def test_nothing_but_faults_is_no_fit(kind, batched):
    target, ledger = faulty(1.0, [kind], batched=batched)
    with pytest.warns(scorevi.FitWarning, match="bad-scores"):
        fit = gsm_fit(target, max_gradients=1000)
    assert fit.status == "bad-scores"
    assert fit.num_updates == 0
    assert fit.num_gradients == ledger["points"] < 500
    assert "Likely causes" in fit.status.advice
    for ask in (
        lambda: fit.mean,
        lambda: fit.covariance,
        lambda: fit.sample(3),
        lambda: fit.draws(3),
        lambda: fit.summary,
    ):
        with pytest.raises(scorevi.FitError, match="No update was made"):
            ask()
    assert "ELBO" not in str(fit)
    assert not fit.quality.known
    with pytest.raises(scorevi.FitError, match="bad-scores"):
        list(gsm_iterate(target, max_gradients=1000))


def test_a_batched_function_that_raises_is_asked_again_point_by_point():
    def score(theta):
        if (theta[:, 0] > 0.5).any():
            raise ArithmeticError("no such place")
        return P.score(theta)

    target = scorevi.from_function(score, 4, batched=True)
    fit = gsm_fit(target, max_gradients=600)
    assert fit.status == "budget"
    assert fit.num_updates > 50
    assert fit.bad_scores.examples[0].detail == "ArithmeticError: no such place"
    assert (np.array([bad.point[0] for bad in fit.bad_scores.examples]) > 0.5).all()


def test_a_log_density_of_minus_infinity_is_a_bad_score():
    """A hard boundary: beyond it the log density is −inf and the score a harmless zero."""

    def inside(theta):
        return theta[:, 0] > -0.5

    target = scorevi.from_function(
        lambda x: np.where(inside(x)[:, None], -x, 0.0),
        2,
        lambda x: np.where(inside(x), -0.5 * (x**2).sum(axis=1), -np.inf),
        batched=True,
    )
    fit = gsm_fit(target, max_gradients=1000)
    assert fit.bad_scores.counts["infinite"] > 10
    assert fit.bad_scores.examples[0].detail == "the log density is infinite"
    assert np.isfinite(fit.elbo)


def test_bad_scores_late_in_a_fit_end_it_with_what_it_has():
    count = 0

    def score(theta):
        nonlocal count
        count += len(theta)
        return -theta if count < 500 else theta * np.nan

    target = scorevi.from_function(score, 3, batched=True)
    with pytest.warns(scorevi.FitWarning, match="more than 90 % of the last 100 scores"):
        fit = gsm_fit(target, max_gradients=10_000)
    assert fit.status == "bad-scores"
    assert fit.num_updates > 200
    assert fit.num_gradients < 800
    np.testing.assert_allclose(fit.covariance, np.eye(3), atol=1e-8)


def test_a_start_without_finite_scores_is_left_and_the_note_says_so():
    def score(theta):
        return np.where(theta[:, :1] > 3, 5.0 - theta, np.nan)

    target = scorevi.from_function(score, 2, batched=True)
    fit = gsm_fit(target, max_gradients=4000, seed=0)
    assert fit.status == "budget"
    assert "not finite at the start" in fit.notes[0]
    np.testing.assert_allclose(fit.mean, 5.0, atol=0.3)


def test_a_budget_that_ends_before_the_first_update_is_said():
    target, _ = faulty(1.0, ["nan"])
    with pytest.warns(
        scorevi.FitWarning, match="budget: it ended before the first update.*4 bad scores"
    ):
        fit = gsm_fit(target, max_gradients=4)
    assert fit.status == "budget"
    with pytest.raises(scorevi.FitError, match="No update was made"):
        _ = fit.mean


@pytest.mark.parametrize("batch_size", [2, 50, 200, 1000])
def test_a_third_of_bad_scores_is_no_reason_to_end_whatever_the_batch_size(batch_size):
    rng = np.random.default_rng(0)

    def score(theta):
        return np.where(rng.random((len(theta), 1)) < 0.33, np.nan, P.score(theta))

    target = scorevi.from_function(score, 4, batched=True)
    fit = gsm_fit(target, batch_size=batch_size, max_gradients=10 * max(batch_size, 100))
    assert fit.status == "budget"
    assert fit.num_updates >= 6


def test_batched_calls_that_nearly_always_raise_end_the_fit():
    def score(theta):
        if (np.abs(theta[:, 0]) > 0.05).any():
            raise ArithmeticError("no such place")
        return -theta

    target = scorevi.from_function(score, 2, batched=True)
    with pytest.warns(scorevi.FitWarning, match="more than 90 % of the last 100"):
        fit = gsm_fit(target, max_gradients=10_000)
    assert fit.status == "bad-scores"
