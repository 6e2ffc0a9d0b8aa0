"""PyMC models as targets: densities, transforms, names, and what arrives in ArviZ.

Most models here run on ``backend="numpy"``, which is the same graph without the wait for a
compiler; the compiled back ends are tested against it.
"""

import sys
import warnings

import numpy as np
import pytest
import scipy.stats

import scorevi

pm = pytest.importorskip("pymc")
import pytensor  # noqa: E402
import pytensor.tensor as pt  # noqa: E402

EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])
SCHOOLS = list("ABCDEFGH")
PYTHON = pytensor.compile.Mode(linker="py", optimizer="fast_compile").excluding("cxx_only")


def no_compiler():
    return pytensor.config.change_flags(cxx="")


def eight_schools():
    with pm.Model(coords={"school": SCHOOLS}) as model:
        mu = pm.Normal("mu", 0, 5)
        tau = pm.HalfCauchy("tau", 5)
        theta_trans = pm.Normal("theta_trans", 0, 1, dims="school")
        theta = pm.Deterministic("theta", mu + tau * theta_trans, dims="school")
        pm.Normal("y", theta, ERRORS, observed=EFFECTS, dims="school")
    return model


def transforms():
    """Every kind of transform, of scalars, vectors and matrices."""
    with pm.Model() as model:
        half = pm.HalfNormal("half", shape=(2, 3))
        pm.Uniform("interval", -1.0, 2.0, shape=3)
        pm.Uniform("below", 0.0, half[0, 0])
        pm.Beta("share", 2.0, 3.0)
        pm.Dirichlet("simplex", np.ones(4))
        pm.Dirichlet("simplices", np.ones((2, 3)))
        ordered = pm.distributions.transforms.ordered
        pm.Normal("ordered", 0, 1, shape=3, transform=ordered, initval=[-1.0, 0.0, 1.0])
        pm.ZeroSumNormal("zero_sum", shape=4)
        pm.VonMises("angle", 0.0, 2.0)
    return model


def correlations():
    with pm.Model() as model:
        scales = pm.Exponential.dist(1.0, size=3)
        pm.LKJCholeskyCov("chol", n=3, eta=2.0, sd_dist=scales)
        pm.LKJCorr("corr", n=3, eta=2.0)
    return model


def everything_else():
    """Data that can be swapped, potentials, several kinds of observations, some of them missing."""
    masked = np.ma.masked_invalid([0.5, np.nan, 1.5, 2.0, np.nan])
    with pm.Model(coords={"row": range(4), "side": ["left", "right"]}) as model:
        x = pm.Data("x", np.array([0.0, 1.0, 2.0, 3.0]), dims="row")
        slope = pm.Normal("slope", 0, 1)
        sd = pm.HalfNormal("sd", 1)
        pm.Poisson("count", pt.exp(slope * x / 3), observed=[1, 2, 0, 4], dims="row")
        pm.MvNormal(
            "pair", slope * np.ones(2), np.eye(2), observed=np.ones((4, 2)), dims=("row", "side")
        )
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # PyMC says that it imputes
            pm.Normal("gappy", slope, sd, observed=masked)
        pm.Potential("pull", -0.1 * slope**2)
        pm.Deterministic("constant", pt.as_tensor_variable(np.arange(3.0)))
        pm.Deterministic("flag", slope > 0)
    return model


def conjugate():
    """Independent blocks with known posteriors."""
    with pm.Model() as model:
        share = pm.Uniform("share", 0.0, 1.0)
        pm.Binomial("hits", 2000, share, observed=800)
        rate = pm.Gamma("rate", 2.0, 1.0)
        pm.Poisson("events", 100 * rate, observed=1500)
        simplex = pm.Dirichlet("simplex", np.ones(3))
        pm.Multinomial("votes", 2000, simplex, observed=[600, 1000, 400])
        mean = pm.Normal("mean", 0.0, 10.0)
        pm.Normal("sizes", mean, 1.0, observed=np.arange(4.0))
    return model


MODELS = {
    function.__name__: function
    for function in (eight_schools, transforms, correlations, everything_else, conjugate)
}
_MADE = {}


@pytest.fixture(params=MODELS)
def any_model(request):
    return made(request.param)


def made(name):
    """A model and its target, made once."""
    if name not in _MADE:
        model = MODELS[name]()
        _MADE[name] = model, scorevi.from_pymc(model, backend="numpy")
    return _MADE[name]


def points_of(model, target, size=3, seed=0):
    """Points as rows, and as the dicts that PyMC's own functions take."""
    theta = 0.5 * np.random.default_rng(seed).standard_normal((size, target.dim))
    ends = np.cumsum([parameter.size for parameter in target.parameters])[:-1]
    dicts = [
        {
            value.name: part.reshape(parameter.shape)
            for value, parameter, part in zip(
                model.value_vars, target.parameters, np.split(row, ends), strict=True
            )
        }
        for row in theta
    ]
    return theta, dicts


def test_scores_are_the_gradients_of_the_log_density(any_model):
    model, target = any_model
    [theta], _ = points_of(model, target, size=1)
    step = 1e-5
    offsets = step * np.eye(target.dim)
    up = target.evaluate(theta + offsets).log_density
    down = target.evaluate(theta - offsets).log_density
    score = target.evaluate(theta[None]).score[0]
    np.testing.assert_allclose((up - down) / (2 * step), score, rtol=1e-5, atol=1e-5)


def test_the_log_density_is_that_of_pymc(any_model):
    """With every constant, so that the ELBO bounds the log evidence."""
    model, target = any_model
    theta, points = points_of(model, target)
    with no_compiler():
        log_density = model.compile_logp(mode=PYTHON)
    theirs = [float(log_density(point)) for point in points]
    np.testing.assert_allclose(target.evaluate(theta).log_density, theirs, rtol=1e-12)


def test_constrained_values_and_deterministics_are_those_of_pymc(any_model):
    model, target = any_model
    theta, points = points_of(model, target)
    variables = [*model.free_RVs, *model.deterministics]
    outputs = model.replace_rvs_by_values(variables)
    with no_compiler():
        function = model.compile_fn(
            outputs, inputs=model.value_vars, mode=PYTHON, on_unused_input="ignore"
        )
    ours = target.variables.constrained(theta) | target.variables.derived(theta, seed=0)
    assert list(ours) == [variable.name for variable in variables]
    for name, *theirs in zip(ours, *map(function, points), strict=True):
        np.testing.assert_allclose(ours[name], np.stack(theirs), rtol=1e-12, err_msg=name)


def test_pointwise_log_likelihoods_are_those_of_pymc(any_model):
    model, target = any_model
    theta, points = points_of(model, target)
    ours = target.variables.pointwise(theta)
    assert list(ours) == list(target.variables.observed)
    assert list(ours) == [variable.name for variable in model.observed_RVs]
    if ours:
        outputs = model.logp(vars=model.observed_RVs, sum=False)
        with no_compiler():
            function = model.compile_fn(
                outputs, inputs=model.value_vars, mode=PYTHON, on_unused_input="ignore"
            )
        for name, *theirs in zip(ours, *map(function, points), strict=True):
            np.testing.assert_allclose(ours[name], np.stack(theirs), rtol=1e-10, err_msg=name)


def test_names_and_unconstrained_shapes():
    _, target = made("transforms")
    assert dict(target.parameters) == {
        "half": (2, 3),
        "interval": (3,),
        "below": (),
        "share": (),
        "simplex": (3,),
        "simplices": (2, 2),
        "ordered": (3,),
        "zero_sum": (3,),
        "angle": (),
    }
    assert target.dim == sum(parameter.size for parameter in target.parameters)
    assert [parameter.name for parameter in made("eight_schools")[1].parameters] == [
        "mu",
        "tau",
        "theta_trans",
    ]


def test_draws_obey_their_constraints():
    _, target = made("transforms")
    theta = np.random.default_rng(0).standard_normal((500, target.dim))
    values = target.variables.constrained(theta)
    assert (values["half"] > 0).all()
    assert ((values["interval"] > -1) & (values["interval"] < 2)).all()
    assert ((values["below"] > 0) & (values["below"] < values["half"][:, 0, 0])).all()
    assert ((values["share"] > 0) & (values["share"] < 1)).all()
    for name in ("simplex", "simplices"):
        assert (values[name] > 0).all()
        np.testing.assert_allclose(values[name].sum(axis=-1), 1.0, rtol=1e-12)
    assert (np.diff(values["ordered"], axis=-1) > 0).all()
    np.testing.assert_allclose(values["zero_sum"].sum(axis=-1), 0.0, atol=1e-12)
    assert (np.abs(values["angle"]) <= np.pi).all()


def test_correlation_matrices_are_such():
    _, target = made("correlations")
    theta = np.random.default_rng(0).standard_normal((200, target.dim))
    values = target.variables.derived(theta, seed=0)
    matrices = values["chol_corr"]
    assert matrices.shape == (200, 3, 3)
    np.testing.assert_allclose(np.diagonal(matrices, axis1=1, axis2=2), 1.0, rtol=1e-10)
    assert (np.linalg.eigvalsh(matrices) > 0).all()
    assert (values["chol_stds"] > 0).all()
    assert (np.abs(target.variables.constrained(theta)["corr"]) <= 1).all()


def test_known_posteriors_are_recovered():
    """Means to 0.05 sd and sds to 5 %.

    The counts are large, so that the posteriors are nearly Gaussian in unconstrained space. Over
    40 fits, 8 seeds at each of five budgets from 500 gradients up, the worst entry was 0.027 sd
    and 2 % off, of which the 20,000 draws account for 0.007 sd and 0.5 % a standard error. With
    300 gradients none of 8 fits had arrived.
    """
    _, target = made("conjugate")
    fit = scorevi.fit(target, max_gradients=1000, seed=0)
    draws = fit.draws(20_000, seed=1)
    votes = scipy.stats.dirichlet([601, 1001, 401])
    known = {
        "share": (scipy.stats.beta(801, 1201).mean(), scipy.stats.beta(801, 1201).std()),
        "rate": (1502 / 101, np.sqrt(1502) / 101),
        "simplex": (votes.mean(), np.sqrt(votes.var())),
        "mean": (6 / 4.01, 1 / np.sqrt(4.01)),
    }
    for name, (mean, sd) in known.items():
        error = (draws[name].mean(axis=0) - mean) / sd
        np.testing.assert_allclose(error, 0.0, atol=0.05, err_msg=name)
        np.testing.assert_allclose(draws[name].std(axis=0), sd, rtol=0.05, err_msg=name)


def test_fitting_a_model_directly_reaches_the_posterior_of_eight_schools():
    """Against 10,000 reference draws of posteriordb: mu 4.41 ± 3.31, within 0.3 sd."""
    fit = scorevi.fit(eight_schools(), seed=0)
    assert fit.status.ok
    assert abs(fit.summary[0].mean - 4.41) < 0.3 * 3.31
    assert list(fit.draws(2, seed=0)) == ["mu", "tau", "theta_trans", "theta"]


@pytest.mark.parametrize("backend", ["numba", "c", pytest.param("jax", marks=pytest.mark.jax)])
def test_compiled_back_ends_agree_with_numpy(backend):
    if backend != "c":
        pytest.importorskip(backend)
    model, target = made("eight_schools")
    theta, _ = points_of(model, target, size=5)
    want = target.evaluate(theta)
    theta.flags.writeable = False
    got = scorevi.from_pymc(model, backend=backend).evaluate(theta)
    np.testing.assert_allclose(got.score, want.score, rtol=1e-10)
    np.testing.assert_allclose(got.log_density, want.log_density, rtol=1e-12)
    assert got.score.dtype == got.log_density.dtype == np.float64


@pytest.mark.jax
def test_fits_on_jax_run_as_compiled_loops():
    jax = pytest.importorskip("jax")
    target = scorevi.from_pymc(eight_schools(), backend="jax")
    assert not jax.config.jax_enable_x64  # which PyTensor sets
    assert isinstance(target, scorevi.targets.JaxTarget)
    fit = scorevi.fit(target, "gsm", max_gradients=200, seed=0)
    assert fit.num_gradients == 200
    assert target.loops
    assert list(fit.draws(2, seed=0)) == ["mu", "tau", "theta_trans", "theta"]


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto distribution")
def test_everything_arrives_in_arviz():
    arviz = pytest.importorskip("arviz")
    fit = scorevi.fit(made("eight_schools")[1], max_gradients=500, seed=0)
    data = fit.to_arviz(size=200, seed=1)
    posterior = data["posterior"]
    assert set(posterior.data_vars) == {"mu", "tau", "theta_trans", "theta"}
    assert posterior["theta"].dims == ("chain", "draw", "school")
    assert list(posterior["school"].values) == SCHOOLS
    np.testing.assert_array_equal(data["observed_data"]["y"].values, EFFECTS)
    assert data["observed_data"]["y"].dims == ("school",)
    log_likelihood = data["log_likelihood"]["y"]
    assert log_likelihood.dims == ("chain", "draw", "school")
    theta = posterior["theta"].values
    want = scipy.stats.norm.logpdf(EFFECTS, theta, ERRORS)
    np.testing.assert_allclose(log_likelihood.values, want, rtol=1e-10)
    assert data["unconstrained_posterior"]["theta_trans"].dims == ("chain", "draw", "school")
    np.testing.assert_allclose(
        np.exp(data["unconstrained_posterior"]["tau"].values), posterior["tau"].values, rtol=1e-12
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # about the one chain
        table = arviz.summary(data)
    assert {"mu", "tau", "theta[A]", "theta_trans[H]"} <= set(table.index)
    assert np.isfinite(getattr(arviz.loo(data), "elpd", getattr(arviz.loo(data), "elpd_loo", None)))


def test_several_observations_in_arviz():
    pytest.importorskip("arviz")
    _, target = made("everything_else")
    data = scorevi.fit(target, max_gradients=500, seed=0).to_arviz(size=20, seed=1)
    assert data["observed_data"]["pair"].dims == ("row", "side")
    assert data["observed_data"]["count"].values.dtype.kind == "i"
    assert data["log_likelihood"]["pair"].dims == ("chain", "draw", "row")
    assert data["log_likelihood"]["count"].shape == (1, 20, 4)
    assert data["log_likelihood"]["gappy_observed"].shape == (1, 20, 3)
    posterior = data["posterior"]
    assert posterior["gappy_unobserved"].shape == (1, 20, 2)
    np.testing.assert_array_equal(posterior["gappy"].values[0, :, [0, 2, 3]].T[0], [0.5, 1.5, 2.0])
    np.testing.assert_array_equal(posterior["constant"].values[0, 7], [0.0, 1.0, 2.0])


def test_the_data_are_those_at_the_time():
    with pm.Model() as model:
        x = pm.Data("x", np.zeros(3))
        mean = pm.Normal("mean")
        pm.Normal("y", mean, 1.0, observed=x)
    target = scorevi.from_pymc(model, backend="numpy")
    theta = np.ones((1, 1))
    before = target.evaluate(theta).log_density
    pm.set_data({"x": np.full(5, 9.0)}, model=model)
    assert target.evaluate(theta).log_density == before
    assert target.variables.pointwise(theta)["y"].shape == (1, 3)
    after = scorevi.from_pymc(model, backend="numpy")
    assert after.evaluate(theta).log_density < before
    np.testing.assert_array_equal(after.variables.observed["y"], np.full(5, 9.0))


def test_an_axis_without_a_name_among_the_dims():
    with pm.Model(coords={"group": ["a", "b"]}) as model:
        x = pm.Normal("x", shape=(2, 3))
        pm.Deterministic("y", x, dims=("group", None))
    dims = scorevi.from_pymc(model, backend="numpy").variables.dims
    assert dims == {"y": ["group", "y_dim_1"]}


def test_what_is_random_in_a_deterministic_follows_the_seed():
    with pm.Model() as model:
        x = pm.Normal("x")
        pm.Deterministic("noisy", x + pm.Normal.dist())
    variables = scorevi.from_pymc(model, backend="numpy").variables
    theta = np.zeros((50, 1))
    first, again, other = (variables.derived(theta, seed)["noisy"] for seed in (1, 1, 2))
    assert len(np.unique(first)) == 50
    np.testing.assert_array_equal(first, again)
    assert (first != other).all()


def test_many_draws_are_made_in_pieces(monkeypatch):
    monkeypatch.setattr("scorevi.targets.pymc.draws._CHUNK_ENTRIES", 100)
    model, target = made("eight_schools")
    theta, _ = points_of(model, target, size=57)
    in_pieces = target.variables.derived(theta, seed=0)["theta"]
    assert in_pieces.shape == (57, 8)
    tau = np.exp(theta[:, 1:2])
    np.testing.assert_allclose(in_pieces, theta[:, :1] + tau * theta[:, 2:], rtol=1e-12)


@pytest.mark.parametrize("backend", ["numba", "numpy"])
def test_points_at_which_pytensor_raises_are_bad_scores(backend):
    """The density is cut at 1, far enough from the bulk that the fit goes on."""
    if backend == "numba":
        pytest.importorskip("numba")
    with pm.Model() as model:
        x = pm.Normal("x", 0, 1)
        bounded = pytensor.raise_op.Assert("x is too large")(x, x < 1.0)
        pm.Potential("nothing", 1e-12 * bounded)
    target = scorevi.from_pymc(model, backend=backend)
    score, log_density, failures = target.evaluate(np.array([[0.5], [2.0], [-0.5]]))
    np.testing.assert_allclose(score, [[-0.5], [np.nan], [0.5]])
    assert np.isnan(log_density[1])
    assert failures == {1: ("raised", "AssertionError: x is too large")}
    fit = scorevi.fit(target, "gsm", max_gradients=200, seed=0, stop=False)
    assert fit.status == "budget"
    assert fit.bad_scores.counts["raised"] > 0
    assert "x is too large" in fit.bad_scores.describe()


def test_a_log_density_of_minus_infinity_is_a_bad_score():
    with pm.Model() as model:
        sd = pm.Normal("sd", 1, 1)
        pm.Normal("y", 0, sd, observed=[1.0])
    target = scorevi.from_pymc(model, backend="numpy")
    assert target.evaluate(np.array([[-1.0]])).log_density == -np.inf


def test_the_model_of_the_context_is_taken():
    with eight_schools():
        target = scorevi.from_pymc(backend="numpy")
    assert target.dim == 10


def discrete():
    with pm.Model() as model:
        pm.Bernoulli("z", 0.5)
        pm.Poisson("n", 3.0)
        pm.Normal("x")
    return model


def nothing_free():
    with pm.Model() as model:
        pm.Normal("y", 0, 1, observed=[1.0])
    return model


def minibatch():
    with pm.Model() as model:
        mean = pm.Normal("mean")
        part = pm.Minibatch(np.arange(100.0), batch_size=10)
        pm.Normal("y", mean, 1.0, observed=part, total_size=100)
    return model


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (
            lambda: scorevi.from_pymc(discrete()),
            "`model` must have continuous free variables only; discrete: z, n. "
            ".*pymc_extras.marginalize",
        ),
        (lambda: scorevi.fit(discrete()), "discrete: z, n"),
        (lambda: scorevi.from_pymc(nothing_free()), "`model` must have free variables"),
        (lambda: scorevi.from_pymc(3), "`model` must be a pymc.Model or None; got int"),
        (lambda: scorevi.from_pymc(), "`model` must be given, or .*`with model:`"),
        (lambda: scorevi.from_pymc(minibatch()), "random, as with pm.Minibatch"),
        (
            lambda: scorevi.from_pymc(eight_schools(), backend="torch"),
            "`backend` must be one of .*'numba'.*; got 'torch'",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


def test_single_precision_is_refused():
    with pytensor.config.change_flags(floatX="float32"):
        model = eight_schools()
        with pytest.raises(ValueError, match=r'double.*mu is float32.*floatX = "float64"'):
            scorevi.from_pymc(model)


def test_the_setting_of_the_moment_does_not_matter_to_a_model_in_double():
    model, target = made("eight_schools")
    theta, _ = points_of(model, target)
    with pytensor.config.change_flags(floatX="float32"):
        other = scorevi.from_pymc(model, backend="numpy")
        np.testing.assert_array_equal(other.evaluate(theta).score, target.evaluate(theta).score)
        values = other.variables.constrained(theta)
    assert {value.dtype for value in values.values()} == {np.dtype(np.float64)}


def test_pymc_is_not_imported_for_other_targets(monkeypatch):
    monkeypatch.delitem(sys.modules, "pymc")
    scorevi.fit(scorevi.Gaussian.standard(2), max_gradients=20)
    assert "pymc" not in sys.modules


def test_without_pymc_the_message_says_how_to_install_it(monkeypatch):
    monkeypatch.setitem(sys.modules, "pymc", None)
    with pytest.raises(ImportError, match=r"pip install 'scorevi\[pymc\]'"):
        scorevi.from_pymc()


def test_the_wait_for_the_compiler_is_said(capsys):
    with pm.Model() as model:
        pm.Normal("x")
    scorevi.from_pymc(model, backend="numpy", progress=True)
    assert "Compiling the PyMC model with numpy" in capsys.readouterr().err
    scorevi.from_pymc(model, backend="numpy", progress=False)
    assert capsys.readouterr().err == ""


def test_the_data_are_drawn_anew_into_arviz():
    """Means of 4,000 draws, each within 5 standard errors: fails by chance 6e-7 times."""
    pytest.importorskip("arviz")
    y = np.array([1.0, 2.0, 4.0, 3.5])
    with pm.Model(coords={"day": ["a", "b", "c", "d"]}) as model:
        mu = pm.Normal("mu", 0, 5)
        pm.Normal("y", mu, 1.0, observed=y, dims="day")
        pm.Poisson("count", pm.math.exp(mu / 2), observed=[3, 4])
    fit = scorevi.fit(scorevi.from_pymc(model, backend="numpy"), seed=0)
    data = fit.to_arviz(4000, seed=1)
    predicted = data["posterior_predictive"]
    assert predicted["y"].dims == ("chain", "draw", "day")
    assert set(predicted.data_vars) == {"y", "count"} == set(data["observed_data"].data_vars)
    assert set(data["posterior"].data_vars) == {"mu"}
    drawn, at = predicted["y"].values[0], data["posterior"]["mu"].values[0]
    noise = drawn - at[:, None]
    assert abs(noise.mean()) < 5 / np.sqrt(noise.size)
    assert abs(np.corrcoef(noise[:, 0], noise[:, 1])[0, 1]) < 5 / np.sqrt(len(noise))
    assert predicted["count"].values.dtype.kind == "i"
    again = fit.to_arviz(4000, seed=1)["posterior_predictive"]
    np.testing.assert_array_equal(again["y"].values, predicted["y"].values)
    assert list(fit.draws(2)) == ["mu"]
    assert set(fit.draws(2, include="everything")) == {"mu", "y", "count"}


def test_a_model_that_cannot_draw_its_data_says_so_and_gives_the_rest():
    pytest.importorskip("arviz")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5)
        pm.CustomDist("y", mu, logp=lambda value, mu: -0.5 * (value - mu) ** 2, observed=[1.0])
    fit = scorevi.fit(scorevi.from_pymc(model, backend="numpy"), seed=0)
    with pytest.warns(
        scorevi.FitWarning, match="group posterior_predictive is left out: `predict`"
    ):
        data = fit.to_arviz(10, seed=1)
    assert data["posterior"]["mu"].shape == (1, 10)
