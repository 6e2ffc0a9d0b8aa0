"""Tried hard: faults in a third of the scores, thousands of random fits, millions of steps.

Here a share of each; the whole by ``make soak``.
"""

import gc
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from one_gaussian import fit_gaussian, iterate_gaussian
from trials import check, check_gaussian, random_trial

import scorevi
from scorevi.examples import random_gaussian
from scorevi.studies.faults import FAULTS, LOG_DENSITY_FAULTS, inject

P = random_gaussian(10, 40.0, seed=3)
KINDS = tuple(FAULTS | LOG_DENSITY_FAULTS)
PAGE = 4096 / 2**20


def faulty_gaussian(kinds, rate=0.3, seed=0, batched=False):
    return inject(
        scorevi.examples.gaussian(P.mean, P.covariance), rate, kinds, seed=seed, batched=batched
    )


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize(
    ("solver", "budget", "divergence"),
    [
        ("auto", 400, 1e-3),
        ("replay", 400, 1e-3),
        ("gsm", 1500, 1e-3),
        ("bam", 1500, 1e-3),
        # Its steps do not shrink, so neither does its noise, with faults or without: the learning
        # rate of 0.01 leaves about a tenth of a nat.
        ("bbvi", 12_000, 0.3),
    ],
)
def test_faults_of_all_kinds_in_a_third_of_the_scores(solver, budget, divergence, batched):
    target, ledger = faulty_gaussian(KINDS, batched=batched)
    fit = fit_gaussian(target, solver, max_gradients=budget, seed=1, stop=False)
    check(fit, ledger, budget)
    assert fit.status.ok
    assert fit.q.kl(P) < divergence
    assert dict(fit.bad_scores.counts) == ledger.causes
    assert set(ledger.injected) == set(KINDS)


@pytest.mark.parametrize("batched", [False, True])
@pytest.mark.parametrize("kind", KINDS)
def test_faults_of_one_kind_in_a_third_of_the_scores(kind, batched):
    target, ledger = faulty_gaussian([kind], batched=batched)
    fit = fit_gaussian(target, max_gradients=400, seed=1)
    check(fit, ledger, 400)
    assert fit.status.ok
    assert fit.q.kl(P) < 1e-3
    assert dict(fit.bad_scores.counts) == ledger.causes


def test_faults_must_be_known():
    with pytest.raises(ValueError, match=r"`kinds` must be among NaN, .*; got 'rain'"):
        faulty_gaussian(["rain"])


def random_fits(numbers):
    """Make the fits of these numbers; returns how many were not refused."""
    made = 0
    for number in numbers:
        trial = random_trial(np.random.default_rng([1, number]))
        try:
            fit, ledger = trial.run()
            if fit is not None:
                check(fit, ledger, trial.budget)
                made += 1
        except Exception as error:
            error.add_note(f"in fit number {number}: {trial}")
            raise
    return made


@pytest.mark.slow
def test_some_random_fits():
    assert random_fits(range(200)) > 100


@pytest.mark.soak
@pytest.mark.timeout(3600)
def test_ten_thousand_random_fits():
    numbers = itertools.count()
    made = 0
    while made < 10_000:
        made += random_fits(itertools.islice(numbers, 100))


def memory():
    """Return the resident memory of this process, MB."""
    gc.collect()
    return int(Path("/proc/self/statm").read_text().split()[1]) * PAGE


on_linux = pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")


def iterate_in_flat_memory(steps, solver, growth):
    """Take steps without end, and see that memory does not grow by more than so many MB."""
    target = scorevi.examples.sinh_arcsinh(random_gaussian(3, 4.0), skew=0.1)
    warm = steps // 5
    run = iterate_gaussian(target, solver, seed=0)
    next(itertools.islice(run, warm - 1, None))
    before = memory()
    step = next(itertools.islice(run, steps - warm - 1, None))
    after = memory()
    check_gaussian(step.q)
    print(f"{solver}: {steps:,} steps; {before:.1f} MB after {warm:,}, {after:.1f} MB at the end")
    assert after - before < growth


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize(("solver", "steps"), [("gsm", 10_000), ("replay", 300)])
def test_memory_is_flat(solver, steps):
    # In a process of its own: in one that other tests have filled, memory moves by itself.
    call = f"import test_stress; test_stress.iterate_in_flat_memory({steps}, {solver!r}, 3.0)"
    here = Path(__file__).parent
    path = os.pathsep.join([str(here), str(here.parent), os.environ.get("PYTHONPATH", "")])
    subprocess.run([sys.executable, "-c", call], env=os.environ | {"PYTHONPATH": path}, check=True)


@on_linux
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    ("solver", "steps"),
    [("gsm", 1_000_000), ("bam", 200_000), ("bbvi", 200_000), ("replay", 10_000)],
)
def test_memory_is_flat_for_very_long(solver, steps):
    iterate_in_flat_memory(steps, solver, growth=3.0)


def fit_in_little_memory(steps, compiled, most):
    """Make a fit of so many updates, and see what it holds on to, MB, beside its trace."""
    if compiled:
        from jax import numpy as jnp

        target = scorevi.from_jax(lambda x: -jnp.log(jnp.cosh(x - 1.0)).sum(), 2)
    else:
        target = scorevi.examples.sinh_arcsinh(random_gaussian(3, 4.0), skew=0.1)
    fit_gaussian(target, "gsm", max_gradients=20_000)
    before = memory()
    fit = fit_gaussian(target, "gsm", max_gradients=2 * steps)
    held = memory() - before
    trace = sum(column.nbytes for column in fit.trace) / 2**20
    check(fit, None, 2 * steps)
    print(
        f"{fit.num_updates:,} updates in {fit.seconds:.0f} s: {held:.1f} MB, trace {trace:.1f} MB"
    )
    assert held < 1.2 * trace + most


@pytest.mark.slow
@on_linux
@pytest.mark.parametrize("compiled", [True, False])
def test_a_fit_holds_on_to_little_beside_its_trace(compiled):
    fit_in_little_memory(30_000 if compiled else 10_000, compiled, most=4.0)


@on_linux
@pytest.mark.soak
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("compiled", [True, False])
def test_a_fit_of_a_million_updates_holds_on_to_little_beside_its_trace(compiled):
    fit_in_little_memory(1_000_000, compiled, most=8.0)
