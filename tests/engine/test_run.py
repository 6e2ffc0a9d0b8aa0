"""The loop: budgets, seeds, records, limits, and every solver on every target."""

import dataclasses
import signal
import time
import warnings
from typing import NamedTuple

import conftest
import numpy as np
import pytest
from conftest import SHORT, TARGETS, gsm_fit, gsm_iterate, logistic_regression, root_of
from waiting import Clock

import scorevi
from scorevi import Gaussian
from scorevi.examples import gaussian, random_gaussian
from scorevi.solvers import SOLVERS, Solver

pytestmark = SHORT


class StillState(NamedTuple):
    q: Gaussian


@dataclasses.dataclass(frozen=True)
class Still:
    """A solver that never moves, so that all its batches come from one q."""

    batch_size: int = 2
    name = "still"
    compilable = True

    def batch_size_for(self, dim):
        return self.batch_size

    def init(self, q):
        return StillState(q)

    def step(self, state, batch):
        return state, None


def counting(target):
    """The same target, and a list to which the number of points of each call is added."""
    calls = []

    def score(theta):
        calls.append(len(theta))
        return target.score(theta)

    return scorevi.from_function(
        score, target.dim, target.log_density, batched=True, constrain=target.variables.constrain
    ), calls


# --- contract ---------------------------------------------------------------------------------


def test_solvers_meet_the_protocol(any_solver):
    solver = SOLVERS[any_solver]()
    assert isinstance(solver, Solver)
    assert solver.name == any_solver
    assert hash(solver) == hash(SOLVERS[any_solver]())


# GSM and BaM do not settle on a posterior 1e8 times narrower than their start; BBVI, in 125 steps
# at its default rate, not on one 1e8 times wider or in 70 dimensions. They say so.
@pytest.mark.filterwarnings("ignore:NOT SETTLED:scorevi.FitWarning")
def test_every_solver_on_every_target(any_solver, any_target):
    fit = gsm_fit(any_target, solver=any_solver, max_gradients=1000, seed=0)
    assert fit.status.ok
    assert 0 < fit.num_gradients <= 1000
    assert np.isfinite(fit.mean).all()
    assert np.linalg.svd(root_of(fit.q), compute_uv=False)[-1] > 0
    assert fit.q.log_det == pytest.approx(np.linalg.slogdet(root_of(fit.q))[1], abs=1e-6)
    assert len(fit.trace.elbo) == fit.num_updates > 0
    assert all(np.isfinite(column).all() for column in fit.trace[:-1])  # drift needs two draws
    assert (np.diff(fit.trace.num_gradients) > 0).all()
    assert (np.diff(fit.trace.seconds) >= 0).all()
    assert (fit.trace.fisher >= 0).all()
    assert fit.trace.num_gradients[-1] <= fit.num_gradients
    assert fit.trace.seconds[-1] <= fit.seconds


def test_a_solver_of_ones_own_can_be_handed_over():
    fit = gsm_fit(Gaussian.standard(2), solver=Still(batch_size=3), max_gradients=30)
    assert fit.num_updates == 10
    assert fit.solver == "Still(batch_size=3)"


# --- budgets ----------------------------------------------------------------------------------


@pytest.mark.parametrize("initial", [None, "mode", "lbfgs", "laplace", "point"])
@pytest.mark.parametrize("budget", [20, 33, 100, 501])
def test_every_gradient_is_counted_and_none_overspent(budget, initial):
    target, calls = counting(logistic_regression())
    initial = np.ones(5) if initial == "point" else initial
    fit = gsm_fit(target, max_gradients=budget, initial=initial)
    assert fit.num_gradients == sum(calls) <= budget
    assert budget - fit.num_gradients < 2
    assert fit.status == "budget"


@pytest.mark.parametrize("value", [0, -3, 2.5, "many", None, True])
def test_bad_budgets_are_named(value):
    with pytest.raises(ValueError, match="`max_gradients` must be a whole number >= 1"):
        gsm_fit(Gaussian.standard(2), max_gradients=value)


def test_a_budget_below_the_batch_size_is_refused():
    with pytest.raises(ValueError, match="`max_gradients` must be at least the batch size, 8"):
        gsm_fit(Gaussian.standard(2), max_gradients=7, batch_size=8)


@pytest.mark.parametrize("value", [0, -1, float("nan"), "abc", [1], True])
def test_bad_times_are_named(value):
    with pytest.raises(ValueError, match="`max_seconds` must be a positive number"):
        gsm_fit(Gaussian.standard(2), max_seconds=value)


@pytest.mark.parametrize("initial", [None, "mode"])
def test_the_time_limit_holds(initial, monkeypatch):
    base, clock = logistic_regression(), Clock()
    monkeypatch.setattr(time, "perf_counter", clock)

    def slow(theta):
        clock.pass_by(0.01)
        return base.score(theta)

    target = scorevi.from_function(slow, 5, base.log_density, batched=True)
    fit = gsm_fit(target, max_gradients=10**6, max_seconds=0.3, initial=initial)
    assert fit.status == "time"
    assert "time ran out" in fit.status.cause
    assert 0.3 <= clock.now < 0.35
    assert fit.num_updates > 0


# --- seeds ------------------------------------------------------------------------------------


# BBVI at its default rate is still on its way after 50 steps, and says so.
@pytest.mark.filterwarnings("ignore:NOT SETTLED:scorevi.FitWarning")
def test_same_seed_same_bits(any_solver):
    one, two, other = (
        gsm_fit(TARGETS["logistic"](), solver=any_solver, seed=seed, max_gradients=400)
        for seed in (7, 7, 8)
    )
    np.testing.assert_array_equal(root_of(one.q), root_of(two.q))
    np.testing.assert_array_equal(one.trace.elbo, two.trace.elbo)
    assert not np.array_equal(root_of(one.q), root_of(other.q))


def test_no_global_random_state_is_touched():
    before = np.random.get_state()[1].copy()  # noqa: NPY002
    gsm_fit(TARGETS["logistic"](), seed=3, initial="mode").draws(5, seed=1)
    np.testing.assert_array_equal(before, np.random.get_state()[1])  # noqa: NPY002


def test_seeds_of_every_kind():
    p = Gaussian.standard(2)
    assert gsm_fit(p, seed=5, max_gradients=10).seed == 5
    drawn = gsm_fit(p, seed=None, max_gradients=10)
    again = gsm_fit(p, seed=drawn.seed, max_gradients=10)
    np.testing.assert_array_equal(drawn.q.factor, again.q.factor)
    generators = [gsm_fit(p, seed=np.random.default_rng(1)).seed for _ in range(2)]
    assert generators[0] == generators[1]
    for wrong in (-1, 1.5, "0"):
        with pytest.raises(ValueError, match="`seed` must be a whole number >= 0"):
            gsm_fit(p, seed=wrong)


# --- iterate ----------------------------------------------------------------------------------


def test_iterate_yields_the_updates_of_fit(any_solver):
    target = TARGETS["eight-schools"]()
    fit = gsm_fit(target, solver=any_solver, max_gradients=100, seed=2)
    steps = list(gsm_iterate(target, solver=any_solver, max_gradients=100, seed=2))
    assert len(steps) == fit.num_updates
    np.testing.assert_array_equal(steps[-1].q.mean, fit.mean)
    np.testing.assert_array_equal([step.elbo for step in steps], fit.trace.elbo)
    np.testing.assert_array_equal([step.fisher for step in steps], fit.trace.fisher)
    np.testing.assert_array_equal([s.num_gradients for s in steps], fit.trace.num_gradients)
    assert steps[0].q.covariance.shape == (10, 10)


def test_iterate_goes_on_until_it_is_left():
    for step in gsm_iterate(Gaussian.standard(2)):
        if step.num_gradients >= 5000:
            break
    assert step.num_gradients == 5000


# --- estimates --------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore::scorevi.FitWarning")  # it never settles
def test_elbo_and_fisher_estimates_are_unbiased():
    """z-tests at 5 standard errors: each false alarm has probability 6e-7."""
    p, q = random_gaussian(6, 10, seed=0), random_gaussian(6, 5, seed=1)
    target = gaussian(p.mean, p.covariance)
    fit = gsm_fit(target, solver=Still(), initial=q, max_gradients=40_000, seed=0)
    precision = np.linalg.inv(p.covariance)
    mismatch = np.eye(6) - q.factor.T @ precision @ q.factor
    bias = q.factor.T @ precision @ (q.mean - p.mean)
    log_normaliser = p.log_det + 3 * np.log(2 * np.pi)
    expected = {
        "fisher": ((mismatch**2).sum() + bias @ bias) / 6,
        "elbo": log_normaliser - q.kl(p),
    }
    for name, value in expected.items():
        estimates = getattr(fit.trace, name)
        standard_error = estimates.std(ddof=1) / np.sqrt(len(estimates))
        assert abs(estimates.mean() - value) < 5 * standard_error, name


@pytest.mark.parametrize("dim", [1, 4, 30])
def test_the_residual_is_zero_exactly_where_q_is_p(dim):
    p = random_gaussian(dim, 10, seed=0)
    target = gaussian(p.mean, p.covariance)
    at = gsm_fit(target, solver=Still(), initial=p, max_gradients=100)
    assert at.trace.fisher.max() < 1e-20
    assert np.ptp(at.trace.elbo) < 1e-9
    for other in (Gaussian(p.mean + 1e-3, p.factor), Gaussian(p.mean, p.factor * 1.001)):
        off = gsm_fit(target, solver=Still(), initial=other, max_gradients=100)
        assert off.trace.fisher.min() > 1e-10


def test_without_a_log_density_the_elbo_is_nan():
    target = scorevi.from_function(lambda x: -x, 2)
    fit = gsm_fit(target, max_gradients=100)
    assert np.isnan(fit.elbo)
    assert np.isnan(fit.trace.elbo).all()
    assert fit.fisher < 1e-20


# --- ends -------------------------------------------------------------------------------------


def test_ctrl_c_ends_the_fit_with_what_it_has():
    base, calls = logistic_regression(), []

    def score(theta):
        calls.append(None)
        if len(calls) == 50:
            signal.raise_signal(signal.SIGINT)
        return base.score(theta)

    target = scorevi.from_function(score, 5, base.log_density, batched=True)
    fit = gsm_fit(target, max_gradients=10**6)
    assert fit.status == "interrupted"
    assert fit.num_updates > 0
    assert np.isfinite(fit.mean).all()
    assert "holds what was reached" in fit.status.advice
    assert "resume" not in fit.status.advice


@pytest.mark.parametrize("kept", [True, False])
def test_ctrl_c_before_the_first_update_leaves_nothing_and_says_so(kept, tmp_path):
    def score(theta):
        if len(theta) > 1:  # not the single point by which a checkpoint knows the target
            signal.raise_signal(signal.SIGINT)
        return -theta

    target = scorevi.from_function(score, 3, batched=True)
    options = {"checkpoint": tmp_path / "c", "resume": True} if kept else {}
    with pytest.warns(scorevi.FitWarning, match="stopped by the user before the first update"):
        fit = gsm_fit(target, **options)
    assert fit.num_updates == 0
    assert "holds what was reached" not in fit.status.advice
    assert ("resume=True (--resume)" in fit.status.advice) is kept
    assert ("begin again" in fit.status.advice) is not kept


def test_every_fit_that_fails_is_warned_of():
    target = scorevi.from_function(lambda theta: theta * np.nan, 2, batched=True)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")  # as outside of tests: once for each line of code
        for _ in range(4):
            gsm_fit(target)
    told = [warning for warning in caught if warning.category is scorevi.FitWarning]
    assert len(told) == 4
    assert {warning.filename for warning in told} == {conftest.__file__}


@pytest.mark.parametrize("dim", [1, 2, 20])
def test_a_flat_log_density_diverges(dim):
    target = scorevi.from_function(np.zeros_like, dim, batched=True)
    with pytest.warns(scorevi.FitWarning, match="diverged.*grown by more than 1e15"):
        fit = gsm_fit(target, max_gradients=100_000)
    assert fit.status == "diverged"
    assert "improper" in fit.status.advice
    assert np.isfinite(fit.q.factor).all()
    with pytest.raises(scorevi.FitError, match="diverged") as caught:
        fit.raise_for_status()
    assert caught.value.fit is fit
    with pytest.raises(scorevi.FitError, match="diverged"):
        gsm_fit(target, max_gradients=100_000, raise_on_failure=True)
    with pytest.raises(scorevi.FitError, match="diverged"):
        list(gsm_iterate(target, max_gradients=100_000))


def test_a_singular_approximation_is_no_success():
    """Neither its determinant nor its residual need be anything out of the ordinary."""
    thin = Gaussian(np.zeros(2), np.array([[1.0, 1.0], [1.0, 1.0 + 2.0**-52]]), -36.0)
    with pytest.warns(scorevi.FitWarning, match="diverged: .* singular to rounding after 100 grad"):
        fit = gsm_fit(Gaussian.standard(2), Still(), initial=thin, max_gradients=100)
    assert fit.status == "diverged"
    narrow = Gaussian(np.zeros(2), np.array([[1e-9, 0.0], [1.0, 1e-9]]))
    assert gsm_fit(Gaussian.standard(2), Still(), initial=narrow, max_gradients=100).status.ok


def test_a_solver_that_breaks_ends_the_fit_with_the_last_sound_state():
    @dataclasses.dataclass(frozen=True)
    class Breaks(Still):
        def step(self, state, batch):
            if np.abs(batch.z).max() > 3:
                raise np.linalg.LinAlgError("eigenvalues did not converge")
            if np.abs(batch.z).max() > 2.5:
                return StillState(Gaussian(state.q.mean * np.nan, state.q.factor, 0.0)), None
            return state, None

    for seed in range(6):
        with pytest.warns(scorevi.FitWarning, match="not finite|did not converge"):
            fit = gsm_fit(Gaussian.standard(3), solver=Breaks(), seed=seed)
        assert fit.status == "diverged"
        assert np.isfinite(fit.q.mean).all()


# --- what is handed to fit --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "message"),
    [
        (lambda x: x, "`target` is a plain function, whose dimension is not known. Wrap it"),
        (3, "`target` must be a target.*got int"),
        (None, "`target` must be a target.*got NoneType"),
    ],
)
def test_what_is_not_a_target_is_named(target, message):
    with pytest.raises(ValueError, match=message):
        gsm_fit(target)


@pytest.mark.parametrize(
    ("solver", "message"),
    [
        ("gms", "`solver` must be one of 'auto', 'replay', 'gsm'.*; got 'gms'"),
        (3, "`solver` must be a name or a configured solver.*got int"),
        (scorevi.GSM, "`solver` must be a name or a configured solver.*got GSM"),
    ],
)
def test_what_is_not_a_solver_is_named(solver, message):
    with pytest.raises(ValueError, match=message):
        gsm_fit(Gaussian.standard(2), solver=solver)


def test_an_object_with_dim_and_score_is_enough():
    class Model:
        dim = 2
        names = ("a", "b")

        def score(self, theta):
            return -np.asarray(theta)

    fit = gsm_fit(Model(), max_gradients=50)
    assert list(fit.draws(3)) == ["a", "b"]
    assert fit.status == "budget"


def test_the_progress_bar_goes_to_standard_error(capsys):
    gsm_fit(Gaussian.standard(2), progress=True)
    shown = capsys.readouterr()
    assert shown.out == ""
    assert "2,000 gradients" in shown.err
    gsm_fit(Gaussian.standard(2))
    assert capsys.readouterr().err == ""


# --- fits that look like fits and are not -----------------------------------------------------


@pytest.mark.parametrize("seed", range(3))
def test_a_fit_that_is_still_on_its_way_is_said_to_be(seed):
    """A posterior a thousand times narrower than the start: GSM collapses on its way to it."""
    target = scorevi.from_function(lambda x: (1.0 - x) * 1e6, 1, batched=True)
    with pytest.warns(scorevi.FitWarning, match="NOT SETTLED"):
        fit = gsm_fit(target, seed=seed)
    assert "initial='laplace'" in fit.notes[-1]


@pytest.mark.parametrize("name", ["eight-schools", "logistic", "funnel", "sinh-arcsinh"])
@pytest.mark.parametrize("seed", range(5))
def test_settled_fits_raise_no_alarm(name, seed):
    """Warnings are errors here. Each false alarm has probability 3e-5."""
    fit = gsm_fit(TARGETS[name](), seed=seed, max_gradients=2000)
    assert fit.notes == ()


@pytest.mark.filterwarnings("ignore::scorevi.FitWarning")  # it never settles
def test_drift_is_an_unbiased_estimate_of_the_mean_score():
    """A z-test at 5 standard errors: false alarm 6e-7."""
    p, q = random_gaussian(6, 10, seed=0), random_gaussian(6, 5, seed=1)
    target = gaussian(p.mean, p.covariance)
    fit = gsm_fit(target, solver=Still(batch_size=3), initial=q, max_gradients=30_000)
    mean_score = q.factor.T @ p.score(q.mean)
    standard_error = fit.trace.drift.std(ddof=1) / np.sqrt(len(fit.trace.drift))
    assert abs(fit.trace.drift.mean() - mean_score @ mean_score / 6) < 5 * standard_error
    alone = gsm_fit(target, solver=Still(batch_size=1), max_gradients=100)
    assert np.isnan(alone.trace.drift).all()


@pytest.mark.parametrize("dim", [1, 2, 10, 100])
def test_a_score_of_the_wrong_sign_is_found_out(dim):
    target = scorevi.from_function(
        lambda x: x - 1.0, dim, lambda x: -0.5 * ((x - 1.0) ** 2).sum(axis=1), batched=True
    )
    with pytest.warns(scorevi.FitWarning, match="the score contradicts the log density"):
        fit = gsm_fit(target)
    assert fit.status == "bad-scores"
    assert "Check the sign" in fit.status.advice


# --- functions with bad manners ---------------------------------------------------------------


@pytest.mark.parametrize("initial", [None, "mode"])
def test_a_score_that_writes_to_its_argument_does_no_harm(initial):
    def score(x):
        x -= 5.0
        return np.negative(x)

    def log_density(x):
        x -= 5.0
        return -0.5 * (x**2).sum(axis=-1)

    fit = gsm_fit(scorevi.from_function(score, 2, log_density), initial=initial)
    np.testing.assert_allclose(fit.mean, 5.0, atol=1e-6)
    assert fit.elbo == pytest.approx(np.log(2 * np.pi))


def test_a_score_that_reuses_its_buffer_does_no_harm():
    buffer = np.empty((1, 2))

    def score(x):
        if len(x) > 1:
            raise RuntimeError("one row only")
        buffer[:] = 3.0 - x
        return buffer

    fit = gsm_fit(scorevi.from_function(score, 2, batched=True), max_gradients=4000)
    np.testing.assert_allclose(fit.mean, 3.0, atol=1e-6)
    assert "evaluated again one by one" in fit.notes[0]


@pytest.mark.parametrize("initial", [None, "auto", "laplace"])
def test_numpy_set_to_raise_makes_no_difference(initial):
    """Here the search for a start comes where exp overflows, which is no news either."""
    target = scorevi.from_function(
        lambda x: 1e3 - np.exp(1e3 * x),
        2,
        lambda x: (1e3 * x - 1e-3 * np.exp(1e3 * x)).sum(axis=1),
        batched=True,
    )
    options = {"max_gradients": 500, "seed": 1, "initial": initial}
    with np.errstate(all="raise"):
        fit = gsm_fit(target, **options)
    usual = gsm_fit(target, **options)
    np.testing.assert_array_equal(fit.q.factor, usual.q.factor)


def test_constrain_is_tried_before_the_work():
    cases = {
        lambda t: {"a": 1 / 0}: "`constrain` raised ZeroDivisionError",
        lambda t: np.exp(t): "`constrain` must return a dict.*got ndarray",
        lambda t: {"a": np.exp(t[0])}: "'a' has shape",
        lambda t: {"a": np.array(["x", "y"])}: "'a' has shape",
    }
    for constrain, message in cases.items():
        calls = []
        target = scorevi.from_function(calls.append, 1, batched=True, constrain=constrain)
        with pytest.raises(ValueError, match=message):
            gsm_fit(target)
        assert calls == []
    target = scorevi.from_function(np.negative, 1, constrain=lambda t: {"up": t[:, 0] > 0})
    assert 0.4 < gsm_fit(target).summary[0].mean < 0.6


def test_iterate_says_when_the_budget_ended_before_the_first_update():
    target = scorevi.from_function(lambda x: x * np.nan, 2, batched=True)
    with pytest.raises(scorevi.FitError, match="ended before the first update"):
        list(gsm_iterate(target, max_gradients=4))
