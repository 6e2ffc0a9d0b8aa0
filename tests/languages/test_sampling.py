"""Models of other languages that become JAX functions: their chains run in compiled code."""

import numpy as np
import pytest

import scorevi

pytest.importorskip("blackjax")

Y = np.array([1.2, 0.7, 2.4, 1.9, 0.4])
MEAN, SD = Y.sum() / 5.25, 5.25**-0.5
"""Of the posterior of a mean, of observations with sd 1 under a prior with sd 2."""


def in_numpyro():
    numpyro = pytest.importorskip("numpyro")
    dist = numpyro.distributions

    def model(y):
        mu = numpyro.sample("mu", dist.Normal(0, 2))
        numpyro.sample("y", dist.Normal(mu, 1), obs=y)

    return scorevi.from_numpyro(model, Y)


def in_pymc():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 2)
        pm.Normal("y", mu, 1, observed=Y)
    return scorevi.from_pymc(model, backend="jax")


@pytest.mark.slow
@pytest.mark.jax
@pytest.mark.parametrize("make", [in_numpyro, in_pymc])
def test_chains_are_compiled(make):
    # Of 400 effective draws five errors are 0.25 sd: a false alarm in a million.
    sample = scorevi.sample(make(), 600, ess=400, method="nuts", seed=1)
    assert sample.sampler == "blackjax"
    assert sample.check() == "pass", sample.check().explain()
    assert abs(sample.draws()["mu"].mean() - MEAN) < 0.25 * SD
    assert abs(np.log(sample.draws()["mu"].std() / SD)) < 0.2
