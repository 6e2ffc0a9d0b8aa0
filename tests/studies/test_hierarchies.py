"""The suite of hierarchies: densities, the two forms of each, Stan programs, and the truth."""

import functools
import math
import subprocess
import sys

import numpy as np
import pytest

from scorevi.base.labels import theta_labels
from scorevi.studies.hierarchies import HELD_OUT, hierarchies
from scorevi.studies.hierarchies.suite import MODELS, model
from scorevi.studies.hierarchies.truth import (
    LEVELS,
    load_truth,
    make_truth,
    save_truth,
    transformed,
)

# Each takes little, but there are dozens of models to compile.
pytestmark = [pytest.mark.jax, pytest.mark.slow]

STAN = [name for name in MODELS if name.endswith("-stan")]
IN_JAX = [name for name in MODELS if name not in STAN]
PAIRS = [name for name in MODELS if name.endswith("-noncentered")]
TRUTHS = list(hierarchies())
SLOW_TO_COMPILE = [
    pytest.param(name, marks=[] if name == "clinics-stan" else pytest.mark.soak) for name in STAN
]


@functools.cache
def made(name):
    return MODELS[name].make()


def log_density(target, theta):
    """Of a few rows, always as many, so that each target is compiled once."""
    rows = np.resize(theta, (12, target.dim))
    return target.evaluate(rows).log_density[: len(theta)]


# --- densities ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", IN_JAX)
def test_scores_are_the_slopes_of_the_log_density(name):
    target = made(name)
    rng = np.random.default_rng(1)
    theta, direction = rng.normal(0.0, 0.5, (2, 4, target.dim))
    step = 1e-4
    rows = np.concatenate([theta, theta + step * direction, theta - step * direction])
    score, value, _ = target.evaluate(rows)
    assert np.isfinite(score).all()
    assert score.dtype == value.dtype == np.float64
    slope = (value[4:8] - value[8:]) / (2 * step)
    # Central differences of step h are off by h² of the third derivative, and by rounding over h.
    rounding = 1e-14 * np.abs(value).max() / step
    np.testing.assert_allclose(
        np.vecdot(score[:4], direction), slope, rtol=1e-6, atol=2e-6 + rounding
    )


@pytest.mark.parametrize("name", PAIRS)
def test_both_forms_of_a_model_are_one_posterior(name):
    """p(z) = p(x)·|dx/dz|, where x is affine in z, so that unit steps give dx/dz exactly."""
    other = name.replace("noncentered", "centered")
    target, centered = made(name), made(other)
    assert target.dim == centered.dim
    theta = np.random.default_rng(2).normal(0.0, 0.5, (2, target.dim))
    labels, effects = theta_labels(target), theta_labels(centered)
    standard = [i for i, label in enumerate(labels) if "_z" in label]
    values = [i for i, label in enumerate(effects) if label not in labels]
    assert len(standard) == len(values) > 0
    for point in theta:
        rows = np.vstack([point, point + np.eye(target.dim)[standard]])
        moved = transformed(rows, target, centered, model(other))
        jacobian = (moved[1:] - moved[0])[:, values]
        sign, log_volume = np.linalg.slogdet(jacobian)
        assert sign != 0
        np.testing.assert_allclose(
            log_density(target, point[None]),
            log_density(centered, moved[:1]) + log_volume,
            rtol=1e-10,
        )
        # and back
        back = transformed(moved[:1], centered, target, model(name))
        np.testing.assert_allclose(back[0], point, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("name", ["meta-8-centered", "growth-centered", "level-centered"])
def test_a_centered_form_has_a_funnel(name):
    """With all effects at their mean, the log density grows as the scale goes to zero."""
    target = made(name)
    point = np.zeros((4, target.dim))
    labels = list(theta_labels(target))
    scale = "log_precision_effects[1]" if name.startswith("growth") else "log_tau"
    sign = 1.0 if name.startswith("growth") else -1.0
    point[:, labels.index(scale)] = sign * np.arange(4.0)
    assert (np.diff(log_density(target, point)) > 1.0).all()


@pytest.mark.languages
@pytest.mark.parametrize("name", SLOW_TO_COMPILE)
def test_a_stan_program_is_its_jax_twin(name):
    twin_name = model(name).through
    if name in ("clinics-stan", "seeds-stan"):
        twin_name = twin_name.replace("noncentered", "centered")
    target, twin = made(name), made(twin_name)
    theta = np.random.default_rng(3).normal(0.0, 0.5, (12, twin.dim))
    theirs = target.evaluate(transformed(theta, twin, target, model(name)))
    difference = theirs.log_density - log_density(twin, theta)
    np.testing.assert_allclose(difference, difference[0], rtol=1e-9)
    assert theta_labels(target) == load_truth(name).labels


# --- the suite ----------------------------------------------------------------------------------


def test_a_third_is_held_out_and_both_forms_together():
    names = set(hierarchies())
    assert names > HELD_OUT
    assert 0.25 < len(HELD_OUT) / len(names) < 0.45
    for name in names:
        through = {other for other in names if model(other).through == model(name).through}
        assert through <= HELD_OUT or not through & HELD_OUT


def test_the_list_needs_no_jax():
    code = (
        "import sys, scorevi.studies.hierarchies as h, scorevi.studies.hierarchies.truth as t;"
        "h.hierarchies(), t.load_truth('meta-8-centered');"
        "assert not {'jax', 'nutpie', 'arviz', 'bridgestan'} & set(sys.modules)"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_unknown_names_are_refused():
    with pytest.raises(ValueError, match=r"`name` must be that of a hierarchy; got 'radom'"):
        model("radom")
    with pytest.raises(ValueError, match=r"`name` must be that of a hierarchy; got 'radom'"):
        load_truth("radom")


# --- the truth ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TRUTHS)
def test_the_truth_fits_the_model(name):
    truth = load_truth(name)
    dim = len(truth.labels)
    assert truth.mean.shape == truth.sd.shape == (dim,)
    assert truth.quantiles.shape == (len(LEVELS), dim)
    assert (np.diff(truth.quantiles, axis=0) > 0).all()
    assert (truth.sd > 0).all()
    assert truth.by == model(name).through
    if name not in STAN:
        assert truth.labels == theta_labels(made(name))


@pytest.mark.parametrize("name", [name for name in PAIRS if name in TRUTHS])
def test_the_truth_of_both_forms_is_one(name):
    truth, other = load_truth(name), load_truth(name.replace("noncentered", "centered"))
    shared = [label for label in truth.labels if label in other.labels]
    assert shared
    for label in shared:
        ours, theirs = truth.labels.index(label), other.labels.index(label)
        np.testing.assert_array_equal(truth.quantiles[:, ours], other.quantiles[:, theirs])
        assert truth.mean[ours] == other.mean[theirs]
        assert truth.sd[ours] == other.sd[theirs]


@pytest.mark.parametrize(
    "name",
    [
        "meta-8-noncentered",
        "meta-40-noncentered",
        *[
            pytest.param(name, marks=pytest.mark.soak)
            for name in (
                "radon-noncentered",
                "radon-predictor-noncentered",
                "growth-centered",
                "crossed-noncentered",
                "level-centered",
            )
        ],
    ],
)
def test_the_truth_is_that_of_quadrature(name):
    """Given the scales the rest is Gaussian, so that the posterior is a mixture over a grid.

    All means and standard deviations are within 5 standard errors by the smallest ESS, where the
    kurtosis is taken to be 9: less than one false alarm in a thousand for all 900 numbers.
    """
    target, truth = made(name), load_truth(name)
    is_scale = np.array([label.startswith("log_") for label in truth.labels])
    scales, rest = np.flatnonzero(is_scale), np.flatnonzero(~is_scale)
    # Towards small scales the tail is long.
    low = np.array([-12.0 if label.startswith("log_tau") else -6.0 for label in truth.labels])
    axes = [truth.mean[i] + truth.sd[i] * np.arange(low[i], 6.25, 0.5) for i in scales]
    grid = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, len(scales))
    log_mass, means, variances = [], [], []
    for values in grid:
        rows = np.zeros((len(rest) + 1, target.dim))
        rows[:, scales] = values
        rows[np.arange(1, len(rest) + 1), rest] = 1.0
        score, value, _ = target.evaluate(rows)
        precision = score[0, rest] - score[1:, rest]
        covariance = np.linalg.inv(0.5 * (precision + precision.T))
        mean = covariance @ score[0, rest]
        log_mass.append(
            value[0] + 0.5 * score[0, rest] @ mean + 0.5 * np.linalg.slogdet(covariance)[1]
        )
        means.append(mean)
        variances.append(np.diag(covariance))
    mass = np.exp(np.array(log_mass) - max(log_mass))
    mass /= mass.sum()
    mean, square = np.zeros(target.dim), np.zeros(target.dim)
    mean[scales], mean[rest] = mass @ grid, mass @ np.array(means)
    square[scales] = mass @ grid**2
    square[rest] = mass @ (np.array(variances) + np.array(means) ** 2)
    sd = np.sqrt(square - mean**2)
    error = 1.0 / math.sqrt(min(truth.ess_bulk, truth.ess_tail))
    assert (np.abs(truth.mean - mean) < 5.0 * error * sd).all()
    assert (np.abs(truth.sd / sd - 1.0) < 5.0 * error * math.sqrt((9.0 - 1.0) / 4.0)).all()


def test_a_truth_is_saved_as_it_is_loaded(tmp_path, monkeypatch):
    truth = load_truth("meta-8-centered")
    monkeypatch.setattr("scorevi.studies.hierarchies.truth._FOLDER", tmp_path)
    save_truth("copy", truth._replace(best_elbo=-12.5, best_elbo_error=math.nan))
    again = load_truth("copy")
    np.testing.assert_array_equal(again.quantiles, truth.quantiles)
    assert again.best_elbo == -12.5
    assert math.isnan(again.best_elbo_error)
    assert again.labels == truth.labels
    assert again.converged == truth.converged


@pytest.mark.soak
def test_a_truth_is_made_anew_as_it_was():
    pytest.importorskip("nutpie")
    names = ["meta-8-centered", "meta-8-noncentered"]
    for name, truth in make_truth(names, limit=200.0).items():
        assert truth.converged
        np.testing.assert_allclose(truth.mean, load_truth(name).mean, rtol=1e-7)


@pytest.mark.soak
def test_a_limit_within_the_warm_up_is_refused():
    pytest.importorskip("nutpie")
    with pytest.raises(
        ValueError, match=r"`limit` must be longer than the warm-up takes; got 0 seconds"
    ):
        make_truth(["meta-8-noncentered"], limit=0.0)
