"""Data that no parameters can explain are said, when the target is made and when the fit fails."""

import contextlib
import warnings

import numpy as np
import pytest

import scorevi
from scorevi.targets.observations import blame

# NumPyro's own, which does not say where.
pytestmark = pytest.mark.filterwarnings("ignore:Out-of-support values provided:UserWarning")
GOOD = np.array([1.0, 2.0, 0.5, 1.5, 3.0])


def changed(index, value):
    data = GOOD.copy()
    data[index] = value
    return data


def quiet(make, *args):
    """Make something that must not warn."""
    with warnings.catch_warnings():
        warnings.simplefilter("error", scorevi.FitWarning)
        return make(*args)


def failed(target, **options):
    with pytest.warns(scorevi.FitWarning, match="Look at the data"):
        fit = scorevi.fit(target, **options)
    assert fit.num_updates == 0 or not fit.status.ok
    return fit


# --- NumPyro ------------------------------------------------------------------------------------


def numpyro_target(y, x=None, kind="LogNormal"):
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def model(x, y):
        mu = numpyro.sample("mu", dist.Normal(0, 1))
        slope = numpyro.sample("slope", dist.Normal(0, 1))
        top = numpyro.sample("top", dist.HalfNormal(1))
        likelihood = {
            "LogNormal": lambda: dist.LogNormal(mu + slope * x, 1.0),
            "Normal": lambda: dist.Normal(mu + slope * x, 1.0),
            "Uniform": lambda: dist.Uniform(0.0, top),
            "Binomial": lambda: dist.Binomial(4, logits=mu),
            "masked": lambda: dist.LogNormal(mu, 1.0).mask(y > 0),
            "Dirichlet": lambda: dist.Dirichlet((1 + mu**2) * np.ones(3)),
        }[kind]()
        with numpyro.plate("rows", len(y)):
            numpyro.sample("y", likelihood, obs=y)

    return scorevi.from_numpyro(model, np.ones(len(y)) if x is None else x, y=y)


@pytest.mark.parametrize(
    ("kind", "data", "message"),
    [
        ("LogNormal", changed(3, -1.0), r"'y' is observed outside its support, Positive: -1\. at"),
        ("LogNormal", -GOOD, r"-1\.? at \[0\] and 4 more"),
        ("Binomial", np.array([1, 2, 5, 9]), r"IntegerInterval\(0, 4\): 5 at \[2\] and 1 more"),
        ("Dirichlet", np.full((2, 3), 0.5), r"Simplex: \[0\.5, 0\.5, 0\.5\] at \[0\] and 1 more"),
        ("Normal", changed(3, np.nan), r"`model`: 'y' holds NaN at \[3\]\. Where the model uses"),
    ],
)  # fmt: skip
@pytest.mark.languages
def test_numpyro_warns_of_data_that_cannot_be(kind, data, message):
    with pytest.warns(scorevi.FitWarning, match=message):
        numpyro_target(data, kind=kind)


@pytest.mark.languages
def test_numpyro_warns_of_nan_in_an_argument():
    # NumPyro itself refuses the model in some versions, but does not name the argument.
    with (
        pytest.warns(scorevi.FitWarning, match=r"'x' holds NaN at \[1\] and 1 more"),
        contextlib.suppress(ValueError),
    ):
        numpyro_target(GOOD, np.array([0, np.nan, np.nan, 1, 2]))


@pytest.mark.parametrize(
    ("kind", "data"),
    [
        ("LogNormal", GOOD),
        ("Normal", -GOOD),
        ("masked", changed(3, -1.0)),
        ("Uniform", 100 * GOOD),  # the support depends on a parameter, which may become large
    ],
)
@pytest.mark.languages
def test_numpyro_does_not_warn_of_data_that_can_be(kind, data):
    # NumPyro compares a NumPy array only with bounds that are known.
    data = pytest.importorskip("jax.numpy").asarray(data)
    quiet(numpyro_target, data, None, kind)


@pytest.mark.languages
@pytest.mark.filterwarnings("ignore:.*outside its support:scorevi.FitWarning")
def test_a_failed_fit_of_numpyro_names_the_observation():
    fit = failed(numpyro_target(changed(3, -1.0)))
    assert fit.status == "bad-scores"
    assert "the log likelihood of y[3] is -inf at every point tried" in fit.status.advice
    assert "the value of the first is -1." in fit.status.advice
    assert "y[3]" in fit.check().reasons[0].advice


# --- PyMC ---------------------------------------------------------------------------------------


def pymc_target(y, x=None, data=False):
    pm = pytest.importorskip("pymc")
    x = np.ones(len(y)) if x is None else x
    with pm.Model(coords={"day": ["mon", "tue", "wed", "thu", "fri"]}) as model:
        covariate = pm.Data("x", GOOD) if data else x
        mu = pm.Normal("mu", 0, 1)
        slope = pm.Normal("slope", 0, 1)
        pm.LogNormal("y", mu + slope * covariate, 1, observed=y, dims="day")
        if data:
            covariate.set_value(x)  # which pm.set_data would refuse
    return scorevi.from_pymc(model, backend="numpy")


@pytest.mark.languages
def test_pymc_warns_of_nan_in_data_and_constants():
    bad = np.array([0, np.nan, 2, 3, 4])
    with pytest.warns(scorevi.FitWarning, match=r"`model`: 'x' holds NaN at \[1\]\. Where the mod"):
        pymc_target(GOOD, bad, data=True)
    with pytest.warns(scorevi.FitWarning, match=r"'an array of shape \(5,\)' holds NaN at \[1\]"):
        pymc_target(GOOD, bad)
    quiet(pymc_target, GOOD)


@pytest.mark.languages
@pytest.mark.filterwarnings("ignore:Data in y contains missing values")
def test_pymc_fills_in_nan_among_the_observed_itself():
    target = quiet(pymc_target, changed(3, np.nan))
    assert "y_unobserved" in [parameter.name for parameter in target.parameters]


@pytest.mark.languages
def test_a_failed_fit_of_pymc_names_the_observation():
    fit = failed(pymc_target(changed(3, -1.0)))
    assert "the log likelihood of y[thu] is -inf at every point tried" in fit.status.advice
    assert "the value of the first is -1." in fit.status.advice


# --- any target ---------------------------------------------------------------------------------


def function_target(log_likelihood, **more):
    return scorevi.from_function(
        lambda x: x * np.nan, 1, log_likelihood=log_likelihood, batched=True, **more
    )


def test_many_observations_are_counted():
    def log_likelihood(theta):
        values = np.tile(theta, 9)
        values[:, 2:8] = np.nan
        return {"y": values}

    advice = failed(function_target(log_likelihood)).status.advice
    assert "the log likelihood of y[2], y[3], y[4] and 3 more is not finite" in advice
    assert "value" not in advice.partition("Correct")[0]


def test_where_none_can_be_it_is_said_of_all():
    target = function_target(lambda theta: {"y": np.full((len(theta), 9), -np.inf)})
    assert "of all 9 observations of y is -inf at every point" in failed(target).status.advice


def test_rows_of_data_are_shown_whole():
    def log_likelihood(theta):
        return {"y": np.concatenate([theta, theta * np.nan], axis=1)}

    target = function_target(log_likelihood, observed={"y": np.array([[1.0, 2.0], [3.0, np.nan]])})
    assert "y[1] is not finite at every point tried; the value of the first is [ 3., nan]" in blame(
        target
    )


def test_a_single_observation():
    target = function_target(
        lambda theta: {"y": -np.inf + 0 * theta[:, 0]}, observed={"y": np.array(-2.0)}
    )
    assert "of y is -inf at every point tried; its value is -2." in blame(target)


def test_nan_that_is_known_is_told_without_log_likelihoods():
    target = function_target(None, observed={"y": changed(2, np.nan), "label": np.array("a")})
    assert "the data 'y' hold NaN at [2]" in failed(target).status.advice


def test_data_are_not_blamed_for_what_they_did_not_do():
    def raises(theta):
        raise ArithmeticError

    fine = function_target(lambda theta: {"y": theta}, observed={"y": np.zeros(1)})
    for target in (fine, function_target(None), function_target(raises)):
        assert blame(target) == ""
        with pytest.warns(scorevi.FitWarning, match="data that hold NaN or lie outside their"):
            assert "Likely causes" in scorevi.fit(target).status.advice


def test_what_was_isolated_is_not_called_here():
    def log_likelihood(theta):
        raise SystemExit("in the wrong process")

    target = function_target(log_likelihood, observed={"y": changed(2, np.nan)})
    fit = failed(target, isolate=True)
    assert "hold NaN at [2]" in fit.status.advice


def test_a_budget_that_was_spent_on_bad_scores_says_so_too():
    fit = failed(function_target(None, observed={"y": changed(2, np.nan)}), max_gradients=20)
    assert fit.status == "budget" or fit.status == "bad-scores"
    assert "hold NaN at [2]" in fit.status.advice
