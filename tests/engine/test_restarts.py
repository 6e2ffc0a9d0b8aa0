"""Fits from several starts: side by side only where that is safe, within limits, through Ctrl-C."""

import signal
import sys
import threading
import time

import numpy as np
import pytest
from conftest import logistic_regression

import scorevi
from scorevi.base.target import is_thread_safe
from scorevi.engine.run import Run
from scorevi.engine.settings import Settings
from scorevi.targets.isolated import evaluating


def alone(target, restarts, seed=0, **options):
    """The fits that restarts are to be, each made by itself."""
    first = Run(
        scorevi.targets.as_target(target),
        scorevi.GSM(),
        Settings(seed, max_gradients=options["max_gradients"]),
    )
    others = [first.from_elsewhere(index) for index in range(restarts)]
    for run in (first, *others):
        for _ in run.updates():
            pass
    return {run.settings.entropy: run.q.mean for run in (first, *others)}


def found(fit):
    return {fit.seed: fit.mean} | {restart.seed: restart.mean for restart in fit.restarts}


def assert_are_as_alone(target, restarts=2, **options):
    """Fit with restarts, and compare every run with the same one made in peace."""
    options = {"max_gradients": 200, "stop": False} | options
    fit = scorevi.fit(target, "gsm", restarts=restarts, **options)
    expected = alone(target, restarts, max_gradients=options["max_gradients"])
    assert sorted(found(fit)) == sorted(expected)
    for seed, mean in found(fit).items():
        np.testing.assert_allclose(mean, expected[seed], rtol=1e-7, atol=1e-9)
    return fit


# --- who may evaluate at once -------------------------------------------------------------------


class Watched:
    """A target that knows nothing of threads, and notes who calls it."""

    def __init__(self, inside):
        self.inside = inside
        self.callers = set()
        self.dim, self.parameters = inside.dim, inside.parameters
        self.has_log_density, self.variables = inside.has_log_density, inside.variables

    def evaluate(self, theta):
        self.callers.add(threading.current_thread())
        return self.inside.evaluate(theta)


def test_a_target_that_does_not_say_so_is_never_called_from_two_threads():
    target = Watched(logistic_regression())
    assert not is_thread_safe(target)
    fit = assert_are_as_alone(target, restarts=3)
    assert len(fit.restarts) == 3
    assert target.callers == {threading.main_thread()}


@pytest.mark.parametrize("said", [{}, {"thread_safe": True}])
@pytest.mark.parametrize("is_slow", [False, True])
def test_a_function_is_called_from_threads_where_its_author_says_so_and_it_is_slow(
    said, is_slow, monkeypatch
):
    """Quick ones would only wait for each other; what is slow is said here, whatever the load."""
    monkeypatch.setattr("scorevi.engine.restarts._SLOW", 0.0 if is_slow else 3600.0)
    base = logistic_regression()
    callers = set()

    def score(theta):
        callers.add(threading.current_thread())
        return base.score(theta)

    target = scorevi.from_function(score, 5, base.log_density, batched=True, **said)
    assert_are_as_alone(target)
    assert (callers != {threading.main_thread()}) is bool(said and is_slow)


def test_an_object_with_a_score_may_say_so_too():
    class Model:
        dim = 2
        thread_safe = True

        def score(self, theta):
            return -theta

    assert is_thread_safe(scorevi.targets.as_target(Model()))
    assert is_thread_safe(scorevi.targets.as_target(scorevi.Gaussian.standard(2)))
    assert is_thread_safe(scorevi.examples.eight_schools())
    assert not is_thread_safe(scorevi.from_function(lambda x: -x, 2))


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_workers_serve_several_threads(workers):
    assert_are_as_alone(logistic_regression(), restarts=3, workers=workers)


@pytest.mark.slow
def test_each_thread_gets_its_own_scores_from_workers():
    rng = np.random.default_rng(0)
    batches = [rng.standard_normal((40, 3)) for _ in range(6)]
    scores = [None] * len(batches)
    target = scorevi.from_function(lambda x: -x, 3, batched=False)
    with evaluating(target, True, None, 2) as isolated:

        def ask(index):
            scores[index] = isolated.evaluate(batches[index]).score

        threads = [threading.Thread(target=ask, args=(index,)) for index in range(len(batches))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    for batch, score in zip(batches, scores, strict=True):
        np.testing.assert_array_equal(score, -batch)


@pytest.mark.languages
def test_pymc():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        mu = pm.Normal("mu", 0, 5, shape=3)
        pm.Normal("y", mu, 1.0, observed=np.array([1.0, -2.0, 0.5]))
    target = scorevi.from_pymc(model, backend="numpy")
    assert not is_thread_safe(target)
    assert_are_as_alone(target)


@pytest.mark.jax
def test_jax():
    pytest.importorskip("jax")
    target = scorevi.from_jax(lambda x: -0.5 * ((x - 1.0) ** 4).sum() - 0.5 * (x**2).sum(), 3)
    assert is_thread_safe(target)
    assert_are_as_alone(target, restarts=3)


@pytest.mark.jax
@pytest.mark.languages
def test_numpyro_is_traced_by_one_thread_at_a_time():
    """Its handlers are the same for all threads, and the model runs when JAX traces it."""
    numpyro = pytest.importorskip("numpyro")
    inside, most = [], []

    def model(y):
        inside.append(threading.current_thread())
        time.sleep(0.001)  # lets another thread in, if it may
        most.append(len(set(inside)))
        mu = numpyro.sample("mu", numpyro.distributions.Normal(0, 5))
        numpyro.sample("y", numpyro.distributions.Normal(mu, 1.0), obs=y)
        inside.remove(threading.current_thread())

    target = scorevi.from_numpyro(model, np.array([1.2, 0.7, 2.4]))
    threads = [
        threading.Thread(target=target.evaluate, args=(np.zeros((size, 1)),))
        for size in (1, 2, 4, 8, 12, 16)
    ]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(most) >= 3  # when it is made, and for each of the two sizes that are compiled for
    assert set(most) == {1}
    assert_are_as_alone(target, restarts=3)


@pytest.mark.languages
def test_stan_is_asked_whether_it_was_compiled_for_threads():
    pytest.importorskip("bridgestan")
    from stan_programs import TRANSFORMS

    target = scorevi.from_stan(TRANSFORMS, {"n": 0})
    assert is_thread_safe(target)

    class Without:
        def __getattr__(self, name):
            return getattr(target.model, name)

        def model_info(self):
            return target.model.model_info().replace("STAN_THREADS=true", "STAN_THREADS=false")

    without = scorevi.targets.StanTarget(Without(), target.parameters, target.variables)
    assert not is_thread_safe(without)
    assert_are_as_alone(without, restarts=2)


# --- limits -------------------------------------------------------------------------------------


@pytest.mark.parametrize("thread_safe", [True, False])
def test_the_clock_of_a_run_starts_when_it_begins(thread_safe, monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    score = logistic_regression().score
    # Without a log density the start costs nothing, so that an update is made in any time at all.
    target = scorevi.from_function(score, 5, batched=True, thread_safe=thread_safe)
    fit = scorevi.fit(target, "gsm", max_gradients=None, max_seconds=0.05, restarts=4, stop=False)
    assert len(fit.restarts) == 4
    assert {restart.status for restart in fit.restarts} == {"time"}
    assert not any("ended before" in note for note in fit.notes)


def test_runs_that_came_to_nothing_are_told():
    base, calls = logistic_regression(), []

    def score(theta):
        calls.append(None)
        return np.full_like(theta, np.nan) if len(calls) > 60 else base.score(theta)

    target = scorevi.from_function(score, 5, base.log_density, batched=True)
    fit = scorevi.fit(target, "gsm", max_gradients=120, restarts=3, stop=False)
    assert len(fit.restarts) == 0
    assert any(
        "3 of 4 runs ended before their first update (3 bad-scores)" in note for note in fit.notes
    )


def test_without_a_log_density_the_fisher_residual_decides_and_nothing_is_nan():
    def score(theta):  # two wells, at -3 and 3
        return np.tanh(6.0 * theta) * 6.0 - 2.0 * theta

    target = scorevi.from_function(score, 1, batched=True)
    fits = [
        scorevi.fit(target, initial=np.array([start]), restarts=3, max_gradients=300)
        for start in (3.0, -3.0)
    ]
    for fit in fits:
        assert "the best of 4 runs by Fisher residual" in fit.notes[0]
    told = [fit.check(modes=False).explain() for fit in fits]
    assert any("a fit from another start has the mean of theta[0]" in text for text in told)
    for text in (*told, *(note for fit in fits for note in fit.notes)):
        assert "nan" not in text.lower()


# --- Ctrl-C -------------------------------------------------------------------------------------


def main_thread_waits():
    """Whether the main thread is blocked in a wait of `threading`."""
    frame = sys._current_frames()[threading.main_thread().ident]
    return frame.f_code.co_filename == threading.__file__


def test_ctrl_c_while_waiting_for_the_others_keeps_what_there_is(monkeypatch):
    monkeypatch.setattr("os.cpu_count", lambda: 1)
    monkeypatch.setattr("scorevi.engine.restarts._SLOW", 0.0)  # in threads, however quick it is
    base, main = logistic_regression(), threading.main_thread()
    calls = {True: 0, False: 0}
    sent = threading.Event()

    def score(theta):
        ours = threading.current_thread() is main
        calls[ours] += 1
        if not ours and calls[False] >= 40:
            while not sent.is_set() and not (calls[True] == 5000 and main_thread_waits()):
                time.sleep(0.001)
            if not sent.is_set():
                sent.set()
                signal.pthread_kill(main.ident, signal.SIGINT)
            time.sleep(0.001)  # the signal is to be heeded before the budget is spent
        return base.score(theta)

    target = scorevi.from_function(score, 5, batched=True, thread_safe=True)
    fit = scorevi.fit(target, "gsm", max_gradients=10_000, restarts=3, stop=False)
    assert "2 of 4 runs were not made: the user stopped the fit" in fit.notes
    statuses = [fit.status, *(restart.status for restart in fit.restarts)]
    assert sorted(statuses) == ["budget", "interrupted"]


@pytest.mark.parametrize("where", [30, 150])
def test_ctrl_c_between_runs_in_turn_keeps_what_there_is(where):
    base, calls = logistic_regression(), []

    def score(theta):
        calls.append(None)
        if len(calls) == where:
            signal.raise_signal(signal.SIGINT)
        return base.score(theta)

    target = scorevi.from_function(score, 5, batched=True)
    fit = scorevi.fit(target, "gsm", max_gradients=200, restarts=3, stop=False)
    assert len(calls) == where
    assert np.isfinite(fit.mean).all()
    made = 1 + len(fit.restarts)
    assert made == (1 if where == 30 else 2)
    assert f"{4 - made} of 4 runs were not made: the user stopped the fit" in fit.notes


def test_an_interruption_from_another_thread_is_not_overwritten():
    base = logistic_regression()
    run = Run(base, scorevi.GSM(), Settings(0, max_gradients=10**6))
    updates = run.updates()
    for _ in range(5):
        next(updates)
    thread = threading.Thread(target=run.interrupt)
    thread.start()
    thread.join()
    assert list(updates) == []
    assert run.status == "interrupted"
    assert run.num_updates == 4
