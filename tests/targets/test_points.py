"""Starts by name, on the scale of the model."""

from collections import OrderedDict, namedtuple

import numpy as np
import pytest
from conftest import SHORT

import scorevi
from scorevi.base.evaluate import Evaluator
from scorevi.starts.start import Near, start
from scorevi.targets.points import as_point

Y = np.array([1.0, 2.0, 4.0, 3.0])
STAN = """
data { int n; vector[n] y; }
parameters {
  real mu;
  real<lower=0> sigma;
  array[2] simplex[3] share;
  matrix<lower=0>[2, 2] table;
  cholesky_factor_corr[3] L;
}
model {
  mu ~ normal(0, 5);
  sigma ~ exponential(1);
  to_vector(table) ~ exponential(1);
  L ~ lkj_corr_cholesky(2);
  y ~ normal(mu, sigma);
}
"""


def numpy_target(**more):
    return scorevi.from_function(np.negative, 3, names={"mu": (), "z": 2}, batched=True, **more)


def stan_target():
    return scorevi.from_stan(STAN, {"n": 4, "y": Y})


def pymc_target():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        sigma = pm.HalfNormal("sigma", 2)
        # A support that depends on another variable, and one with fewer degrees of freedom.
        pm.Uniform("inside", mu, mu + sigma)
        pm.Dirichlet("share", np.ones(3))
        pm.Normal("y", mu, sigma, observed=Y)
    return scorevi.from_pymc(model, backend="numpy")


def numpyro_target():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 5))
        sigma = numpyro.sample("sigma", dist.HalfNormal(2))
        numpyro.sample("inside", dist.Uniform(mu, mu + sigma))
        numpyro.sample("share", dist.Dirichlet(np.ones(3)))
        numpyro.sample("L", dist.LKJCholesky(3))
        numpyro.sample("y", dist.Normal(mu, sigma), obs=y)

    return scorevi.from_numpyro(model, Y)


LANGUAGES = {"stan": stan_target, "pymc": pymc_target, "numpyro": numpyro_target}


@pytest.fixture(
    scope="module", params=[pytest.param(name, marks=pytest.mark.languages) for name in LANGUAGES]
)
def target(request):
    return LANGUAGES[request.param]()


def values_at(target, theta):
    return {name: value[0] for name, value in target.variables.constrained(theta[None]).items()}


def test_values_of_the_model_become_the_point_that_they_are(target):
    for seed in range(3):
        theta = np.random.default_rng(seed).uniform(-1, 1, target.dim)
        values = values_at(target, theta)
        np.testing.assert_allclose(as_point(values, target), theta, atol=1e-8)
        backwards = OrderedDict(reversed(values.items()))
        np.testing.assert_allclose(as_point(backwards, target), theta, atol=1e-8)
    lists = {name: value.tolist() for name, value in values.items()}
    np.testing.assert_allclose(as_point(lists, target), theta, atol=1e-8)
    np.testing.assert_array_equal(as_point(list(theta), target), theta)


def test_what_does_not_fit_is_said_by_name(target):
    values = values_at(target, np.full(target.dim, 0.2))
    names = ", ".join(values)
    for change, message in (
        ({"sigma": -1.0}, r"\['sigma'\]` must lie inside the support of sigma, which -1. does not"),
        ({"sigma": 0.0}, r"\['sigma'\]` must lie inside the support of sigma, which 0. does not"),
        ({"sigma": np.nan}, r"`initial\['sigma'\]` must be finite"),
        ({"sigma": [1.0]}, r"`initial\['sigma'\]` must have shape \(\); got \(1,\)"),
        ({"sigma": "one"}, r"`initial\['sigma'\]` must be an array of real numbers; got str"),
        (
            {"share": np.full_like(values["share"], 0.9)},
            "inside the support of share, which .*0.9.* does",
        ),
        ({"tau": 1.0, "rho": 0.5}, f"there is no tau, rho among {names}"),
    ):
        with pytest.raises(ValueError, match=message) as caught:
            as_point(values | change, target)
        assert str(caught.value).startswith("`initial")
    del values["mu"], values["sigma"]
    with pytest.raises(ValueError, match=f"mu, sigma is missing. They are {names}"):
        as_point(values, target)
    with pytest.raises(ValueError, match=r"`initial` must have shape \(\d+,\); got \(1,\)"):
        as_point([1.0], target)
    with pytest.raises(ValueError, match="`initial` must be a vector, or a dict with the values"):
        as_point(np.zeros((2, 2)), target)


@SHORT
def test_a_fit_starts_there(target):
    theta = np.random.default_rng(1).uniform(-0.5, 0.5, target.dim)
    values = values_at(target, theta)
    by_name = scorevi.fit(target, "gsm", initial=values, max_gradients=40)
    point = as_point(values, target)
    by_point = scorevi.fit(target, "gsm", initial=point, max_gradients=40)
    np.testing.assert_array_equal(by_name.mean, by_point.mean)
    chosen = scorevi.fit(target, initial=values, max_gradients=60)
    np.testing.assert_array_equal(
        chosen.mean, scorevi.fit(target, initial=point, max_gradients=60).mean
    )


# --- functions ----------------------------------------------------------------------------------


def test_a_plain_function_takes_its_parameters_by_name():
    target = numpy_target()
    np.testing.assert_array_equal(as_point({"z": [2, 3], "mu": 1}, target), [1, 2, 3])
    with pytest.raises(ValueError, match=r"z is missing\. They are mu, z"):
        as_point({"mu": 1}, target)
    begin = start({"z": [2, 3], "mu": 1}, Evaluator(target), np.random.default_rng(0))
    np.testing.assert_array_equal(begin.q.mean, [1, 2, 3])


def test_a_function_with_a_scale_of_its_own_needs_the_way_back():
    def constrain(theta):
        return {"mu": theta[:, 0], "sigma": np.exp(theta[:, 1:])}

    def unconstrain(values):
        return np.concatenate([[values["mu"]], np.log(values["sigma"])])

    values = {"mu": 1.0, "sigma": np.exp([2.0, 3.0])}
    target = numpy_target(constrain=constrain)
    with pytest.raises(ValueError, match="Pass unconstrain= when making it, or give the 3 unc"):
        scorevi.fit(target, initial=values)
    target = numpy_target(constrain=constrain, unconstrain=unconstrain)
    np.testing.assert_allclose(as_point(values, target), [1, 2, 3])
    with pytest.raises(ValueError, match=r"inside the support of sigma, which \[-1.,  1.\] does"):
        as_point({"mu": 0.0, "sigma": [-1.0, 1.0]}, target)
    wrong = numpy_target(constrain=constrain, unconstrain=lambda values: [0.0])
    with pytest.raises(ValueError, match=r"`unconstrain` must return shape \(3,\); got \(1,\)"):
        as_point(values, wrong)
    with pytest.raises(ValueError, match="`unconstrain` must be a function; got int"):
        numpy_target(constrain=constrain, unconstrain=3)


Pair = namedtuple("Pair", "first second")


@pytest.mark.parametrize(
    ("example", "missing"),
    [
        ({"line": {"a": 0.0, "b": np.zeros(2)}, "log_sigma": 0.0}, {"line": {"a": 0.0}}),
        ([np.zeros(2), np.zeros(2)], [np.zeros(2)]),
        (Pair(np.zeros((2, 2)), 0.0), Pair(np.zeros((2, 2)), None)),
        (0.0, None),
    ],
)
def test_a_log_density_in_jax_starts_from_its_own_argument(example, missing):
    jax = pytest.importorskip("jax")

    def log_density(argument):
        return -0.5 * sum(
            (leaf**2).sum() for leaf in map(jax.numpy.asarray, jax.tree.leaves(argument))
        )

    target = scorevi.from_jax(log_density, example)
    theta = np.arange(1.0, 1.0 + target.dim)
    leaves, tree = jax.tree.flatten(example)
    parts = np.split(theta, np.cumsum([np.size(leaf) for leaf in leaves])[:-1])
    argument = tree.unflatten(
        [part.reshape(np.shape(leaf)) for part, leaf in zip(parts, leaves, strict=True)]
    )
    np.testing.assert_array_equal(as_point(argument, target), theta)
    np.testing.assert_array_equal(as_point(theta, target), theta)
    with pytest.raises(ValueError, match="`initial` must have the values of all parameters"):
        as_point(missing, target)


# --- checkpoints --------------------------------------------------------------------------------


@pytest.mark.parametrize("wrap", [lambda point: point, Near])
def test_a_checkpoint_knows_a_start_by_name_again(tmp_path, wrap):
    target = scorevi.from_function(
        np.negative, 3, lambda x: -0.5 * (x**2).sum(axis=1), names={"mu": (), "z": 2}, batched=True
    )
    path = tmp_path / "run.ckpt"
    # So many that the search for a start has the same share of either budget.
    how = {"checkpoint": path, "stop": False}
    values = {"mu": 1.0, "z": [2.0, 3.0]}
    first = scorevi.fit(target, "gsm", initial=wrap(values), max_gradients=700, **how)
    assert first.num_updates
    whole = scorevi.fit(target, "gsm", initial=wrap(values), max_gradients=760, stop=False)
    again = wrap(np.array([1.0, 2.0, 3.0]))
    more = scorevi.fit(target, "gsm", initial=again, max_gradients=760, resume=True, **how)
    np.testing.assert_array_equal(more.mean, whole.mean)
    other = wrap(values | {"mu": 2.0})
    with pytest.raises(ValueError, match=r"`checkpoint` must be of this same fit.*`initial` is"):
        scorevi.fit(target, "gsm", initial=other, max_gradients=760, resume=True, **how)
