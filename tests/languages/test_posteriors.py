"""The eight posteriors of the paper: their programs compile, and their scores are right.

The data here are simulated; where PDB_PATH points at a posteriordb, its own are used as well.
"""

import os
from importlib import resources

import numpy as np
import pytest

import scorevi
from scorevi.studies.posteriordb import EIGHT, Posterior, database, paired
from scorevi.studies.posteriors import NEAR_GAUSSIAN
from scorevi.targets.synthetic import EIGHT_SCHOOLS

RNG = np.random.default_rng(0)
SCHOOLS = {"J": 8, "y": EIGHT_SCHOOLS["effect"], "sigma": EIGHT_SCHOOLS["standard_error"]}
SIMULATED = {
    "arK": {"K": 2, "T": 30, "y": RNG.normal(size=30)},
    "diamonds": {
        "N": 20,
        "K": 4,
        "Y": RNG.normal(8, 1, size=20),
        "X": np.column_stack([np.ones(20), RNG.normal(size=(20, 3))]),
        "prior_only": 0,
    },
    "lotka_volterra": {
        "N": 5,
        "ts": [1.0, 2.0, 3.0, 4.0, 5.0],
        "y_init": [30.0, 4.0],
        "y": RNG.lognormal(3, 0.3, size=(5, 2)),
    },
    "hmm_drive_0": {
        "N": 15,
        "K": 2,
        "u": RNG.exponential(size=15),
        "v": RNG.exponential(size=15),
        "alpha": [[4.0, 2.0], [1.0, 3.0]],
    },
    "eight_schools_centered": SCHOOLS,
    "eight_schools_noncentered": SCHOOLS,
    "gp_pois_regr": {"N": 6, "x": np.linspace(-5, 5, 6), "k": [3, 1, 4, 1, 5, 9]},
    "low_dim_gauss_mix": {"N": 20, "y": RNG.normal(size=20)},
}
needs_data = pytest.mark.skipif("PDB_PATH" not in os.environ, reason="PDB_PATH is not set")


def program(model):
    return resources.files("scorevi.studies") / "models" / f"{model}.stan"


@pytest.fixture
def model(request):
    """The name of a program, compiled before the test and its time begin."""
    scorevi.compile_stan(program(request.param))
    return request.param


@pytest.fixture
def posterior(request):
    """One of posteriordb's, its program compiled."""
    scorevi.compile_stan(program(request.param.partition("-")[2]))
    return Posterior(database(), request.param)


def check_score(model, target):
    """Compare with central differences; the ODE's own tolerance limits one of them."""
    rng = np.random.default_rng(1)
    theta = rng.normal(scale=0.3, size=(4, target.dim))
    score, _, failures = target.evaluate(theta)
    assert not failures
    step = 1e-5
    shifts = step * np.eye(target.dim)
    for point, expected in zip(theta, score, strict=True):
        up = target.evaluate(point + shifts).log_density
        down = target.evaluate(point - shifts).log_density
        error = np.abs((up - down) / (2 * step) - expected).max()
        assert error <= (1e-2 if model == "lotka_volterra" else 1e-5) * np.abs(expected).max()


@pytest.mark.parametrize("model", SIMULATED, indirect=True)
def test_scores_on_simulated_data(model):
    check_score(model, scorevi.from_stan(program(model), SIMULATED[model]))


@needs_data
@pytest.mark.parametrize("posterior", EIGHT, indirect=True)
def test_scores_on_posteriordbs_data(posterior):
    check_score(posterior.name.partition("-")[2], posterior.target())


@needs_data
@pytest.mark.parametrize("posterior", NEAR_GAUSSIAN, indirect=True)
def test_moments_of_the_near_gaussian_ones_are_those_of_the_reference_draws(posterior):
    """10,000 reference draws leave errors of 0.01 sd; the limits are what is asked of a fit."""
    fit = scorevi.fit(posterior.target(), max_gradients=3000, stop=False)
    draws, reference = paired(fit.draws(10_000, seed=0), posterior.reference())
    off = np.abs(draws.mean(axis=0) - reference.mean(axis=0)) / reference.std(axis=0)
    ratio = draws.std(axis=0) / reference.std(axis=0)
    assert off.max() < 0.15
    assert 1 / 1.2 < ratio.min() <= ratio.max() < 1.2


# --- the programs against the same densities in NumPy --------------------------------------------


def _normal(x, mean, sd):
    return -0.5 * (((np.asarray(x) - mean) / sd) ** 2).sum() - np.log(sd) * np.size(x)


def _ark(theta, data, own):
    alpha, beta, log_sigma = theta[0], theta[1:3], theta[3]
    y, sigma = data["y"], np.exp(log_sigma)
    location = alpha + beta[0] * y[1:-1] + beta[1] * y[:-2]
    prior = _normal(theta[:3], 0, 10) - np.log1p((sigma / 2.5) ** 2) + log_sigma
    return prior + _normal(y[2:], location, sigma)


def _hmm(theta, data, own):
    # From Stan itself: its versions unconstrain a simplex in ways that differ by a factor.
    shares = np.array([own["theta1"][0], own["theta2"][0]])
    log_transition = np.log(np.column_stack([shares, 1 - shares]))
    rates = np.exp(theta[2:]).reshape(2, 2).cumsum(axis=1)
    prior = theta[2:].sum() + sum(_normal(r[0], 0, 1) + _normal(r[1], 3, 1) for r in rates)
    prior += (np.log(shares) + np.log1p(-shares)).sum()
    prior += ((np.array(data["alpha"]) - 1) * log_transition).sum()
    emission = (
        np.log(rates).sum(axis=0) - np.outer(data["u"], rates[0]) - np.outer(data["v"], rates[1])
    )
    forward = emission[0]
    for row in emission[1:]:
        forward = np.logaddexp.reduce(forward[:, None] + log_transition, axis=0) + row
    return prior + np.logaddexp.reduce(forward)


def _mixture(theta, data, own):
    low, log_gap, logit = theta[0], theta[1], theta[4]
    means, sds = np.array([low, low + np.exp(log_gap)]), np.exp(theta[2:4])
    share = 1 / (1 + np.exp(-logit))
    each = -0.5 * ((data["y"][:, None] - means) / sds) ** 2 - np.log(sds)
    likelihood = np.logaddexp(np.log(share) + each[:, 0], np.log1p(-share) + each[:, 1]).sum()
    prior = _normal(sds, 0, 2) + _normal(means, 0, 2) + 5 * (np.log(share) + np.log1p(-share))
    return likelihood + prior + log_gap + theta[2:4].sum()


def _process(theta, data, own):
    log_rho, log_alpha, f_tilde = theta[0], theta[1], theta[2:]
    rho, alpha, x = np.exp(log_rho), np.exp(log_alpha), data["x"]
    cov = alpha**2 * np.exp(-0.5 * ((x[:, None] - x) / rho) ** 2) + 1e-10 * np.eye(len(x))
    f = np.linalg.cholesky(cov) @ f_tilde
    prior = 24 * log_rho - 4 * rho + _normal(alpha, 0, 2) + _normal(f_tilde, 0, 1)
    return prior + log_rho + log_alpha + (np.array(data["k"]) * f - np.exp(f)).sum()


def _diamonds(theta, data, own):
    b, intercept, log_sigma = theta[:3], theta[3], theta[4]
    sigma = np.exp(log_sigma)
    centred = data["X"][:, 1:] - data["X"][:, 1:].mean(axis=0)
    prior = _normal(b, 0, 1) - 2 * np.log1p(((intercept - 8) / 10) ** 2 / 3)
    prior += -2 * np.log1p((sigma / 10) ** 2 / 3) + log_sigma
    return prior + _normal(data["Y"], intercept + centred @ b, sigma)


@pytest.mark.parametrize(
    ("model", "log_density"),
    [
        ("arK", _ark),
        ("diamonds", _diamonds),
        ("hmm_drive_0", _hmm),
        ("gp_pois_regr", _process),
        ("low_dim_gauss_mix", _mixture),
    ],
    indirect=["model"],
)
def test_densities_are_those_of_the_mathematics(model, log_density):
    target = scorevi.from_stan(program(model), SIMULATED[model])
    theta = np.random.default_rng(2).normal(scale=0.5, size=(6, target.dim))
    own = target.variables.constrained(theta)
    expected = np.array(
        [
            log_density(point, SIMULATED[model], {name: rows[row] for name, rows in own.items()})
            for row, point in enumerate(theta)
        ]
    )
    difference = target.evaluate(theta).log_density - expected
    np.testing.assert_allclose(difference, difference[0], rtol=0, atol=1e-8)
