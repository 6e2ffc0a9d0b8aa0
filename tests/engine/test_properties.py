"""What must hold of every fit, whatever the target, the solver, the start, the budget and the
faults.
"""

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from one_gaussian import fit_gaussian
from trials import FAMILIES, INITIALS, KINDS, SOLVER_NAMES, Trial, check, check_gaussian

import scorevi
from scorevi.examples import random_gaussian


def powers(low, high):
    return st.floats(low, high).map(lambda exponent: 10.0**exponent)


TRIALS = st.builds(
    Trial,
    family=st.sampled_from(list(FAMILIES)),
    dim=st.one_of(st.integers(1, 5), st.integers(1, 50)),
    scale=powers(-8, 8),
    condition=powers(0, 10),
    solver=st.sampled_from(SOLVER_NAMES),
    batch_size=st.one_of(st.none(), st.integers(1, 40)),
    budget=st.integers(1, 500),
    initial=st.sampled_from(INITIALS),
    seed=st.integers(0, 2**32),
    rate=st.one_of(st.just(0.0), st.floats(0.0, 0.6)),
    kinds=st.lists(st.sampled_from(KINDS), min_size=1, max_size=4).map(tuple),
    batched=st.booleans(),
    with_log_density=st.booleans(),
)
USUAL = settings(deadline=None, suppress_health_check=[HealthCheck.too_slow], derandomize=True)


@pytest.mark.slow
@given(TRIALS)
@settings(USUAL, max_examples=150)
def test_every_fit_keeps_its_promises(trial):
    fit, ledger = trial.run()
    if fit is not None:
        check(fit, ledger, trial.budget)


@pytest.mark.slow
@given(TRIALS)
@settings(USUAL, max_examples=25)
def test_the_same_seed_gives_the_same_bits(trial):
    (one, _), (two, _) = trial.run(), trial.run()
    if one is None:
        assert two is None
        return
    np.testing.assert_array_equal(one.q.mean, two.q.mean)
    np.testing.assert_array_equal(one.q.sample(3, seed=0), two.q.sample(3, seed=0))
    assert one.bad_scores.counts == two.bad_scores.counts
    for name, column in one.trace._asdict().items():
        if name != "seconds":
            np.testing.assert_array_equal(column, getattr(two.trace, name))


@pytest.mark.slow
@given(TRIALS)
@settings(USUAL, max_examples=25)
def test_a_fit_survives_the_disk(tmp_path_factory, trial):
    fit, _ = trial.run()
    if fit is None:
        return
    again = scorevi.load(fit.save(tmp_path_factory.mktemp("fits") / "fit"))
    np.testing.assert_array_equal(again.q.mean, fit.q.mean)
    theta = fit.q.sample(3, seed=0)
    np.testing.assert_array_equal(again.q.sample(3, seed=0), theta)
    np.testing.assert_array_equal(again.q.log_density(theta), fit.q.log_density(theta))
    for column, same in zip(fit.trace, again.trace, strict=True):
        np.testing.assert_array_equal(column, same)
        assert column.dtype == same.dtype
    assert again.bad_scores.counts == fit.bad_scores.counts
    for bad, same in zip(fit.bad_scores.examples, again.bad_scores.examples, strict=True):
        np.testing.assert_array_equal(bad.point, same.point)
        assert (bad.cause, bad.detail) == (same.cause, same.detail)
    assert (again.status, again.status.cause) == (fit.status, fit.status.cause)
    assert (again.num_gradients, again.num_updates) == (fit.num_gradients, fit.num_updates)
    assert (again.seed, again.solver, again.notes) == (fit.seed, fit.solver, fit.notes)


@pytest.mark.parametrize("solver", ["gsm", "bam"])
@given(
    dim=st.integers(1, 20),
    scale=powers(-6, 6),
    condition=powers(0, 4),
    seed=st.integers(0, 1000),
)
@settings(USUAL, max_examples=15)
def test_the_units_do_not_matter(solver, dim, scale, condition, seed):
    """An affine change of the space changes the iterates by that change, and by nothing else."""
    target = scorevi.examples.sinh_arcsinh(random_gaussian(dim, 10.0, seed), skew=0.3, tail=0.9)
    change = random_gaussian(dim, condition, seed + 1).scaled(scale)
    back = np.linalg.inv(change.factor)

    def undone(theta):
        return (theta - change.mean) @ back.T

    changed = scorevi.from_function(
        lambda theta: target.score(undone(theta)) @ back,
        dim,
        lambda theta: target.log_density(undone(theta)),
        batched=True,
    )
    start = scorevi.Gaussian.standard(dim)
    options = {"max_gradients": 30 * max(2, dim // 4), "seed": seed, "batch_size": max(2, dim // 4)}
    one = fit_gaussian(target, solver, initial=start, **options)
    two = fit_gaussian(changed, solver, initial=change, **options)
    check_gaussian(two.q)
    expected = scorevi.Gaussian(change.unwhiten(one.q.mean[None])[0], change.factor @ one.q.factor)
    assert two.q.kl(expected) < 1e-10
    # The first residuals: later ones tell rounding apart where q is all but p.
    np.testing.assert_allclose(two.trace.fisher[:3], one.trace.fisher[:3], rtol=1e-5)


@pytest.mark.slow
@given(
    dim=st.integers(1, 50),
    scale=powers(-8, 8),
    condition=powers(0, 6),
    seed=st.integers(0, 1000),
    away=st.floats(-100, 100),
)
@settings(USUAL, max_examples=40)
def test_the_default_solver_finds_every_gaussian(dim, scale, condition, seed, away):
    p = random_gaussian(dim, condition, seed)
    p = scorevi.Gaussian(scale * (p.mean + away), scale * p.factor)
    fit = fit_gaussian(
        scorevi.from_function(p.score, dim, p.log_density, batched=True),
        max_gradients=max(300, 12 * dim),
        seed=seed,
        stop=False,  # at scales of 1e7 the last digits take a few more batches
    )
    check(fit, None, 10**9)
    assert fit.status.ok
    assert fit.q.kl(p) < 1e-6
