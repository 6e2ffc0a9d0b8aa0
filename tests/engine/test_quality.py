"""The ELBO and the Fisher residual of the q that a fit ends with."""

import math

import numpy as np
import pytest
from conftest import SEEDS, SHORT
from one_gaussian import fit_gaussian

import scorevi
from scorevi.base.pairs import Draws
from scorevi.engine.quality import Recent, joined
from scorevi.examples import eight_schools, funnel, logistic_regression, random_gaussian


def elbo(fit, size=8000):
    theta = fit.q.sample(size, seed=1)
    values = fit.target.evaluate(theta).log_density - fit.q.log_density(theta)
    return float(values.mean())


@pytest.mark.parametrize("solver", ["replay", "auto"])
def test_of_an_exact_fit_they_are_exact(solver):
    p = random_gaussian(10)
    fit = fit_gaussian(p, solver, max_gradients=12 if solver == "replay" else 100)
    assert fit.q.kl(p) < 1e-12
    assert fit.elbo == pytest.approx(0.0, abs=1e-8)
    assert fit.quality.elbo_error < 1e-8
    assert fit.fisher < 1e-12


@pytest.mark.parametrize("make", [eight_schools, lambda: logistic_regression(5, 60)])
@pytest.mark.parametrize("solver", ["auto", "gsm", "bam", "bbvi"])
@pytest.mark.parametrize("seed", SEEDS)
def test_they_are_those_of_the_final_q(make, solver, seed):
    """Within five standard errors, and 0.15 nats for draws that took part in the fit."""
    fit = fit_gaussian(make(), solver, seed=seed, max_gradients=3000)
    assert abs(fit.elbo - elbo(fit)) < 5 * fit.quality.elbo_error + 0.15


def test_a_start_far_away_does_not_show_in_it():
    """The trace of a short fit is mostly of where it came from."""
    p = random_gaussian(3)
    fit = fit_gaussian(scorevi.examples.gaussian(p.mean + 300.0, p.covariance), "replay")
    assert fit.trace.elbo[0] < -1e4
    assert abs(fit.elbo - elbo(fit)) < 1e-6


@SHORT
def test_where_the_draws_were_elsewhere_they_are_not_known():
    p = random_gaussian(4)
    fit = fit_gaussian(funnel(4, 2.0), "gsm", max_gradients=8, initial=p.mean + 30.0)
    assert not fit.quality.known
    assert math.isnan(fit.elbo)
    assert "ELBO" not in repr(fit)


@SHORT
def test_a_few_draws_are_spent_where_there_are_some_left():
    """Two batches of 30 fit into 80 gradients, far from the q that they lead to."""
    p = random_gaussian(4)
    options = {"initial": p.mean + 30.0, "max_gradients": 80}
    solver = scorevi.BaM(batch_size=30, schedule=0.1)
    fit = fit_gaussian(scorevi.examples.gaussian(p.mean, p.covariance), solver, **options)
    assert fit.num_updates == 2
    assert fit.num_gradients == 76
    assert fit.quality.known
    assert abs(fit.elbo - elbo(fit)) < 5 * fit.quality.elbo_error


def test_the_last_draws_alone_are_kept_and_how_they_came_does_not_matter():
    rng = np.random.default_rng(0)
    z = rng.standard_normal((500, 3))
    q = random_gaussian(3)
    theta = q.unwhiten(z)
    log_density = rng.standard_normal(500)
    whole = Draws(theta, q.score(theta), log_density, q.points(z).log_q)
    batches = [Draws(*(column[i : i + 7] for column in whole)) for i in range(0, 500, 7)]
    one, many = Recent([whole]), Recent(batches)
    assert 200 <= sum(len(batch.theta) for batch in many.batches) < 207
    assert one.quality(q) == many.quality(q) == Recent([joined(many.batches)]).quality(q)
    np.testing.assert_allclose(whole.log_q, q.log_density(theta), rtol=1e-12)
