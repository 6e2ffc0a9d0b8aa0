"""Fits that are killed and go on: to the same bits, or not at all."""

import dataclasses
import json
import os
import random
import signal
import subprocess
import sys
import time
from typing import NamedTuple

import numpy as np
import pytest
from command import command_line, run
from conftest import logistic_regression
from waiting import Clock

import scorevi
from scorevi import Gaussian
from scorevi.engine import stepping
from scorevi.engine.checkpoint import file, keeping
from scorevi.engine.compiled import Loop
from scorevi.examples import random_gaussian, sinh_arcsinh
from scorevi.solvers import SOLVERS

pytestmark = pytest.mark.filterwarnings("ignore::scorevi.FitWarning")

RUNS = {
    **{name: name for name in SOLVERS},
    "auto": "auto",
    "gsm-settle": scorevi.GSM(settle=True),
    "bam-schedule": scorevi.BaM(schedule=lambda t: 10.0),
    "bbvi-rates": scorevi.BBVI(learning_rate=(0.1, 0.01, 1e-3)),
}


class Killed(BaseException):
    """Stands for SIGKILL where a process of its own would take too long."""


@pytest.fixture
def quick(monkeypatch):
    """Writing after every update, without waiting for the disk."""
    monkeypatch.setattr(keeping, "_SHARE", 1e9)
    monkeypatch.setattr(os, "fsync", lambda _: None)


def fit_with_kills(monkeypatch, path, writes, *arguments, **options):
    """Fit, dying right after every so many writes; returns the fit and how often it died."""
    write = keeping.write_arrays
    for kills in range(1000):
        left = next(writes)

        def and_die(*args, **kwargs):
            nonlocal left
            write(*args, **kwargs)
            left -= 1
            if left == 0:
                raise Killed

        with monkeypatch.context() as patch:
            patch.setattr(keeping, "write_arrays", and_die)
            try:
                fit = scorevi.fit(
                    *arguments, checkpoint=path, resume=True, checkpoint_seconds=0, **options
                )
            except Killed:
                continue
        return fit, kills
    raise AssertionError("it never came to an end")


def assert_same(one, two):
    np.testing.assert_array_equal(one.q.mean, two.q.mean)
    theta = one.q.sample(3, seed=0)
    np.testing.assert_array_equal(theta, two.q.sample(3, seed=0))
    np.testing.assert_array_equal(one.q.log_density(theta), two.q.log_density(theta))
    for name in ("num_gradients", "elbo", "fisher", "drift"):
        np.testing.assert_array_equal(getattr(one.trace, name), getattr(two.trace, name))
    assert len(one.trace.seconds) == len(two.trace.seconds)
    assert one.bad_scores.counts == two.bad_scores.counts
    for a, b in zip(one.bad_scores.examples, two.bad_scores.examples, strict=True):
        np.testing.assert_array_equal(a.point, b.point)
        assert (a.cause, a.detail) == (b.cause, b.detail)
    assert one.notes == two.notes
    assert one.num_gradients == two.num_gradients
    assert one.num_updates == two.num_updates
    assert one.status.explain() == two.status.explain()


def some(seed=0, most=40):
    chance = random.Random(seed)
    return iter(lambda: chance.randint(2, most), None)


# --- the same bits ----------------------------------------------------------------------------


@pytest.mark.parametrize("dim", [1, 4, 70])
@pytest.mark.parametrize("name", RUNS)
def test_a_killed_fit_ends_the_same(quick, monkeypatch, tmp_path, name, dim):
    target = sinh_arcsinh(random_gaussian(dim, 10, seed=1), skew=0.2, tail=0.9)
    # To settle begins later, and is a state of its own.
    options = {"max_gradients": 901 if name == "gsm-settle" else 401, "seed": 3}
    whole = scorevi.fit(target, RUNS[name], **options)
    fit, kills = fit_with_kills(monkeypatch, tmp_path / "c", some(), target, RUNS[name], **options)
    assert_same(fit, whole)
    assert kills > 0 or whole.num_updates < 40


@pytest.mark.slow
@pytest.mark.jax
@pytest.mark.parametrize("dim", [3, 70])
@pytest.mark.parametrize("name", ["gsm", "bam", "bbvi", "gsm-settle", "bbvi-rates", "auto"])
def test_a_killed_fit_in_the_compiled_loop_ends_the_same(quick, monkeypatch, tmp_path, name, dim):
    pytest.importorskip("jax")
    from test_compiled import bent

    target = scorevi.from_jax(bent(random_gaussian(dim, 10, seed=1)), dim)
    options = {"max_gradients": 2001, "seed": 3}
    whole = scorevi.fit(target, RUNS[name], **options)
    monkeypatch.setattr(stepping, "_CHUNK_SECONDS", 0.002)
    writes = some(most=10)
    fit, kills = fit_with_kills(monkeypatch, tmp_path / "c", writes, target, RUNS[name], **options)
    assert_same(fit, whole)
    assert kills > 0


def walled(jnp):
    return lambda x: jnp.where(x[0] > 1.5, jnp.nan, -0.5 * (x**2).sum() + 0.1 * jnp.sin(x).sum())


@pytest.mark.slow
@pytest.mark.jax
@pytest.mark.parametrize("seconds", [1e-5, 1e-3, 0.1])
def test_bad_scores_in_the_compiled_loop_are_met_the_same_however_the_chunks_fall(
    quick, monkeypatch, tmp_path, seconds
):
    jax = pytest.importorskip("jax")
    target = scorevi.from_jax(walled(jax.numpy), 3)
    whole = scorevi.fit(target, "gsm", max_gradients=2001, seed=2, stop=False)
    assert whole.bad_scores.total > 20
    assert len(whole.trace.elbo) == whole.num_updates
    monkeypatch.setattr(stepping, "_CHUNK_SECONDS", seconds)
    assert_same(scorevi.fit(target, "gsm", max_gradients=2001, seed=2, stop=False), whole)
    fit, kills = fit_with_kills(
        monkeypatch, tmp_path / "c", some(), target, "gsm", max_gradients=2001, seed=2, stop=False
    )
    assert_same(fit, whole)
    assert kills > 0


@pytest.mark.jax
@pytest.mark.parametrize("seconds", [1e-5, 0.1])
def test_a_loop_that_was_given_up_stays_given_up(quick, monkeypatch, tmp_path, seconds):
    jax = pytest.importorskip("jax")
    call = Loop.__call__

    def raises_at_step_50(loop, state, noise, steps, log_det):
        if state.count + steps > 50:
            raise ArithmeticError("no such place")
        return call(loop, state, noise, steps, log_det)

    monkeypatch.setattr(Loop, "__call__", raises_at_step_50)
    target = scorevi.from_jax(lambda x: -0.5 * (x**2).sum() + 0.1 * jax.numpy.sin(x).sum(), 2)
    whole = scorevi.fit(target, "bbvi", max_gradients=800, stop=False)
    assert any("went on step by step" in note for note in whole.notes)
    monkeypatch.setattr(stepping, "_CHUNK_SECONDS", seconds)
    fit, kills = fit_with_kills(
        monkeypatch, tmp_path / "c", some(), target, "bbvi", max_gradients=800, stop=False
    )
    assert_same(fit, whole)
    assert kills > 0


def half_missing(wall=0.3):
    def score(theta):
        if theta[0] > 1.5:
            raise ArithmeticError("no such place")
        return np.where(theta[0] > wall, np.nan, -theta + 0.1 * np.sin(theta))

    return scorevi.from_function(score, 3, batched=False)


@pytest.mark.parametrize("solver", ["gsm", "auto"])
@pytest.mark.parametrize("initial", [None, np.array([5.0, 0.0, 0.0])])
def test_bad_scores_and_the_search_for_a_start(quick, monkeypatch, tmp_path, solver, initial):
    options = {"max_gradients": 601, "seed": 4, "initial": initial}
    whole = scorevi.fit(half_missing(), solver, **options, stop=False)
    assert whole.bad_scores.total > 20
    fit, _ = fit_with_kills(
        monkeypatch, tmp_path / "c", some(), half_missing(), solver, **options, stop=False
    )
    assert_same(fit, whole)


@pytest.mark.parametrize(
    ("score", "word"),
    [(np.zeros_like, "diverged"), (lambda x: np.where(x > 0.1, np.nan, -x), "bad-scores")],
)
def test_a_fit_that_fails_fails_again(quick, monkeypatch, tmp_path, score, word):
    target = scorevi.from_function(score, 5, batched=True)
    whole = scorevi.fit(target, "gsm", max_gradients=10_000)
    assert whole.status == word
    fit, _ = fit_with_kills(
        monkeypatch, tmp_path / "c", some(), target, "gsm", max_gradients=10_000
    )
    assert_same(fit, whole)
    again = scorevi.fit(target, "gsm", max_gradients=10_000, checkpoint=tmp_path / "c", resume=True)
    assert_same(again, whole)


def test_a_wrong_sign_is_found_out_again(quick, monkeypatch, tmp_path):
    def log_density(x):
        return -0.5 * (x**2).sum(axis=1)

    target = scorevi.from_function(lambda x: x, 3, log_density, batched=True)
    for solver in ("gsm", "auto"):
        whole = scorevi.fit(target, solver)
        assert whole.status == "bad-scores"
        path = tmp_path / solver
        fit, _ = fit_with_kills(monkeypatch, path, some(), target, solver)
        assert_same(fit, whole)
        assert_same(scorevi.fit(target, solver, checkpoint=path, resume=True), whole)


class OwnPart(NamedTuple):
    values: list
    names: dict


@dataclasses.dataclass(frozen=True)
class OwnState:
    q: Gaussian
    part: OwnPart
    scalar: np.float64


@dataclasses.dataclass(frozen=True)
class Own:
    """A solver with a state of every kind that can be kept."""

    batch_size: int = 2
    name = "own"
    compilable = False

    def batch_size_for(self, dim):
        return self.batch_size

    def init(self, q):
        return OwnState(q, OwnPart([1, (True, None)], {"a": np.eye(2, order="F")}), np.float64(0.5))

    def step(self, state, batch):
        part = OwnPart([*state.part.values[:3], "x"], {"a": state.part.names["a"] * 1.01})
        q = Gaussian(state.q.mean + 0.1 * batch.score.mean(axis=0), state.q.factor, 0.0)
        return OwnState(q, part, state.scalar * np.float64(1.1)), None


def test_solvers_of_ones_own(quick, monkeypatch, tmp_path):
    target = logistic_regression()
    whole = scorevi.fit(target, Own(), max_gradients=200)
    fit, kills = fit_with_kills(
        monkeypatch, tmp_path / "c", some(), target, Own(), max_gradients=200
    )
    assert_same(fit, whole)
    assert kills > 0

    @dataclasses.dataclass(frozen=True)
    class Odd(Own):
        def init(self, q):
            return OwnState(q, OwnPart([open], {}), np.float64(0))

    with pytest.raises(ValueError, match=r"`checkpoint` can hold .*; this one's has a builtin"):
        scorevi.fit(target, Odd(), checkpoint=tmp_path / "odd")


# --- real kills -------------------------------------------------------------------------------

SCRIPT = """
import sys, time, warnings
import numpy as np
import scorevi

warnings.simplefilter("ignore", scorevi.FitWarning)
base = scorevi.examples.sinh_arcsinh(scorevi.examples.random_gaussian(70, 10, seed=1), 0.2, 0.9)

def slow(x):
    time.sleep(0.005)
    return base.score(x)

target = scorevi.from_function(slow, 70, base.log_density, batched=True)

def jax_target():
    import jax.numpy as jnp
    return scorevi.from_jax(
        lambda x: -0.5 * (x**2).sum() - 0.1 * (x[1:] * x[:-1]).sum() + 0.3 * jnp.sin(x).sum(), 70)

def fit(name, **options):
    if name == "jax":
        return scorevi.fit(jax_target(), "gsm", max_gradients=60_000, seed=5, stop=False, **options)
    solver = scorevi.BBVI(learning_rate=(0.1, 0.01)) if name == "rates" else "auto"
    return scorevi.fit(target, solver, max_gradients=1500, seed=5, stop=False, **options)

if __name__ == "__main__":
    fit(sys.argv[1], checkpoint="run.ckpt", resume=True, checkpoint_seconds=0.0).save("fit.npz")
"""


# What is killed must not leave half a file in JAX's cache: it reads from there and writes nothing.
READ_ONLY = os.environ | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1e9"}


def run_with_kills(folder, command, chance):
    """Run a command again and again, killing it at random moments, until it comes to its end.

    The moments are counted in checkpoints seen, not in seconds: on a machine of any speed the
    first run is killed before its end, and each run gets further than the one before.
    """
    path = folder / "run.ckpt"

    def written():
        return path.stat().st_mtime_ns if path.exists() else 0

    for kills in range(100):
        with subprocess.Popen(
            command, cwd=folder, stdout=subprocess.DEVNULL, env=READ_ONLY
        ) as process:
            for _ in range(chance.randint(1, 5)):
                before = written()
                while process.poll() is None and written() == before:
                    time.sleep(0.001)
            time.sleep(chance.uniform(0.0, 0.02))
            process.send_signal(signal.SIGKILL)
        if process.returncode == 0:
            return kills
        assert process.returncode == -signal.SIGKILL
    raise AssertionError("it never came to an end")


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "rates", pytest.param("jax", marks=pytest.mark.jax)])
def test_sigkill_at_random_moments(tmp_path, monkeypatch, name):
    if name == "jax":
        pytest.importorskip("jax")
    (tmp_path / "killed_script.py").write_text(SCRIPT)
    monkeypatch.syspath_prepend(tmp_path)
    import killed_script

    whole = killed_script.fit(name)
    kills = run_with_kills(
        tmp_path, [sys.executable, "killed_script.py", name], random.Random(name)
    )
    assert kills > 0
    assert_same(scorevi.load(tmp_path / "fit.npz"), whole)
    del sys.modules["killed_script"]


@pytest.mark.slow
def test_sigkill_on_the_command_line(tmp_path):
    (tmp_path / "killed_model.py").write_text(SCRIPT)
    command = ["fit", "killed_model.py:target", "--max-gradients", 500]
    again = ["--checkpoint", "run.ckpt", "--resume", "--checkpoint-seconds", 0]
    line = command_line([*command, *again, "--out", "fit.npz"])
    assert run_with_kills(tmp_path, line, random.Random(1)) > 0
    assert run(tmp_path, *command, "--out", "whole.npz").returncode == 0
    assert_same(scorevi.load(tmp_path / "fit.npz"), scorevi.load(tmp_path / "whole.npz"))


# --- going on ---------------------------------------------------------------------------------


@pytest.mark.parametrize("solver", ["gsm", "bam", RUNS["bbvi-rates"]])
def test_a_finished_fit_goes_on_with_a_wider_limit(tmp_path, solver):
    target = half_missing(1.0)
    path = tmp_path / "c"
    short = scorevi.fit(target, solver, max_gradients=300, checkpoint=path, stop=False)
    same = scorevi.fit(target, solver, max_gradients=300, checkpoint=path, resume=True, stop=False)
    assert_same(same, short)
    longer = scorevi.fit(
        target, solver, max_gradients=900, checkpoint=path, resume=True, stop=False
    )
    assert_same(longer, scorevi.fit(target, solver, max_gradients=900, stop=False))
    narrower = scorevi.fit(
        target, solver, max_gradients=30, checkpoint=path, resume=True, stop=False
    )
    assert narrower.status == "budget"
    assert narrower.num_gradients >= short.num_gradients


def test_the_automatic_fit_goes_on_too(tmp_path):
    target = logistic_regression()
    path = tmp_path / "c"
    short = scorevi.fit(target, max_gradients=300, checkpoint=path, stop=False)
    longer = scorevi.fit(target, max_gradients=1000, checkpoint=path, resume=True, stop=False)
    assert longer.num_gradients == 1000
    np.testing.assert_array_equal(longer.trace.elbo[: short.num_updates - 1], short.trace.elbo[:-1])


def test_ctrl_c_loses_nothing(tmp_path):
    base = logistic_regression()
    calls = 0

    def score(theta):
        nonlocal calls
        calls += 1
        if calls == 60:
            raise KeyboardInterrupt
        return base.score(theta)

    target = scorevi.from_function(score, 5, base.log_density, batched=True)
    path = tmp_path / "c"
    fit = scorevi.fit(target, "gsm", max_gradients=400, checkpoint=path)
    assert fit.status == "interrupted"
    assert "resume=True (--resume) goes on from the checkpoint" in fit.status.advice
    on = scorevi.fit(target, "gsm", max_gradients=400, checkpoint=path, resume=True)
    assert_same(on, scorevi.fit(base, "gsm", max_gradients=400))


def test_time_counts_over_all_processes(tmp_path, monkeypatch):
    clock = Clock()
    monkeypatch.setattr(time, "perf_counter", clock)

    def score(theta):
        clock.pass_by(0.01)
        return -theta

    target = scorevi.from_function(score, 2, batched=True)
    options = {"max_gradients": None, "checkpoint": tmp_path / "c", "resume": True}
    fit = scorevi.fit(target, "gsm", max_seconds=0.3, **options, stop=False)
    assert fit.status == "time"
    again = scorevi.fit(target, "gsm", max_seconds=0.3, **options, stop=False)
    assert again.status == "time"
    assert again.num_updates <= fit.num_updates + 1
    more = scorevi.fit(target, "gsm", max_seconds=0.6, **options, stop=False)
    assert more.num_updates > fit.num_updates
    assert more.seconds > 0.6
    assert (np.diff(more.trace.seconds) > 0).all()


def test_without_resume_it_begins_anew_and_without_a_file_at_the_beginning(tmp_path):
    path = tmp_path / "c"
    first = scorevi.fit(Gaussian.standard(2), "gsm", checkpoint=path, resume=True)
    other = scorevi.fit(Gaussian.standard(3), "bam", checkpoint=path)
    assert other.dim == 3
    assert_same(scorevi.fit(Gaussian.standard(3), "bam", checkpoint=path, resume=True), other)
    assert first.dim == 2
    assert [file.name for file in tmp_path.iterdir()] == ["c"]


def test_a_seed_that_was_drawn_is_kept(tmp_path):
    path = tmp_path / "c"
    one = scorevi.fit(logistic_regression(), seed=None, checkpoint=path)
    two = scorevi.fit(logistic_regression(), seed=None, checkpoint=path, resume=True)
    assert two.seed == one.seed
    assert_same(one, two)


# --- refusals ---------------------------------------------------------------------------------


def shifted(by):
    return scorevi.from_function(lambda x: by - x, 2, batched=True)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"target": Gaussian.standard(3)}, "`dimension` is 2 there and 3 here"),
        (
            {"target": scorevi.from_function(lambda x: -x, 2, names=["a", "b"])},
            r"`parameters` is \[\['theta', \[2\]\]\] there and \[\['a'",
        ),
        ({"target": shifted(0.5)}, "the target's score at a fixed point is not what it was"),
        ({"target": shifted(1e-6)}, "the model or its data have changed"),
        (
            {"target": scorevi.from_function(lambda x: -x, 2, lambda x: 7 * x[:, 0], batched=True)},
            "the target's log density at a fixed point",
        ),
        ({"solver": "bam"}, r"`solver` is GSM\(batch_size=2, settle=False\) there and BaM"),
        ({"batch_size": 3}, r"`solver` is GSM\(batch_size=2, .* there and GSM\(batch_size=3"),
        ({"seed": 1}, "`seed` is 0 there and 1 here"),
        ({"initial": [1.0, 2.0]}, "`initial` is None there and a point"),
        ({"initial": "auto"}, "`initial` is None there and auto here"),
        ({"initial": Gaussian.standard(2)}, "`initial` is None there and a Gaussian"),
    ],
)
def test_another_fit_is_refused(tmp_path, change, message):
    path = tmp_path / "c"
    options = {"target": shifted(0.0), "solver": "gsm", "max_gradients": 50, "checkpoint": path}
    scorevi.fit(**options)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=message) as caught:
        scorevi.fit(**{**options, **change}, resume=True)
    assert str(caught.value).startswith("`checkpoint` must be of this same fit to go on from")
    assert "leave `resume` out to begin anew" in str(caught.value)
    assert path.read_bytes() == before


def test_starts_at_other_points_are_told_apart(tmp_path):
    options = {"checkpoint": tmp_path / "c", "max_gradients": 50}
    scorevi.fit(shifted(0.0), "gsm", initial=[1.0, 2.0], **options)
    scorevi.fit(shifted(0.0), "gsm", initial=np.array([1, 2]), resume=True, **options)
    with pytest.raises(ValueError, match="`initial` is a point"):
        scorevi.fit(shifted(0.0), "gsm", initial=[1.0, 2.5], resume=True, **options)


def test_another_version_is_refused(tmp_path, monkeypatch):
    path = tmp_path / "c"
    scorevi.fit(shifted(0.0), checkpoint=path)
    monkeypatch.setattr(file, "__version__", "99.0")
    with pytest.raises(ValueError, match=r"must be written by this version of scorevi.*is 99\.0"):
        scorevi.fit(shifted(0.0), checkpoint=path, resume=True)
    monkeypatch.undo()
    monkeypatch.setattr(file, "FORMAT", "scorevi-checkpoint-99")
    with pytest.raises(ValueError, match=r"\(scorevi-checkpoint-1\), this is"):
        scorevi.fit(shifted(0.0), checkpoint=path, resume=True)


def test_damage_is_refused_or_does_not_matter(quick, tmp_path):
    path = tmp_path / "c"
    options = {"max_gradients": 60, "checkpoint": path, "checkpoint_seconds": 1e9}
    target = half_missing(1.0)
    whole = scorevi.fit(target, "gsm", **options)
    content = path.read_bytes()
    chance = random.Random(0)
    refused = 0
    for trial in range(150):
        damaged = bytearray(content)
        if trial % 3 == 0:
            del damaged[chance.randrange(len(content)) :]
        else:
            for _ in range(chance.choice([1, 1, 8])):
                damaged[chance.randrange(len(content))] ^= 1 << chance.randrange(8)
        path.write_bytes(damaged)
        try:
            fit = scorevi.fit(target, "gsm", **options, resume=True)
        except ValueError as error:
            assert str(error).startswith("`checkpoint` must be a file that a fit wrote; ")  # noqa: PT017
            refused += 1
        else:
            assert_same(fit, whole)
    assert refused > 100


@pytest.mark.parametrize("content", [b"", b"hello", b"PK\x03\x04"])
def test_what_is_no_checkpoint_is_refused(tmp_path, content):
    path = tmp_path / "c"
    path.write_bytes(content)
    with pytest.raises(ValueError, match="`checkpoint` must be a file that a fit wrote"):
        scorevi.fit(shifted(0.0), checkpoint=path, resume=True)
    scorevi.fit(shifted(0.0), max_gradients=30).save(tmp_path / "fit.npz")
    with pytest.raises(ValueError, match="`checkpoint` must be"):
        scorevi.fit(shifted(0.0), checkpoint=tmp_path / "fit.npz", resume=True)


def test_wrong_arguments_are_named(tmp_path):
    target = shifted(0.0)
    for options, message in (
        ({"resume": True}, "`resume` needs `checkpoint`"),
        ({"checkpoint": tmp_path / "no" / "c"}, "`checkpoint` must lie in an existing folder"),
        ({"checkpoint": tmp_path / "c", "checkpoint_seconds": -1}, "must be a number >= 0; got -1"),
        ({"checkpoint": tmp_path / "c", "checkpoint_seconds": "x"}, "must be a number >= 0"),
        ({"checkpoint": tmp_path}, "`checkpoint` must be a file to write; there is a folder"),
        ({"checkpoint": tmp_path, "resume": True}, "`checkpoint` must be a file to write"),
        ({"checkpoint": "/proc/c"}, "`checkpoint` could not be written"),
    ):
        with pytest.raises(ValueError, match=message):
            scorevi.fit(target, **options)


def test_a_disk_that_fills_up_later_does_not_end_the_fit(monkeypatch, tmp_path):
    write = keeping.write_arrays
    calls = 0

    def full(*args, **kwargs):
        nonlocal calls
        calls += 1
        if calls > 1:
            raise OSError(28, "No space left on device")
        write(*args, **kwargs)

    monkeypatch.setattr(keeping, "write_arrays", full)
    fit = scorevi.fit(
        shifted(0.0),
        "gsm",
        max_gradients=40,
        checkpoint=tmp_path / "c",
        checkpoint_seconds=0,
        stop=False,
    )
    assert fit.status == "budget"
    assert fit.notes == (
        f"the checkpoint could not be written: {tmp_path / 'c'}: No space left on device. "
        "The fit went on without.",
    )


def test_the_command_line_refuses_in_one_line(tmp_path):
    (tmp_path / "model.py").write_text("import scorevi\ntarget = scorevi.Gaussian.standard(2)\n")
    command = ["fit", "model.py:target", "--checkpoint", "c"]
    first = run(tmp_path, *command, "--json")
    assert json.loads(first.stdout)["status"] == "converged"
    second = run(tmp_path, *command, "--seed", "1", "--resume")
    assert second.returncode == 2
    assert second.stderr.startswith("scorevi: error: --checkpoint must be of this same fit")
    assert "`--seed`" not in second.stderr
    assert "leave --resume out to begin anew" in second.stderr
    assert len(second.stderr.splitlines()) == 1
