"""Starts and metrics for other samplers: each of them runs with what it is handed."""

import json
import warnings

import numpy as np
import pytest
from stan_programs import TRANSFORMS

import scorevi

Y = np.array([2.1, 3.4, 1.9, 2.7, 3.9, 2.2, 3.1])
"""Means of its posterior's parameters are compared with those of samplers, whose effective samples
are in the hundreds: 0.3 sd is five errors, a false alarm in a million."""


def check_moments(draws, fit_draws):
    for name, values in fit_draws.items():
        sd = values.std(axis=0)
        ours = draws[name].reshape(-1, *values.shape[1:])
        assert (np.abs(ours.mean(axis=0) - values.mean(axis=0)) < 0.3 * sd).all(), name


def numpyro_model(y):
    import numpyro
    import numpyro.distributions as dist

    # Sites not in the order of their names, to which NumPyro brings them.
    scale = numpyro.sample("scale", dist.LogNormal(0.0, 0.5))
    base = numpyro.sample("base", dist.Normal(jnp_zeros(2), 3.0).to_event(1))
    numpyro.sample("y", dist.Normal(base[0] + 0.1 * base[1], scale), obs=y)


def jnp_zeros(size):
    import jax.numpy as jnp

    return jnp.zeros(size)


@pytest.fixture(scope="module")
def numpyro_fit():
    pytest.importorskip("numpyro")
    return scorevi.fit(scorevi.from_numpyro(numpyro_model, Y), seed=0)


@pytest.fixture(scope="module")
def exact(numpyro_fit):
    return scorevi.sample(numpyro_fit, 1000, ess=400)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["dense", "diagonal"])
def test_numpyro_samples_with_it(numpyro_fit, exact, metric):
    import jax
    from numpyro.infer import MCMC, NUTS

    handed = numpyro_fit.to_mcmc("numpyro", metric=metric, seed=1)
    assert len(np.unique(handed.starts[:, 0])) == 4
    with jax.enable_x64(True), warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of the number of devices
        kernel = NUTS(numpyro_model, **handed.form["kernel"])
        mcmc = MCMC(
            kernel,
            num_warmup=50,
            num_samples=300,
            num_chains=4,
            chain_method="vectorized",
            progress_bar=False,
        )
        mcmc.run(jax.random.PRNGKey(0), Y, init_params=handed.form["init_params"])
        draws = {name: np.asarray(value) for name, value in mcmc.get_samples().items()}
        used = mcmc.last_state.adapt_state.inverse_mass_matrix
    (sites, matrix), *more = used.items()
    assert not more
    assert sites == ("base", "scale")
    # In NumPyro's order: two entries of base, then scale, the first of theta.
    order = [1, 2, 0]
    covariance = numpyro_fit.covariance
    expected = covariance[np.ix_(order, order)] if metric == "dense" else np.diag(covariance)[order]
    np.testing.assert_allclose(np.asarray(matrix)[0], expected, rtol=1e-6)
    check_moments(draws, exact.draws())


@pytest.mark.slow
def test_blackjax_samples_with_it(numpyro_fit, exact):
    blackjax = pytest.importorskip("blackjax")
    import jax

    handed = numpyro_fit.to_mcmc("blackjax", seed=2).form
    with jax.enable_x64(True):
        nuts = blackjax.nuts(
            handed["logdensity_fn"],
            step_size=0.7,
            inverse_mass_matrix=jax.numpy.asarray(handed["inverse_mass_matrix"]),
        )

        def chain(key, position):
            def step(state, key):
                state, info = nuts.step(key, state)
                return state, (state.position, info.acceptance_rate)

            return jax.lax.scan(step, nuts.init(position), jax.random.split(key, 300))[1]

        keys = jax.random.split(jax.random.PRNGKey(0), 4)
        theta, accepted = jax.jit(jax.vmap(chain))(keys, jax.numpy.asarray(handed["positions"]))
    assert np.asarray(accepted).mean() > 0.6
    flat = np.asarray(theta).reshape(-1, 3)
    known = exact.flat
    assert (np.abs(flat.mean(axis=0) - known.mean(axis=0)) < 0.3 * known.std(axis=0)).all()


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["dense", "diagonal"])
def test_pymc_samples_with_it(metric):
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        scale = pm.LogNormal("scale", 0.0, 0.5)
        base = pm.Normal("base", 0.0, 3.0, shape=2)
        pm.Normal("y", base[0] + 0.1 * base[1], scale, observed=Y)
    fit = scorevi.fit(scorevi.from_pymc(model, backend="c"), seed=0)
    handed = fit.to_mcmc("pymc", metric=metric, seed=3)
    assert [set(one) for one in handed.form["initvals"]] == [{"scale", "base"}] * 4
    assert all(one["scale"] > 0 for one in handed.form["initvals"])
    with model:
        step = pm.NUTS(potential=handed.form["potential"])
        trace = pm.sample(
            draws=250,
            tune=50,
            chains=4,
            cores=1,
            step=step,
            initvals=handed.form["initvals"],
            random_seed=1,
            progressbar=False,
            compute_convergence_checks=False,
        )
    draws = {name: trace.posterior[name].values for name in ("scale", "base")}
    check_moments({k: v.reshape(-1, *v.shape[2:]) for k, v in draws.items()}, fit.draws(2000, 1))


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["dense", "diagonal"])
def test_nutpie_samples_with_it(metric):
    nutpie = pytest.importorskip("nutpie")
    target = scorevi.examples.eight_schools()
    fit = scorevi.fit(target, seed=0)
    handed = fit.to_mcmc("nutpie", metric=metric, seed=4)
    trace = nutpie.sample(**handed.form, tune=100, draws=300, seed=1, progress_bar=False)
    assert set(trace.posterior.data_vars) == {"mu", "tau", "theta"}
    assert trace.posterior["theta"].shape == (4, 300, 8)
    assert (trace.posterior["tau"].values > 0).all()
    mu = trace.posterior["mu"].values
    assert abs(mu.mean() - 4.4) < 1.0  # 0.3 of its sd
    np.testing.assert_allclose(handed.starts, fit.q.sample(4, 4))


@pytest.fixture(scope="module")
def stan_fit():
    pytest.importorskip("bridgestan")
    target = scorevi.from_stan(TRANSFORMS, {"n": 0})
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scorevi.FitWarning)  # of a fit that need not arrive
        return scorevi.fit(target, max_gradients=300)


@pytest.mark.slow
@pytest.mark.parametrize("metric", ["dense", "diagonal"])
def test_cmdstan_gets_files_of_its_format(stan_fit, metric, tmp_path):
    """JSON objects from name to constrained value, arrays nested row by row, as Stan reads them."""
    fit, model = stan_fit, stan_fit.target.model
    handed = fit.to_mcmc("cmdstan", chains=3, metric=metric, folder=tmp_path, seed=5)
    names = [tmp_path / f"init_{chain}.json" for chain in (1, 2, 3)]
    assert handed.form["inits"] == [str(name) for name in names]
    for path, start in zip(names, handed.starts, strict=True):
        content = json.loads(path.read_text())
        assert content["positive"] > 0
        assert [sum(share) for share in content["shares"]] == pytest.approx([1.0, 1.0])
        assert np.shape(content["deep"]) == (2, 2, 2, 3)
        # Stan's own reader takes it back to where it came from.
        back = model.param_constrain(model.param_unconstrain_json(path.read_text()))
        np.testing.assert_allclose(back, model.param_constrain(start), rtol=1e-6)
    kind = {"dense": "dense_e", "diagonal": "diag_e"}[metric]
    assert handed.form["metric"] == kind
    content = json.loads((tmp_path / "metric.json").read_text())
    assert list(content) == ["inv_metric"]
    expected = fit.covariance if metric == "dense" else np.diag(fit.covariance)
    np.testing.assert_allclose(content["inv_metric"], expected)
    assert handed.form["arguments"] == [
        f"init={tmp_path}/init.json",
        f"metric={kind}",
        f"metric_file={tmp_path}/metric.json",
    ]
    with pytest.raises(ValueError, match="`folder` must be an existing folder"):
        fit.to_mcmc("cmdstan", folder=tmp_path / "none")


def test_what_is_refused(tmp_path):
    fit = scorevi.fit(scorevi.examples.random_gaussian(2))
    with pytest.raises(ValueError, match=r"`tool` must be one of \"cmdstan\", .*; got 'jags'"):
        fit.to_mcmc("jags")
    with pytest.raises(ValueError, match='`metric` must be "dense" or "diagonal"'):
        fit.to_mcmc("nutpie", metric="low-rank")
    with pytest.raises(ValueError, match="`folder` must be given for CmdStan's files"):
        fit.to_mcmc("cmdstan")
    with pytest.raises(ValueError, match="`folder` must be given for CmdStan's files, and only"):
        fit.to_mcmc("nutpie", folder=tmp_path)
    with pytest.raises(ValueError, match="'cmdstan' needs a target made by from_stan"):
        fit.to_mcmc("cmdstan", folder=tmp_path)
    with pytest.raises(ValueError, match="'blackjax' needs a target made by from_jax"):
        fit.to_mcmc("blackjax")
