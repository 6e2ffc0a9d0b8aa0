"""A score that is not the gradient of the log density given with it."""

import numpy as np
import pytest
from one_gaussian import fit_gaussian

import scorevi
from scorevi.base.evaluate import Evaluator
from scorevi.engine.contradiction import contradiction
from scorevi.engine.quality import Draws
from scorevi.examples import eight_schools, funnel, gaussian, logistic_regression, sinh_arcsinh
from scorevi.targets import as_target

SHAPES = {
    "Gaussian": lambda: gaussian([1.0, 2.0, 3.0], np.diag([1.0, 4.0, 0.1])),
    "logistic": lambda: logistic_regression(5, 60),
    "eight schools": eight_schools,
    "skewed": lambda: sinh_arcsinh(scorevi.examples.dense_base(5), 1.0, 1.0),
    "funnel": lambda: funnel(5, 3.0),
}


def altered(target, factor, constant):
    return scorevi.from_function(
        lambda x: factor * target.score(x) + constant, target.dim, target.log_density, batched=True
    )


@pytest.mark.parametrize("shape", ["Gaussian", "logistic", "eight schools", "skewed"])
@pytest.mark.parametrize(("factor", "constant"), [(2.0, 0.0), (0.5, 0.0), (1.0, 1.0), (1.0, -2.0)])
def test_it_is_found_out_by_the_fit(shape, factor, constant):
    target = altered(SHAPES[shape](), factor, constant)
    with pytest.warns(scorevi.FitWarning, match="the score contradicts the log density"):
        fit = fit_gaussian(target)
    assert fit.status == "bad-scores"
    verdict = fit.check()
    assert verdict == "fail"
    assert "the score contradicts the log density" in verdict.explain()
    if constant == 0.0:
        assert f"it is {factor:g} times the gradient" in fit.status.cause


def test_the_parameter_is_named():
    target = gaussian([1.0, 2.0, 3.0], np.diag([1.0, 4.0, 0.1]))
    wrong = scorevi.from_function(
        lambda x: target.score(x) * [1.0, 2.0, 1.0],
        3,
        target.log_density,
        ["a", "b", "c"],
        batched=True,
    )
    with pytest.warns(scorevi.FitWarning, match=r"the score of b \S+ where the slope is \S+"):
        fit = fit_gaussian(wrong)
    assert "of a" not in fit.status.cause


@pytest.mark.parametrize("shape", SHAPES)
def test_a_right_score_is_not_accused(shape):
    """Nor one of single precision, nor at draws of a q that is far too wide."""
    target = SHAPES[shape]()
    assert fit_gaussian(target).status != "bad-scores"
    rough = scorevi.from_function(
        lambda x: target.score(x).astype(np.float32),
        target.dim,
        lambda x: (target.log_density(x) + 1e4).astype(np.float32),
        batched=True,
    )
    for one, scale in ((target, 1.0), (target, 1e3), (rough, 1.0)):
        q = scorevi.Gaussian.standard(target.dim).scaled(scale)
        theta = q.sample(400, seed=0)
        with np.errstate(all="ignore"):
            found = one.evaluate(theta)
        draws = Draws(theta, found.score, found.log_density, q.log_density(theta))
        assert contradiction(draws, q, Evaluator(one)) is None


def test_the_verdict_finds_it_where_the_budget_left_the_fit_nothing():
    target = altered(gaussian([0.0, 0.0], np.eye(2)), 2.0, 0.0)
    fit = fit_gaussian(target, "replay", max_gradients=4)
    assert fit.status.ok
    assert "it is 2 times the gradient" in fit.check().explain()


def test_nothing_is_spent_where_the_draws_agree():
    evaluator = Evaluator(as_target(scorevi.Gaussian.standard(3)))
    q = scorevi.Gaussian.standard(3)
    theta = q.sample(50, seed=0)
    draws = Draws(theta, q.score(theta), q.log_density(theta), q.log_density(theta))
    assert contradiction(draws, q, evaluator) is None
    assert evaluator.spent == 0
