"""Scores from other processes: what dies there does not die here, and the bits are the same."""

import ctypes
import dataclasses
import importlib.util
import json
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import numpy as np
import pytest
from command import command_line, run
from conftest import SHORT, TARGETS
from waiting import CEILING, InterruptWhen, wait_until, wait_until_gone

import scorevi
from scorevi.examples import random_gaussian
from scorevi.targets.isolated import evaluating
from scorevi.targets.isolated.worker import IN_WORKER


def children():
    """Processes that this one has started and that are still there, the dead included."""
    tasks = Path("/proc/self/task").iterdir()
    return sum(len((task / "children").read_text().split()) for task in tasks)


def open_files():
    return len(list(Path("/proc/self/fd").iterdir()))


@pytest.fixture(autouse=True)
def nothing_is_left_behind():
    before, files = children(), open_files()
    yield
    assert children() == before
    assert open_files() == files


def assert_same(one, two):
    np.testing.assert_array_equal(one.q.mean, two.q.mean)
    np.testing.assert_array_equal(one.q.factor, two.q.factor)
    np.testing.assert_array_equal(one.trace.fisher, two.trace.fisher)
    np.testing.assert_array_equal(one.trace.num_gradients, two.trace.num_gradients)
    assert one.num_gradients == two.num_gradients


def vicious(harmless=False):
    """A Gaussian with places that end the process, hang, or raise; or are just NaN."""

    def score(x):
        places = x > 1.7
        if places.any() and harmless:
            return np.full(4, np.nan)
        if places[0]:
            ctypes.string_at(0)
        if places[1]:
            os._exit(7)
        if places[2]:
            time.sleep(3600)
        if places[3]:
            raise ArithmeticError("no such place")
        return -x + 0.1 * np.sin(x)

    return scorevi.from_function(score, 4, batched=False)


@pytest.mark.slow
def test_what_dies_hangs_or_raises_is_a_bad_score_and_the_fit_goes_on():
    fit = scorevi.fit(vicious(), "gsm", max_gradients=20, seed=1, workers=2, score_timeout=1.0)
    plain = scorevi.fit(vicious(harmless=True), "gsm", max_gradients=20, seed=1)
    assert_same(fit, plain)
    assert fit.bad_scores.total == plain.bad_scores.total
    assert set(fit.bad_scores.counts) == {"died", "timeout", "raised"}
    details = {bad.detail for bad in fit.bad_scores.examples}
    assert details & {
        "the process that computed the score was ended by SIGSEGV",
        "the process that computed the score exited with code 7",
    }


@pytest.mark.slow
def test_each_reason_is_told():
    target = vicious()
    theta = np.zeros((6, 4))
    theta[np.arange(4), np.arange(4)] = 2.0
    with evaluating(target, True, 1.0, 3) as isolated:
        evaluation = isolated.evaluate(theta)
    assert np.isnan(evaluation.score[:4]).all()
    np.testing.assert_array_equal(evaluation.score[4:], 0.0)
    assert evaluation.log_density is None
    assert evaluation.failures == {
        0: ("died", "the process that computed the score was ended by SIGSEGV"),
        1: ("died", "the process that computed the score exited with code 7"),
        2: ("timeout", "there was no score within 1 s"),
        3: ("raised", "ArithmeticError: no such place"),
    }


@pytest.mark.slow
@pytest.mark.parametrize("name", ["eight-schools", "gaussian-70"])
def test_the_number_of_workers_does_not_matter(name):
    fits = [
        scorevi.fit(TARGETS[name](), max_gradients=300, seed=2, workers=workers)
        for workers in (1, 3)
    ]
    assert_same(*fits)
    plain = scorevi.fit(TARGETS[name](), max_gradients=300, seed=2)
    np.testing.assert_allclose(fits[0].mean, plain.mean, rtol=1e-6, atol=1e-9)


@pytest.mark.slow
def test_a_function_of_one_point_gives_the_same_bits_as_in_this_process():
    p = random_gaussian(70, 10, seed=0)
    target = scorevi.from_function(
        lambda x: p.score(x), 70, lambda x: p.log_density(x), batched=False
    )
    options = {"solver": "gsm", "max_gradients": 300, "seed": 3}
    assert_same(scorevi.fit(target, **options, workers=2), scorevi.fit(target, **options))


def test_names_and_draws_are_those_of_the_target():
    target = scorevi.examples.eight_schools()
    fit = scorevi.fit(target, max_gradients=200, isolate=True)
    assert fit.target is target
    assert sorted(fit.draws(3)) == ["mu", "tau", "theta"]


def test_what_a_model_prints_is_no_answer(capfd):
    def score(x):
        print("hello")
        os.write(1, b"from below\n")
        return -x

    target = scorevi.from_function(score, 2, batched=False)
    capfd.readouterr()
    fit = scorevi.fit(target, "gsm", max_gradients=10, isolate=True, stop=False)
    shown = capfd.readouterr()
    assert fit.bad_scores.total == 0
    assert shown.out == ""
    assert shown.err.count("from below") == 10


@pytest.mark.slow
def test_sys_exit_in_a_score_is_a_bad_score():
    target = scorevi.from_function(
        lambda x: sys.exit("enough") if x[0] > 1 else -x, 2, batched=False
    )
    fit = scorevi.fit(target, "gsm", max_gradients=40, isolate=True)
    assert fit.bad_scores.counts["raised"] > 0
    assert fit.bad_scores.examples[0].detail == "SystemExit: enough"


@pytest.mark.slow
def test_a_worker_that_is_killed_between_points_is_replaced():
    target = scorevi.from_function(lambda x: -x, 2, batched=False)
    with evaluating(target, True, None, 1) as isolated:
        (worker,) = isolated._workers
        worker._process.kill()
        worker._process.wait()
        evaluation = isolated.evaluate(np.ones((3, 2)))
    np.testing.assert_array_equal(evaluation.score, -1.0)
    assert not evaluation.failures


@pytest.mark.slow
def test_an_interrupted_evaluation_leaves_no_answer_behind(tmp_path):
    """Ctrl-C comes while both workers are at a point; their answers come, if they do, after it."""
    go_on = tmp_path / "go-on"

    def score(x):
        if x[0] > 0:
            (tmp_path / f"at-{os.getpid()}").touch()
            while not go_on.exists():
                time.sleep(0.001)
        return -x

    target = scorevi.from_function(score, 1, batched=False)
    with evaluating(target, True, None, 2) as isolated:
        with (
            InterruptWhen(lambda: len(list(tmp_path.glob("at-*"))) == 2, "two workers at work"),
            pytest.raises(KeyboardInterrupt),
        ):
            isolated.evaluate(np.ones((2, 1)))
        go_on.touch()
        np.testing.assert_array_equal(isolated.evaluate(-np.ones((2, 1))).score, 1.0)


@pytest.mark.slow
def test_ctrl_c_ends_the_fit_and_its_workers(tmp_path):
    def score(x):
        with (tmp_path / f"at-{os.getpid()}").open("a") as scores:
            scores.write("x")
        return -x

    def under_way():
        # Ten scores each: more than the first update takes.
        return sum(path.stat().st_size >= 10 for path in tmp_path.glob("at-*")) == 2

    target = scorevi.from_function(score, 2, batched=False)
    with InterruptWhen(under_way, "two workers at work"):
        fit = scorevi.fit(target, "gsm", max_gradients=10**9, workers=2, stop=False)
    assert fit.status == "interrupted"


def only_in_workers(seen):
    """A Gaussian that hangs at some points, and notes when it is evaluated in this process."""

    def score(x):
        if IN_WORKER not in os.environ:
            seen.append(x)
        elif x[0] > 1.9:
            time.sleep(3600)
        return -x

    def log_density(x):
        return -0.5 * float(x @ x)

    return scorevi.from_function(score, 2, log_density, batched=False)


@pytest.mark.slow
def test_what_comes_after_the_fit_is_isolated_too(tmp_path):
    seen = []
    target = only_in_workers(seen)
    fit = scorevi.fit(target, "gsm", max_gradients=20, seed=1, score_timeout=0.5, stop=False)
    assert fit.target is target
    verdict = fit.check(draws=40, modes=False)
    assert fit.verdict is verdict
    assert "of the draws have no usable score" in verdict.explain()
    fit.error_bars(40)
    assert fit.resample(10, seed=1, proposals=40).theta.shape == (10, 2)
    loaded = scorevi.load(fit.save(tmp_path / "fit.npz"))
    assert loaded.verdict == verdict
    if importlib.util.find_spec("arviz"):
        assert "importance_weight" in fit.to_arviz(20, seed=1).sample_stats
    assert not seen
    assert fit.target is target


@pytest.mark.slow
def test_an_error_after_the_fit_carries_the_fit_itself():
    target = scorevi.from_function(lambda x: -x, 2, lambda x: -0.5 * float(x @ x), batched=False)
    fit = scorevi.fit(target, max_gradients=40, workers=1)
    q = scorevi.Gaussian.from_moments([0.0, 0.0], 0.01 * np.eye(2))
    narrow = dataclasses.replace(fit, q=q)
    with pytest.raises(scorevi.FitError, match="k-hat") as caught:
        narrow.resample(250, seed=1)
    assert caught.value.fit is narrow


class Unloadable:
    dim = 2

    def __reduce__(self):
        return int, ("no number",)

    def score(self, theta):
        return -theta


@pytest.mark.slow
def test_what_cannot_be_sent_is_refused():
    lock = threading.Lock()
    target = scorevi.from_function(lambda x: (lock.locked(), -x)[1], 2, batched=False)
    with pytest.raises(ValueError, match="`target` must be something that can be sent to another"):
        scorevi.fit(target, isolate=True)
    with pytest.raises(ValueError, match="could not be loaded in a worker process: ValueError"):
        scorevi.fit(Unloadable(), workers=2)


def test_workers_do_not_have_workers(monkeypatch):
    monkeypatch.setenv(IN_WORKER, "1")
    with pytest.raises(ValueError, match="put the call of fit under `if __name__"):
        scorevi.fit(scorevi.Gaussian.standard(2), isolate=True)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"workers": 0}, "`workers` must be a whole number >= 1 or None; got 0"),
        ({"workers": "two"}, "`workers` must be a whole number >= 1 or None"),
        ({"score_timeout": 0}, "`score_timeout` must be a positive number; got 0"),
        ({"score_timeout": float("nan")}, "`score_timeout` must be a positive number; got nan"),
    ],
)
def test_wrong_arguments_are_named(options, message):
    with pytest.raises(ValueError, match=message):
        scorevi.fit(scorevi.Gaussian.standard(2), **options)


@pytest.mark.slow
def test_a_checkpoint_and_workers_go_together(tmp_path):
    path = tmp_path / "c"
    target = TARGETS["logistic"]()
    options = {"seed": 1, "workers": 2, "checkpoint": path, "resume": True}
    scorevi.fit(target, "gsm", max_gradients=100, **options)
    fit = scorevi.fit(target, "gsm", max_gradients=300, **options)
    assert_same(fit, scorevi.fit(target, "gsm", max_gradients=300, seed=1, workers=1))


# --- the languages ----------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.jax
def test_jax_in_double_precision():
    jax = pytest.importorskip("jax")
    with jax.enable_x64(True):
        centre = jax.numpy.array([1.0 + 1e-12, 2.0, 3.0])
    target = scorevi.from_jax(lambda x: -0.5 * ((x - centre) ** 2).sum(), 3)
    fit = scorevi.fit(target, max_gradients=100, workers=2, score_timeout=CEILING)
    np.testing.assert_allclose(fit.mean, [1.0 + 1e-12, 2.0, 3.0], rtol=1e-14)
    assert fit.bad_scores.total == 0


@pytest.mark.jax
@pytest.mark.languages
def test_numpyro():
    numpyro = pytest.importorskip("numpyro")

    def model(y):
        mu = numpyro.sample("mu", numpyro.distributions.Normal(0, 5))
        numpyro.sample("y", numpyro.distributions.Normal(mu, 1.0), obs=y)

    target = scorevi.from_numpyro(model, np.array([1.2, 0.7, 2.4]))
    plain = scorevi.fit(target, max_gradients=50)
    fit = scorevi.fit(target, max_gradients=50, isolate=True)
    np.testing.assert_allclose(fit.mean, plain.mean, rtol=1e-12)


@pytest.fixture
def stan_target():
    """Compiled before the test and its time begin."""
    pytest.importorskip("bridgestan")
    from stan_programs import TRANSFORMS

    return scorevi.from_stan(TRANSFORMS, {"n": 0})


@pytest.mark.slow
@SHORT
@pytest.mark.languages
def test_stan(stan_target):
    target = stan_target
    options = {"max_gradients": 200, "seed": 1}
    plain = scorevi.fit(target, **options)
    fit = scorevi.fit(target, **options, workers=2)
    assert_same(fit, plain)
    assert sorted(fit.draws(2)) == sorted(plain.draws(2))


@pytest.mark.slow
@SHORT
@pytest.mark.languages
def test_pymc():
    pm = pytest.importorskip("pymc")
    with pm.Model() as model:
        tau = pm.HalfNormal("tau")
        pm.Normal("y", 0, tau, observed=[1.0, -2.0, 0.5])
    target = scorevi.from_pymc(model)
    plain = scorevi.fit(target, max_gradients=60)
    isolated = scorevi.fit(target, max_gradients=60, isolate=True)
    # Another process compiles it anew, and numba may order sums in another way.
    np.testing.assert_allclose(isolated.q.mean, plain.q.mean, rtol=1e-10)
    np.testing.assert_allclose(isolated.q.factor, plain.q.factor, rtol=1e-10)


# --- the command line -------------------------------------------------------------------------

MODEL = """
import ctypes, os
from pathlib import Path
import scorevi

here = Path(__file__).parent

def score(x):
    if CRASHES and not (here / "crashed").exists():
        (here / "crashed").touch()
        ctypes.string_at(0)
    (here / f"at-{os.getpid()}").touch()
    return -x

target = scorevi.from_function(score, 2, batched=False)
"""


@pytest.mark.slow
def test_the_command_line(tmp_path):
    (tmp_path / "crashing_model.py").write_text(MODEL.replace("CRASHES", "True"))
    result = run(
        tmp_path, "fit", "crashing_model.py:target", "--isolate", "--workers", 2,
        "--score-timeout", CEILING, "--max-gradients", 20, "--json",
    )  # fmt: skip
    assert result.returncode == 0, result.stderr
    assert json.loads(result.stdout)["bad_scores"]["died"] > 0


@pytest.mark.slow
@pytest.mark.parametrize("way", [signal.SIGINT, signal.SIGKILL])
def test_workers_end_with_the_command(tmp_path, way):
    (tmp_path / "calm_model.py").write_text(MODEL.replace("CRASHES", "False"))
    line = ["fit", "calm_model.py:target", "--workers", 2, "--max-gradients", 10**12, "--no-stop"]
    with subprocess.Popen(
        command_line(line),
        cwd=tmp_path,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        wait_until(lambda: len(list(tmp_path.glob("at-*"))) == 2, "two workers at work", process)
        workers = Path(f"/proc/{process.pid}/task/{process.pid}/children").read_text().split()
        assert len(workers) == 2
        process.send_signal(way)
        _, errors = process.communicate(timeout=CEILING)
    if way == signal.SIGINT:
        assert process.returncode == 130
    assert errors == ""
    wait_until_gone(workers)


def test_windows_is_told_at_once(monkeypatch):
    monkeypatch.setattr(sys, "platform", "win32")
    target = scorevi.from_function(np.negative, 2)
    for options in ({"isolate": True}, {"workers": 2}, {"score_timeout": 1.0}):
        with pytest.raises(ValueError, match=r"this is Windows\. Leave them out, or use WSL"):
            scorevi.fit(target, **options)
    assert scorevi.fit(target, max_gradients=20).num_updates > 0
