"""Fits in many dimensions: files, checkpoints, memory and verdicts, without a D × D array."""

import tracemalloc

import numpy as np
import pytest
from conftest import SHORT

import scorevi
from scorevi import LowRank, LowRankReplay
from scorevi.base import memory
from scorevi.base.memory import available_bytes, in_words
from scorevi.engine.checkpoint import keeping
from scorevi.solvers import room
from scorevi.solvers.room import bytes_needed


def factor_model(dim, rank=3, seed=0):
    rng = np.random.default_rng(seed)
    return LowRank.from_factors(
        rng.normal(size=dim), rng.uniform(0.5, 2.0, dim), rng.normal(size=(dim, rank))
    )


def random_walk(steps):
    """Standard normal steps from zero: a precision of three diagonals."""

    def differences(theta):
        return np.diff(theta, axis=1, prepend=0.0)

    def score(theta):
        steps = differences(theta)
        return np.diff(steps, axis=1, append=0.0)

    return scorevi.from_function(
        score, steps, lambda theta: -0.5 * np.vecdot(differences(theta), differences(theta))
    )


@SHORT
@pytest.mark.parametrize("family", ["low-rank", "diagonal"])
def test_nothing_as_large_as_a_matrix_is_made(family, tmp_path):
    dim = 6000  # a matrix would be 288 MB
    p = factor_model(dim)
    scorevi.fit(factor_model(5), family=family).check()  # imports what takes room of its own
    tracemalloc.start()
    fit = scorevi.fit(p, family=family, max_gradients=150)
    verdict = fit.check(draws=40)
    fit.error_bars(draws=30)
    assert len(fit.draws(10, seed=0)["theta"]) == 10
    assert len(fit.summary) == dim
    loaded = scorevi.load(fit.save(tmp_path / "fit"), p)
    assert str(fit)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < 8 * dim**2
    np.testing.assert_array_equal(loaded.q.scale, fit.q.scale)
    with pytest.raises(ValueError, match="`covariance` is formed up to 4096 dimensions"):
        fit.covariance  # noqa: B018
    assert (verdict == "pass") == (family == "low-rank")


def test_a_file_holds_it_to_the_bit(tmp_path):
    fit = scorevi.fit(factor_model(50), family="low-rank", rank=3)
    loaded = scorevi.load(fit.save(tmp_path / "fit"))
    for name in ("mean", "scale", "directions", "widths"):
        np.testing.assert_array_equal(getattr(loaded.q, name), getattr(fit.q, name))
    assert loaded.q.log_det == fit.q.log_det
    assert "a diagonal and 3 directions" in str(loaded)
    np.testing.assert_array_equal(loaded.sample(3, seed=0), fit.sample(3, seed=0))


def test_a_damaged_file_is_refused(tmp_path):
    fit = scorevi.fit(factor_model(5), family="diagonal")
    path = fit.save(tmp_path / "fit")
    with np.load(path) as data:
        arrays = dict(data)
    arrays["q_1"] = arrays["q_1"][:-1]
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match="its mean, scale and directions do not make a Gaussian"):
        scorevi.load(path)


class Killed(BaseException):
    pass


@SHORT
def test_a_killed_fit_goes_on_to_the_same_bits(tmp_path, monkeypatch):
    target = scorevi.examples.logistic_regression(30, 200, correlation=0.3)
    options = {"family": "low-rank", "rank": 3, "max_gradients": 700, "seed": 4}
    whole = scorevi.fit(target, **options)
    path, written = tmp_path / "run.ckpt", []
    write = keeping.write_arrays

    def and_die(*arguments, **others):
        write(*arguments, **others)
        written.append(1)
        if len(written) % 5 == 0:
            raise Killed

    monkeypatch.setattr(keeping, "_SHARE", 1e9)
    monkeypatch.setattr(keeping, "write_arrays", and_die)
    fit = None
    while fit is None:
        try:
            fit = scorevi.fit(
                target, **options, checkpoint=path, resume=True, checkpoint_seconds=0.0
            )
        except Killed:
            continue
    assert len(written) > 10
    for name in ("mean", "scale", "directions", "widths"):
        np.testing.assert_array_equal(getattr(fit.q, name), getattr(whole.q, name))
    assert fit.status.explain() == whole.status.explain()
    assert fit.num_gradients == whole.num_gradients


@pytest.mark.parametrize("family", ["low-rank", "diagonal"])
def test_the_verdict_on_correlations_that_the_family_cannot_hold(family):
    fit = scorevi.fit(random_walk(500), family=family, max_gradients=1000)
    verdict = fit.check(modes=False)
    assert verdict != "pass"
    assert "a larger rank" in verdict.explain()


def test_what_would_fit_is_said_and_taken(monkeypatch):
    p = factor_model(3000)
    message = (
        r"`family` must be 'low-rank' or 'diagonal' here: 'gaussian' with the solver 'replay' "
        r"would take about 3.22 GiB in 3000 dimensions, and 128 MiB are free; family='low-rank' "
        r"takes .* MiB with rank=16"
    )
    monkeypatch.setattr(room, "available_bytes", lambda: 2**27)
    with pytest.raises(ValueError, match=message):
        scorevi.fit(p, family="gaussian")
    with pytest.raises(ValueError, match="`family` must be 'low-rank' or 'diagonal' here: 'mixtu"):
        scorevi.fit(p, family="mixture")
    fit = scorevi.fit(p, family="auto")
    assert isinstance(fit.q, LowRank)
    assert "a full Gaussian would take about" in fit.notes[0]
    assert fit.q.kl(p) < 1e-6
    step = next(scorevi.iterate(p, family="auto"))
    assert isinstance(step.q, LowRank)
    monkeypatch.setattr(room, "available_bytes", lambda: 2**20)
    with pytest.raises(ValueError, match="`rank` 16 would take about"):
        scorevi.fit(p, family="low-rank")
    monkeypatch.setattr(room, "available_bytes", lambda: None)
    assert isinstance(scorevi.fit(factor_model(5), family="auto").q, scorevi.Gaussian)


def test_the_estimate_holds():
    dim = 3000
    p = factor_model(dim)
    tracemalloc.start()
    scorevi.fit(p, LowRankReplay(4), initial="auto")
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert peak < bytes_needed(LowRankReplay(4), dim)


def test_free_memory(monkeypatch, tmp_path):
    assert available_bytes() > 2**20
    path = tmp_path / "limit"
    path.write_text("1048576\n")
    monkeypatch.setattr(memory, "_LIMITS", (tmp_path / "none", path))
    assert available_bytes() == 2**20
    path.write_text("max\n")
    monkeypatch.setattr(memory, "_MEMINFO", tmp_path / "none")
    assert available_bytes() > 2**20
    assert in_words(2**31) == "2 GiB"
    assert in_words(2**21) == "2 MiB"
