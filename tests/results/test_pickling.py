"""Fits go from one process to another, whatever they were fitted to."""

import copy
import dataclasses
import multiprocessing
import pickle
import subprocess
import sys

import numpy as np
import pytest
from conftest import SHORT, gsm_fit

import scorevi
from scorevi.examples import eight_schools


def back_and_forth(fit):
    return pickle.loads(pickle.dumps(fit))


def assert_like_a_loaded_one(fit, path):
    """What a pickled fit knows is what one from a file knows."""
    back, loaded = back_and_forth(fit), scorevi.load(fit.save(path))
    assert back.target is None
    np.testing.assert_array_equal(back.mean, fit.mean)
    np.testing.assert_array_equal(back.covariance, fit.covariance)
    assert back.status.explain() == fit.status.explain()
    assert back.summary == fit.summary == loaded.summary
    assert back.saved_summary == loaded.saved_summary
    assert back.constrained is loaded.constrained is fit.constrained
    assert back.verdict == loaded.verdict
    assert repr(back) == repr(fit)


def test_a_function(tmp_path):
    fit = gsm_fit(scorevi.from_function(lambda x: -x, 2, batched=True), max_gradients=100)
    assert_like_a_loaded_one(fit, tmp_path / "fit.npz")


@pytest.mark.slow
def test_constrained_with_a_verdict(tmp_path):
    fit = scorevi.fit(eight_schools())
    fit.check()
    assert_like_a_loaded_one(fit, tmp_path / "fit.npz")
    back = back_and_forth(fit)
    assert back.verdict.explain() == fit.verdict.explain()
    with pytest.raises(ValueError, match="without its model"):
        back.draws(3)
    again = back_and_forth(back)
    assert again.summary == fit.summary
    assert again.verdict == fit.verdict
    whole = dataclasses.replace(back, target=fit.target)
    np.testing.assert_array_equal(whole.draws(3, seed=1)["tau"], fit.draws(3, seed=1)["tau"])


@pytest.mark.jax
def test_jax(tmp_path):
    pytest.importorskip("jax")
    fit = scorevi.fit(scorevi.from_jax(lambda x: -0.5 * (x**2).sum(), 2), max_gradients=100)
    assert_like_a_loaded_one(fit, tmp_path / "fit.npz")


@SHORT
@pytest.mark.jax
@pytest.mark.languages
def test_numpyro(tmp_path):
    numpyro = pytest.importorskip("numpyro")

    def model():
        numpyro.sample("tau", numpyro.distributions.HalfNormal(1.0))

    fit = scorevi.fit(scorevi.from_numpyro(model), max_gradients=100)
    assert_like_a_loaded_one(fit, tmp_path / "fit.npz")


@SHORT
@pytest.mark.languages
def test_pymc(tmp_path):
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        tau = pm.HalfNormal("tau")
        pm.Normal("y", 0, tau, observed=[1.0, -2.0, 0.5])
    fit = scorevi.fit(scorevi.from_pymc(model, backend="numpy"), max_gradients=60)
    assert_like_a_loaded_one(fit, tmp_path / "fit.npz")


def test_what_cannot_be_summarised_can_be_pickled_all_the_same():
    def constrain(theta):
        if len(theta) > 2:
            raise ArithmeticError("not so many")
        return {"a": theta[:, 0]}

    target = scorevi.from_function(np.negative, 1, constrain=constrain)
    assert back_and_forth(gsm_fit(target, max_gradients=100)).num_updates == 50


def test_a_failed_fit_and_its_error():
    target = scorevi.from_function(lambda x: x * np.nan, 2, batched=True)
    with pytest.raises(scorevi.FitError) as caught:
        gsm_fit(target, raise_on_failure=True)
    error = back_and_forth(caught.value)
    assert str(error) == str(caught.value)
    assert error.fit.status == "bad-scores"
    assert error.fit.num_updates == 0


def test_copies_in_the_same_process_keep_the_target():
    fit = scorevi.fit(eight_schools(), max_gradients=200)
    fit.check(modes=False)
    for twin in (copy.copy(fit), copy.deepcopy(fit), dataclasses.replace(fit, notes=())):
        assert twin.target is fit.target
        np.testing.assert_array_equal(twin.draws(2, seed=0)["tau"], fit.draws(2, seed=0)["tau"])
    assert copy.copy(fit).verdict == fit.verdict
    assert copy.deepcopy(fit).q.mean is not fit.q.mean


def fit_one(seed):
    return scorevi.fit(scorevi.from_function(lambda x: -x, 2, batched=True), "gsm", seed=seed)


@pytest.mark.slow
def test_a_pool_returns_fits():
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        fits = pool.map(fit_one, [1, 2])
    assert [fit.seed for fit in fits] == [1, 2]
    np.testing.assert_array_equal(fits[0].mean, fit_one(1).mean)


SCRIPT = """
import multiprocessing
import numpy as np
import scorevi

centre = np.array([1.0, 2.0])

class Model:
    dim = 2

    def score(self, theta):
        return centre - theta

def work(seed):
    target = scorevi.targets.as_target(Model())
    return scorevi.fit(target, seed=seed, workers=2, max_gradients=50)

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        (fit,) = pool.map(work, [1])
    print(fit.mean.round(6), fit.bad_scores.total)
"""


@pytest.mark.slow
def test_isolation_in_a_process_that_multiprocessing_spawned(tmp_path):
    path = tmp_path / "script.py"
    path.write_text(SCRIPT)
    result = subprocess.run(
        [sys.executable, path], capture_output=True, text=True, check=False, timeout=120
    )
    assert result.returncode == 0, result.stderr
    assert result.stdout == "[1. 2.] 0\n"
