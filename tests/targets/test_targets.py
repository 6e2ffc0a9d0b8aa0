"""Targets: shapes, names, detection of the calling form, and derivatives."""

import builtins
import sys

import numpy as np
import pytest
from conftest import TARGETS

import scorevi
from scorevi.base.extras import require
from scorevi.base.target import labels, parse_names

PRECISION = np.array([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])


def test_scores_are_the_gradients_of_the_log_densities(any_target):
    rng = np.random.default_rng(0)
    theta = 0.5 * rng.standard_normal((1, any_target.dim))
    scale = 1.0
    if any_target is not None and any_target.evaluate(theta).score.max() > 1e6:
        scale = 1e-8  # the tiny-scale Gaussian
    theta = theta * scale
    step = 1e-5 * max(scale, 1e-8)
    offsets = step * np.eye(any_target.dim)
    up = any_target.evaluate(theta + offsets).log_density
    down = any_target.evaluate(theta - offsets).log_density
    score = any_target.evaluate(theta).score[0]
    np.testing.assert_allclose((up - down) / (2 * step), score, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize(
    ("function", "batched"),
    [
        (lambda x: -x, True),
        (lambda x: -x @ PRECISION[: x.shape[-1], : x.shape[-1]], True),
        (lambda x: -PRECISION[: len(x), : len(x)] @ x, False),
        (lambda x: [-v for v in x.tolist()], False),
        (lambda x: -x * np.sum(x**2), False),
        (lambda x: np.array([-float(v) for v in x]), False),
        (lambda x: -x if x.ndim == 2 else 1 / 0, True),
        (lambda x: np.log(x) - x, True),
    ],
)
def test_the_calling_form_is_detected(function, batched, dim):
    target = scorevi.from_function(function, dim)
    assert target.score_batched == batched
    theta = np.random.default_rng(0).random((4, dim))
    assert target.evaluate(theta).score.shape == (4, dim)


def test_score_and_log_density_may_differ_in_form():
    target = scorevi.from_function(lambda x: -x, 2, lambda x: -0.5 * float(x @ x))
    assert (target.score_batched, target.log_density_batched) == (True, False)
    np.testing.assert_allclose(target.evaluate(np.ones((3, 2))).log_density, -1.0)


def test_a_stated_form_is_not_tried_out():
    calls = []
    scorevi.from_function(calls.append, 2, batched=True)
    assert calls == []


def test_one_dimension_in_every_form():
    for function in (lambda x: -x, lambda x: -float(x[0]), lambda x: [-float(x[0])]):
        target = scorevi.from_function(function, 1)
        np.testing.assert_array_equal(target.evaluate(np.array([[2.0], [3.0]])).score, [[-2], [-3]])


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: scorevi.from_function(lambda x: np.zeros(5), 2),
            r"`score` fits neither form. On a batch of 3 points: `score` must return shape "
            r"\(3, 2\), \(batch, dim\); got \(5,\). On one point: .*\(2,\).*; got \(5,\)",
        ),
        (
            lambda: scorevi.from_function(lambda x: "x", 2),
            "`score` must return an array of real numbers; got str",
        ),
        (
            lambda: scorevi.from_function(lambda x: 1 / 0, 2),
            "could not be tried out.*ZeroDivisionError.*If dim=2 is right, state batched=",
        ),
        (
            lambda: scorevi.from_function(lambda x: -x, 2, log_density=lambda x: x),
            "`log_density` fits neither form",
        ),
        (lambda: scorevi.from_function(3, 2), "`score` must be a function; got int"),
        (lambda: scorevi.from_function(np.negative, 2, 1.0), "`log_density` must be a function"),
        (lambda: scorevi.from_function(np.negative, 0), "`dim` must be a whole number >= 1; got 0"),
        (lambda: scorevi.from_function(np.negative, 2.5), "`dim` must be a whole number"),
        (
            lambda: scorevi.from_function(np.negative, 3, names=["a", "b"]),
            "`names` must name 3 values.*; got 2",
        ),
        (
            lambda: scorevi.from_function(np.negative, 2, names=["a", "a"]),
            "`names` must give distinct names; a occurs more than once",
        ),
        (
            lambda: scorevi.from_function(np.negative, 2, constrain={}),
            "`constrain` must be a function; got dict",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_an_argument_that_there_is_not_is_named_with_one_that_there_is():
    with pytest.raises(TypeError, match=r"from_function.* no argument `logdensity`.*`log_density`"):
        scorevi.from_function(lambda x: -x, 2, logdensity=None)
    with pytest.raises(TypeError, match=r"no argument `prior`. It takes score, dim"):
        scorevi.from_function(lambda x: -x, 2, prior=None)


def test_a_wrong_shape_in_a_stated_form_says_what_was_expected():
    target = scorevi.from_function(lambda x: np.zeros(2), 2, batched=True)
    message = r"`score` must return shape \(8, 2\), \(batch, dim\); got \(2,\)"
    with pytest.raises(ValueError, match=message):
        target.evaluate(np.zeros((8, 2)))


def test_draws_carry_names_and_shapes():
    names = {"beta": (2, 2), "sigma": ()}
    target = scorevi.from_function(lambda x: -x, 5, names=names)
    draws = scorevi.fit(target, max_gradients=50).draws(7, seed=0)
    assert {name: values.shape for name, values in draws.items()} == {
        "beta": (7, 2, 2),
        "sigma": (7,),
    }
    assert labels("beta", (2, 2))[1] == "beta[0,1]"
    assert [p.name for p in parse_names("x", 2)] == ["x"]


def test_constrained_draws_and_their_summary():
    fit = scorevi.fit(TARGETS["eight-schools"](), seed=0)
    draws = fit.draws(50, seed=1)
    assert (draws["tau"] > 0).all()
    assert draws["theta"].shape == (50, 8)
    assert [row.name for row in fit.summary][:3] == ["mu", "tau", "theta[0]"]
    assert all(row.lower < row.mean < row.upper for row in fit.summary)


def test_the_exact_summary_agrees_with_the_draws():
    q = scorevi.Gaussian.from_moments([1.0, -2.0], [[4.0, 1.0], [1.0, 9.0]])
    fit = scorevi.fit(q, max_gradients=1000)
    first, second = fit.summary
    assert (first.name, second.name) == ("theta[0]", "theta[1]")
    assert (first.mean, first.sd) == pytest.approx((1.0, 2.0))
    assert second.upper == pytest.approx(-2.0 + 3 * 1.6448536)


def test_eight_schools_finds_the_posterior():
    """Against 10,000 reference draws of posteriordb: mu 4.41 ± 3.31, tau 3.60 ± 3.20."""
    fits = [scorevi.fit(TARGETS["eight-schools"](), batch_size=16, seed=s) for s in range(8)]
    mu = np.mean([fit.summary[0].mean for fit in fits])
    tau = np.mean([fit.summary[1].mean for fit in fits])
    assert abs(mu - 4.41) < 0.3 * 3.31
    assert abs(tau - 3.60) < 0.3 * 3.20


def test_a_missing_extra_says_how_to_install_it(monkeypatch):
    real = builtins.__import__

    def no_jax(name, *args, **kwargs):
        if name.partition(".")[0] == "jax":
            raise ModuleNotFoundError("No module named 'jax'", name="jax")
        return real(name, *args, **kwargs)

    for module in [name for name in sys.modules if name.partition(".")[0] == "jax"]:
        monkeypatch.delitem(sys.modules, module)
    monkeypatch.setitem(sys.modules, "jax", None)
    with pytest.raises(ImportError, match=r"pip install 'scorevi\[jax\]'"):
        scorevi.from_jax(lambda x: -x @ x, 2)
    monkeypatch.setitem(sys.modules, "matplotlib", None)
    with pytest.raises(ImportError, match=r"pip install 'scorevi\[plots\]'"):
        require("matplotlib")
