"""GSM against the paper's own formulas and its promises."""

import numpy as np
import pytest
from conftest import SEEDS, gsm_fit, gsm_iterate
from hypothesis import given, settings
from hypothesis import strategies as st

import scorevi
from scorevi import GSM, Gaussian
from scorevi.examples import gaussian, random_gaussian
from scorevi.solvers import Batch
from scorevi.solvers.gsm import GSMState, _dense_root


def textbook(mean, covariance, theta, score):
    """Equations 5, 6 and 8 and Algorithm 1 of the paper, dense, as printed."""
    shifts, changes = [], []
    for point, g in zip(theta, score, strict=True):
        offset = mean - point
        product = g @ covariance @ g + (offset @ g) ** 2
        rho = 0.5 * np.sqrt(1 + 4 * product) - 0.5
        outer = np.outer(offset, g) / (1 + rho + offset @ g)
        epsilon = covariance @ g - mean + point
        shift = (np.eye(len(mean)) - outer) @ epsilon / (1 + rho)
        moved = offset + shift
        shifts.append(shift)
        changes.append(np.outer(offset, offset) - np.outer(moved, moved))
    return mean + np.mean(shifts, axis=0), covariance + np.mean(changes, axis=0)


def batch_for(q, target_score, size, seed):
    z = np.random.default_rng(seed).standard_normal((size, q.dim))
    offset = q.image(z)
    theta = q.mean + offset
    score = target_score(theta)
    return Batch(z, offset, theta, score, q.whiten_score(score), None, q.log_density(theta))


def step(q, batch):
    state, _ = GSM().step(GSMState(q), batch)
    return state.q


@given(st.integers(1, 90), st.integers(1, 5), st.integers(0, 10_000))
@settings(max_examples=150, deadline=None)
def test_equals_the_textbook_update(dim, size, seed):
    q, p = random_gaussian(dim, 30, seed), random_gaussian(dim, 10, seed + 1)
    batch = batch_for(q, p.score, size, seed)
    mean, covariance = textbook(q.mean, q.covariance, batch.theta, batch.score)
    new = step(q, batch)
    scale = np.abs(covariance).max()
    np.testing.assert_allclose(new.mean, mean, rtol=1e-10, atol=1e-10 * np.abs(mean).max())
    np.testing.assert_allclose(new.covariance, covariance, rtol=0, atol=1e-10 * scale)
    assert new.log_det == pytest.approx(np.linalg.slogdet(new.factor)[1], abs=1e-9)


@pytest.mark.parametrize("dim", [1, 3, 64, 65, 100])
def test_a_single_draw_is_matched_exactly(dim):
    q, p = random_gaussian(dim, 30, 0), random_gaussian(dim, 10, 1)
    batch = batch_for(q, p.score, 1, seed=2)
    np.testing.assert_allclose(step(q, batch).score(batch.theta), batch.score, rtol=1e-8)


@pytest.mark.parametrize("dim", [1, 5, 100])
def test_the_target_is_a_fixed_point(dim):
    p = random_gaussian(dim, 30, 0)
    new = step(p, batch_for(p, p.score, 2, seed=1))
    assert new.kl(p) < 1e-24 + 1e-15 * dim
    np.testing.assert_allclose(new.mean, p.mean, atol=1e-12)


@pytest.mark.parametrize("dim", [3, 80])
def test_the_order_of_the_batch_does_not_matter(dim):
    q, p = random_gaussian(dim, 30, 0), random_gaussian(dim, 10, 1)
    batch = batch_for(q, p.score, 4, seed=2)
    turned = Batch(*(None if a is None else a[[2, 0, 3, 1]] for a in batch))
    np.testing.assert_allclose(step(q, batch).mean, step(q, turned).mean, rtol=1e-11)
    np.testing.assert_allclose(
        step(q, batch).covariance, step(q, turned).covariance, rtol=0, atol=1e-12
    )


@given(st.integers(1, 6), st.integers(0, 1000))
@settings(max_examples=25, deadline=None)
def test_affine_equivariance(dim, seed):
    """Run on p and on its image under θ ↦ Aθ + b, starts mapped along: the iterates map along."""
    rng = np.random.default_rng(seed)
    a, b = rng.standard_normal((dim, dim)) + 3 * np.eye(dim), rng.standard_normal(dim)
    base = random_gaussian(dim, 10, seed)
    p = scorevi.examples.sinh_arcsinh(base, skew=0.3, tail=0.9)
    back = np.linalg.inv(a)
    image = scorevi.from_function(lambda x: p.score((x - b) @ back.T) @ back, dim, batched=True)
    begin = Gaussian(b, a)
    for _, one, two in zip(
        range(20),
        gsm_iterate(p, seed=seed),
        gsm_iterate(image, seed=seed, initial=begin),
        strict=False,
    ):
        np.testing.assert_allclose(two.q.mean, a @ one.q.mean + b, rtol=1e-6, atol=1e-6)
        mapped = a @ one.q.covariance @ a.T
        np.testing.assert_allclose(two.q.covariance, mapped, rtol=0, atol=1e-6 * mapped.max())
        assert two.fisher == pytest.approx(one.fisher, rel=1e-6, abs=1e-12)


@given(
    st.integers(1, 80),
    st.integers(1, 4),
    st.floats(-12, 140),
    st.integers(0, 1000),
)
@settings(max_examples=150, deadline=None)
def test_positive_definite_whatever_the_scores(dim, size, log_scale, seed):
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((size, dim))
    h = 10.0**log_scale * rng.standard_normal((size, dim))
    new = step(Gaussian.standard(dim), Batch(z, z, z, h, h, None, None))
    assert np.isfinite(new.factor).all()
    assert np.isfinite(new.log_det)
    # The bound that holds in exact arithmetic, 1/(1 + max ρ), up to rounding of the largest.
    smallest = np.linalg.svd(new.factor, compute_uv=False)[-1]
    assert smallest > 0


def test_a_hidden_eigenvalue_is_put_back():
    """ρ = 1e20 makes an eigenvalue of 1e-20 beside ones of order 1: the Cholesky root fails."""
    z = np.array([[1.0, 2.0, 0.5]])
    h = np.array([[1e20, 0.0, 0.0]])
    zh = (z * h).sum(axis=1)
    square = (h * h).sum(axis=1) + zh**2
    rho = np.sqrt(square)
    w = z + (h + zh[:, None] * z) / (1 + rho)[:, None]
    root, log_det = _dense_root(z, w, rho)
    assert np.isfinite(root).all()
    assert log_det < -15


@pytest.mark.slow
def test_positive_definite_after_100_000_steps_at_condition_number_1e10():
    p = random_gaussian(8, 1e10, seed=0)
    fit = gsm_fit(gaussian(p.mean, p.covariance), max_gradients=200_000, seed=0)
    assert fit.num_updates == 100_000
    assert np.linalg.svd(fit.q.factor, compute_uv=False)[-1] > 0
    assert fit.q.log_det == pytest.approx(np.linalg.slogdet(fit.q.factor)[1], abs=1e-6)
    assert fit.q.kl(p) < 1e-6


@pytest.mark.parametrize("seed", SEEDS)
@pytest.mark.parametrize(
    ("dim", "condition", "gradients"), [(1, 1, 400), (2, 40, 800), (10, 1e4, 2000), (70, 40, 8000)]
)
def test_gaussian_targets_are_recovered(dim, condition, gradients, seed):
    p = random_gaussian(dim, condition, seed=seed)
    target = gaussian(p.mean, p.covariance)
    fit = gsm_fit(target, max_gradients=gradients, seed=seed)
    assert fit.q.kl(p) <= 1e-10
    assert fit.fisher < 1e-6


def test_a_start_a_million_times_too_wide_leaves_a_finite_gaussian_and_a_warning():
    target = scorevi.from_function(lambda x: -1e12 * x, 3, batched=True)
    with pytest.warns(scorevi.FitWarning, match="NOT SETTLED"):
        fit = gsm_fit(target, max_gradients=4000)
    np.testing.assert_allclose(fit.q.sd, 1e-6, rtol=0.5)  # a million times narrower


def test_the_batch_size_is_checked():
    for wrong in (0, -1, 1.5, "2", True):
        with pytest.raises(ValueError, match="`batch_size` must be a whole number >= 1"):
            GSM(batch_size=wrong)


# --- the option to settle ---------------------------------------------------------------------


def spread_of_elbo(target, settle, z):
    steps = scorevi.iterate(target, solver=GSM(settle=settle), max_gradients=2560, seed=0)
    late = [step.q for step in steps if step.num_gradients > 1920]
    elbos = [target.log_density(q.unwhiten(z)).mean() + q.log_det for q in late]
    return np.std(elbos), np.median(elbos)


@pytest.mark.parametrize(("skew", "tail"), [(1.0, 1.0), (0.0, 0.5)])
def test_settling_calms_the_elbo(skew, tail):
    target = scorevi.examples.sinh_arcsinh(scorevi.examples.dense_base(), skew, tail)
    z = np.random.default_rng(1).standard_normal((1000, 10))
    restless, calm = (spread_of_elbo(target, settle, z) for settle in (False, True))
    assert calm[0] < restless[0] / 5
    assert calm[1] > restless[1]


@pytest.mark.parametrize("dim", [3, 80])
def test_a_damped_step_goes_part_of_the_way_in_natural_parameters(dim):
    q, p = random_gaussian(dim, 30, 0), random_gaussian(dim, 10, 1)
    batch = batch_for(q, p.score, 2, seed=2)
    state = GSMState(q, fast=50.0, slow=40.0, calm=59.0)
    damped = GSM(settle=True).step(state, batch)[0]
    assert damped.calm == 60.0  # so that γ = 1/4
    whole = step(q, batch)
    old, new = np.linalg.inv(q.covariance), np.linalg.inv(whole.covariance)
    precision = 0.75 * old + 0.25 * new
    natural = 0.75 * old @ q.mean + 0.25 * new @ whole.mean
    np.testing.assert_allclose(np.linalg.inv(damped.q.covariance), precision, rtol=1e-6, atol=1e-8)
    np.testing.assert_allclose(damped.q.mean, np.linalg.solve(precision, natural), rtol=1e-7)
    assert damped.q.log_det == pytest.approx(np.linalg.slogdet(damped.q.factor)[1], abs=1e-9)


def test_settling_does_no_harm_on_a_gaussian():
    p = random_gaussian(10, 40, seed=0)
    fit = scorevi.fit(gaussian(p.mean, p.covariance), solver=GSM(settle=True), max_gradients=2000)
    assert fit.q.kl(p) < 1e-6
