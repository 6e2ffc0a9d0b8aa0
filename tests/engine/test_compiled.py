"""JAX targets: the compiled loop makes the same updates as the driver's own steps."""

import dataclasses
import json
import math
import time

import numpy as np
import pytest
from conftest import SHORT, gsm_fit, gsm_iterate
from one_gaussian import fit_gaussian
from waiting import CEILING, Clock

import scorevi
from scorevi.examples import random_gaussian
from scorevi.solvers import SOLVERS
from scorevi.targets.jax.pieces import piece_sizes

jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = [pytest.mark.jax, SHORT]
COMPILABLE = [name for name, make in SOLVERS.items() if make().compilable]


def bent(base, tail=0.9):
    """Sinh-arcsinh, written again in JAX; the mean and precision as NumPy arrays."""
    mean, half = base.mean, np.linalg.inv(base.cholesky)

    def log_density(x):
        angle = tail * jnp.arcsinh(x) - 0.2
        white = half @ (jnp.sinh(angle) - mean)
        log_slope = jnp.log(jnp.cosh(angle)) + jnp.log(tail) - 0.5 * jnp.log1p(x**2)
        return -0.5 * white @ white + log_slope.sum()

    return log_density


@pytest.mark.parametrize("solver", COMPILABLE)
@pytest.mark.parametrize("dim", [1, 4, 80])
def test_the_iterates_are_those_of_the_numpy_driver(dim, solver):
    base = random_gaussian(dim, 10, seed=1)
    in_jax = scorevi.from_jax(bent(base), dim)
    in_numpy = scorevi.examples.sinh_arcsinh(base, skew=0.2, tail=0.9)
    theta = base.sample(5, seed=0)
    np.testing.assert_allclose(
        in_jax.evaluate(theta).score, in_numpy.evaluate(theta).score, rtol=1e-9
    )
    one = gsm_fit(in_jax, solver=solver, max_gradients=200, seed=3)
    two = gsm_fit(in_numpy, solver=solver, max_gradients=200, seed=3)
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-7, atol=1e-9)
    np.testing.assert_allclose(one.q.factor, two.q.factor, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(one.trace.fisher, two.trace.fisher, rtol=1e-5)
    np.testing.assert_array_equal(one.trace.num_gradients, two.trace.num_gradients)
    shift = base.log_det + dim * 0.5 * np.log(2 * np.pi)
    np.testing.assert_allclose(one.trace.elbo, two.trace.elbo + shift, rtol=1e-6)
    stepwise = list(gsm_iterate(in_jax, solver=solver, max_gradients=200, seed=3))
    np.testing.assert_allclose(stepwise[-1].q.mean, one.mean, rtol=1e-7, atol=1e-9)


@pytest.mark.filterwarnings("ignore:NOT SETTLED:scorevi.FitWarning")
@pytest.mark.parametrize("solver", COMPILABLE)
def test_the_loop_is_compiled_once(solver):
    target = scorevi.from_jax(bent(random_gaussian(2)), 2)
    for seed in range(2):
        gsm_fit(target, solver=solver, max_gradients=400, seed=seed)
    (loop,) = target.loops.values()
    assert loop._cache_size() == 1


def test_same_seed_same_bits_however_the_chunks_fall():
    target = scorevi.from_jax(bent(random_gaussian(3)), 3)
    one = gsm_fit(target, max_gradients=6000, seed=1)
    two = gsm_fit(target, max_gradients=6000, seed=1)
    np.testing.assert_array_equal(one.q.factor, two.q.factor)
    short = gsm_fit(target, max_gradients=500, seed=1)
    np.testing.assert_array_equal(short.trace.elbo, one.trace.elbo[: len(short.trace.elbo)])


def test_double_precision_without_touching_the_users_setting():
    assert not jax.config.jax_enable_x64
    target = scorevi.from_jax(bent(random_gaussian(3)), 3)
    fit = gsm_fit(target, max_gradients=200)
    assert fit.mean.dtype == np.float64
    assert not jax.config.jax_enable_x64
    assert jnp.ones(2).dtype == jnp.float32
    p = random_gaussian(5, 1e6, seed=0)
    half = np.linalg.inv(p.cholesky)
    target = scorevi.from_jax(lambda x: -0.5 * ((half @ (x - p.mean)) ** 2).sum(), 5)
    assert gsm_fit(target, max_gradients=4000).q.kl(p) < 1e-10


def walled(theta):
    """A Gaussian beside a half-space where nothing exists."""
    value = -0.5 * (theta**2).sum()
    return jnp.where(theta[0] > 0.7, jnp.nan, value)


def walled_numpy():
    def inside(x):
        return x[:, 0] <= 0.7

    return scorevi.from_function(
        lambda x: np.where(inside(x)[:, None], -x, np.nan),
        3,
        lambda x: np.where(inside(x), -0.5 * (x**2).sum(axis=1), np.nan),
        batched=True,
    )


def test_bad_scores_are_handled_the_same():
    one = gsm_fit(scorevi.from_jax(walled, 3), max_gradients=601, seed=4)
    two = gsm_fit(walled_numpy(), max_gradients=601, seed=4)
    assert one.bad_scores.counts == two.bad_scores.counts
    assert one.bad_scores.total > 50
    assert one.num_gradients == two.num_gradients
    np.testing.assert_array_equal(one.trace.num_gradients, two.trace.num_gradients)
    np.testing.assert_allclose(one.mean, two.mean, rtol=1e-6, atol=1e-9)
    np.testing.assert_allclose(one.q.factor, two.q.factor, rtol=1e-5, atol=1e-8)


def test_nothing_but_nan_is_no_fit():
    target = scorevi.from_jax(lambda x: jnp.nan * x.sum(), 2)
    with pytest.warns(scorevi.FitWarning, match="bad-scores"):
        fit = gsm_fit(target)
    assert fit.num_updates == 0


def test_a_flat_log_density_diverges_at_the_same_update():
    one_target = scorevi.from_jax(lambda x: 0.0 * x.sum(), 2)
    two_target = scorevi.from_function(np.zeros_like, 2, lambda x: 0.0 * x[:, 0], batched=True)
    fits = []
    for target in (one_target, two_target):
        with pytest.warns(scorevi.FitWarning, match="grown by more than 1e15"):
            fits.append(gsm_fit(target, max_gradients=10_000, seed=0))
    assert fits[0].num_updates == fits[1].num_updates
    np.testing.assert_allclose(fits[0].q.factor, fits[1].q.factor, rtol=1e-6)


@pytest.mark.parametrize("budget", [2, 3, 65, 1000])
def test_the_budget_is_kept(budget):
    fit = gsm_fit(scorevi.from_jax(bent(random_gaussian(3)), 3), max_gradients=budget)
    assert fit.num_gradients == budget // 2 * 2
    assert len(fit.trace.seconds) == budget // 2
    assert (np.diff(fit.trace.seconds) >= 0).all()


def test_the_time_limit_holds():
    target = scorevi.from_jax(bent(random_gaussian(3)), 3)
    fit = gsm_fit(target, max_gradients=None, max_seconds=0.5)
    assert fit.status == "time"
    assert fit.seconds < CEILING


@pytest.mark.parametrize("initial", ["mode", "laplace", "lbfgs"])
def test_starts_work_on_jax_targets(initial):
    target = scorevi.from_jax(bent(random_gaussian(3)), 3)
    fit = gsm_fit(target, initial=initial, max_gradients=300)
    assert fit.num_gradients <= 300
    assert fit.status == "budget"


def test_pytrees_keep_their_names_and_shapes():
    def log_density(p):
        return -0.5 * (p["a"]["b"] ** 2).sum() - 0.5 * p["c"][0] ** 2 - 0.5 * p["c"][1] ** 2

    example = {"a": {"b": np.zeros((2, 3))}, "c": (0, 1.0)}
    target = scorevi.from_jax(log_density, example)
    assert target.dim == 8
    draws = gsm_fit(target, max_gradients=100).draws(5, seed=0)
    shapes = {name: values.shape for name, values in draws.items()}
    assert shapes == {"a.b": (5, 2, 3), "c.0": (5,), "c.1": (5,)}


def test_constrain_is_vectorised():
    target = scorevi.from_jax(
        lambda p: -0.5 * p["log_scale"] ** 2,
        {"log_scale": 0.0},
        constrain=lambda p: {"scale": jnp.exp(p["log_scale"])},
    )
    draws = gsm_fit(target, max_gradients=400).draws(400, seed=0)
    assert list(draws) == ["scale"]
    assert draws["scale"].dtype == np.float64
    assert (draws["scale"] > 0).all()


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: scorevi.from_jax(lambda x: -x, 3), r"must return a scalar.*got shape \(3,\)"),
        (lambda: scorevi.from_jax(lambda x: {"a": 1.0}, 3), "must return a scalar.*got dict"),
        (lambda: scorevi.from_jax(1.0, 3), "`log_density` must be a function; got float"),
        (lambda: scorevi.from_jax(jnp.sum, 0), "`dim` must be a whole number >= 1"),
        (lambda: scorevi.from_jax(jnp.sum, {}), "must be a dimension or hold at least one array"),
        (lambda: scorevi.from_jax(jnp.sum, {"a": "x"}), "'a' is of type str"),
        (lambda: scorevi.from_jax(jnp.sum, {"a": np.zeros(0)}), "'a' is empty"),
        (
            lambda: scorevi.from_jax(jnp.sum, {"a": {"b": 1.0}, "a.b": 1.0}),
            "a.b occurs more than once",
        ),
        (
            lambda: scorevi.from_jax(lambda p: p["a"] + p["b"], {"a": 1.0, "b": 1.0}, names=["x"]),
            "`names` is for a vector argument",
        ),
        (
            lambda: scorevi.from_jax(lambda x: (x > 0).sum(), 2),
            "`log_density` must return a real number; got int",
        ),
    ],
)
def test_wrong_arguments_are_named(call, message):
    with pytest.raises(ValueError, match=message):
        call()


@pytest.mark.parametrize("dtype", [jnp.float16, jnp.float32])
def test_a_log_density_in_single_precision_is_taken(dtype):
    target = scorevi.from_jax(lambda x: (-0.5 * (x**2).sum()).astype(dtype), 2)
    fit = gsm_fit(target, max_gradients=200)
    np.testing.assert_allclose(fit.covariance, np.eye(2), atol=1e-2)
    target = scorevi.from_jax(lambda x: -0.5 * (x.astype(dtype) ** 2).sum(), 2)
    assert gsm_fit(target, max_gradients=200).mean.dtype == np.float64


def slow(x, clock):
    def wait(value):
        clock.pass_by(0.01)
        return value

    scale = jax.pure_callback(
        wait,
        jax.ShapeDtypeStruct((), x.dtype),
        jax.lax.stop_gradient(x[0]),
        vmap_method="sequential",
    )
    return -0.5 * (x**2).sum() + 0.0 * jax.lax.stop_gradient(scale)


@pytest.mark.slow
def test_a_slow_target_keeps_to_the_time(monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)
    target = scorevi.from_jax(lambda x: slow(x, clock), 2)
    fit = gsm_fit(target, max_gradients=None, max_seconds=1.0)
    assert fit.status == "time"
    assert fit.num_updates > 5
    assert fit.seconds < 5


@pytest.mark.slow
def test_a_target_that_raises_inside_the_loop_is_a_bad_score():
    def check(value):
        if value > 1.0:
            raise ArithmeticError("no such place")
        return value

    def log_density(x):
        shape = jax.ShapeDtypeStruct((), x.dtype)
        value = jax.pure_callback(check, shape, x[0], vmap_method="sequential")
        return -0.5 * (x**2).sum() + 0.0 * jax.lax.stop_gradient(value)

    target = scorevi.from_jax(
        lambda x: log_density(jax.lax.stop_gradient(x)) - 0.5 * (x**2).sum(), 2
    )
    fit = gsm_fit(target, max_gradients=300)
    assert fit.bad_scores.counts["raised"] > 10
    assert any("went on step by step" in note for note in fit.notes)
    assert fit.num_updates > 50


def test_constrain_of_every_form():
    for constrain, names in (
        (lambda x: jnp.exp(x), ["theta"]),
        (lambda x: {"a": {"b": x[0]}, "c": x}, ["a.b", "c"]),
    ):
        target = scorevi.from_jax(lambda x: -0.5 * (x**2).sum(), 2, constrain=constrain)
        assert list(gsm_fit(target, max_gradients=50).draws(3)) == names


def test_few_sizes_of_batches_and_draws_are_compiled_for():
    sizes = []

    def constrain(x):
        sizes.append(x.shape)
        return {"scale": jnp.exp(x)}

    target = scorevi.from_jax(lambda x: -0.5 * (x**2).sum(), 3, constrain=constrain)
    theta = np.random.default_rng(0).standard_normal((300, 3))
    for count in range(1, 300):
        evaluation = target.evaluate(theta[:count])
        np.testing.assert_allclose(evaluation.score, -theta[:count])
        np.testing.assert_allclose(evaluation.log_density, -0.5 * (theta[:count] ** 2).sum(axis=1))
    assert target.compiled._cache_size() == 2
    for count in (1, 63, 64, 65, 300):
        scale = target.variables.constrained(theta[:count])["scale"]
        np.testing.assert_allclose(scale, np.exp(theta[:count]))
    assert len(sizes) == 1


def test_pieces_cover_all_rows_and_add_few():
    for count in range(1, 400):
        assert count <= sum(piece_sizes(count)) <= count + 11


def test_a_fit_its_verdict_and_its_draws_compile_the_target_twice():
    jax = pytest.importorskip("jax")
    compiled = []

    def log_density(theta):
        compiled.append(theta.shape)
        return -0.5 * (theta**2).sum() - 0.1 * jax.numpy.cosh(theta).sum()

    target = scorevi.from_jax(log_density, 7)
    compiled.clear()
    fit = fit_gaussian(target)
    fit.check()
    fit.resample(300, seed=0)
    assert len(compiled) <= 2


@pytest.mark.parametrize("family", ["low-rank", "diagonal"])
def test_large_families_compile_the_target_twice_and_call_it_once_a_batch(family):
    traced, rows = [], []

    def log_density(theta):
        traced.append(theta.shape)
        return -0.5 * (theta**2).sum() - 0.1 * jnp.cosh(theta[:40]).sum() - theta.sum() ** 2

    target = scorevi.from_jax(log_density, 300)

    def compiled(theta):
        rows.append(len(theta))
        return target.compiled(theta)

    counted = dataclasses.replace(target, compiled=compiled)
    traced.clear()
    solver = scorevi.LowRankReplay(2 if family == "low-rank" else 0)
    start, spent, calls = scorevi.LowRank.standard(300), 0, 0
    for step in scorevi.iterate(counted, solver, initial=start, max_gradients=400):
        # Scores and log densities together; more than 16 draws in pieces, which is no slower.
        assert len(rows) - calls == math.ceil((step.num_gradients - spent) / 16)
        spent, calls = step.num_gradients, len(rows)
    fit = scorevi.fit(target, family=family, max_gradients=400)
    fit.check()
    assert len(traced) <= 2


def test_what_the_log_density_raises_is_said():
    with pytest.raises(ValueError, match="`log_density` raised TypeError: the JSON object must"):
        scorevi.from_jax(json.loads, 3)
