"""Posteriors without an end in some direction."""

import numpy as np
import pytest
import scipy.special
from conftest import SEEDS

import scorevi

X = np.random.default_rng(0).standard_normal(100)
Y = (np.random.default_rng(1).random(100) < scipy.special.expit(0.5 + X)).astype(float)


def two_intercepts(precision):
    """Logistic regression on a + b + c·x, with priors of the given precision on a and b."""

    def score(theta):
        off = Y - scipy.special.expit(theta[:, :2].sum(axis=1)[:, None] + theta[:, 2:] * X)
        both = off.sum(axis=1)
        a, b = (both - precision * column for column in theta[:, :2].T)
        return np.column_stack([a, b, off @ X])

    def log_density(theta):
        eta = theta[:, :2].sum(axis=1)[:, None] + theta[:, 2:] * X
        prior = -0.5 * precision * np.vecdot(theta[:, :2], theta[:, :2])
        return eta @ Y - np.logaddexp(0, eta).sum(axis=1) + prior

    return scorevi.from_function(score, 3, log_density, ["a", "b", "c"], batched=True)


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize("solver", ["auto", "gsm", "bam"])
def test_a_ridge_is_named_within_a_few_hundred_gradients(solver, seed):
    with pytest.warns(scorevi.FitWarning, match="the posterior is improper"):
        fit = scorevi.fit(two_intercepts(0.0), solver, seed=seed)
    assert fit.status == "diverged"
    assert fit.num_gradients < 500
    assert "+1 a -1 b" in fit.status.cause or "+1 b -1 a" in fit.status.cause
    assert "proper priors" in fit.status.advice


@pytest.mark.parametrize("precision", [1.0, 1e-6, pytest.param(1e-12, marks=pytest.mark.slow)])
def test_a_wide_posterior_is_not_called_improper(precision):
    fit = scorevi.fit(two_intercepts(precision), initial=scorevi.Gaussian.standard(3))
    assert fit.status.ok
    if precision > 1e-12:
        assert fit.q.sd[0] == pytest.approx(np.sqrt(0.5 / precision), rel=0.2)
