"""Many fits: on disk as they finish, never computed twice, whoever fails or dies."""

import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import scorevi

pytest.importorskip("distributed")

from clusters import DIM, children, family, is_alive, kill, likelihood, observations, worker_pids
from waiting import wait_until

from scorevi.base.cluster import connected

pytestmark = [pytest.mark.dask, pytest.mark.slow]


@pytest.fixture(scope="module")
def client():
    with connected(None, 2) as found:
        yield found


def noting(folder):
    """Return a factory that notes which targets it made, and in which process."""

    def factory(seed):
        (folder / f"{seed}-{os.getpid()}-{os.urandom(4).hex()}").touch()
        return likelihood(*observations(seed, rows=60))

    return factory


def made(folder):
    """Return the seeds of the targets that were made, in order."""
    return sorted(int(path.name.partition("-")[0]) for path in folder.iterdir())


@pytest.fixture
def notes(tmp_path):
    folder = tmp_path / "notes"
    folder.mkdir()
    return folder


def test_each_is_what_a_fit_of_its_own_is(client, notes):
    factory = noting(notes)
    fits = scorevi.fit_many(factory, seeds=6, client=client, check=True, tolerance=0.05)
    assert len(fits) == 6
    assert not fits.failures
    for seed, fit in fits.made():
        alone = scorevi.fit(factory(seed), seed=seed, tolerance=0.05)
        assert np.array_equal(fit.mean, alone.mean)
        assert fit.verdict == "pass"
    assert repr(fits) == "<6 fits: 6 made>"


def test_what_is_on_disk_is_not_computed_again(client, notes, tmp_path):
    factory, out = noting(notes), tmp_path / "fits"
    first = scorevi.fit_many(factory, seeds=3, client=client, out=out)
    assert made(notes) == [0, 1, 2]
    assert first.num_computed == 3
    again = scorevi.fit_many(factory, seeds=5, client=client, out=out)
    assert made(notes) == [0, 1, 2, 3, 4]
    assert again.num_computed == 2
    assert np.array_equal(again[1].mean, first[1].mean)
    assert scorevi.load(out / "seed-4.npz").seed == 4
    with pytest.raises(ValueError, match=r"of others: `options` is not what it was"):
        scorevi.fit_many(factory, seeds=5, client=client, out=out, solver="gsm")
    with pytest.raises(ValueError, match=r"of others: `targets` is not what it was"):
        scorevi.fit_many(lambda seed: factory(seed), seeds=5, client=client, out=out)


def test_a_list_of_targets(client, tmp_path):
    targets = [likelihood(*observations(number)) for number in range(3)]
    out = tmp_path / "fits"
    fits = scorevi.fit_many(targets[:2], client=client, out=out)
    assert fits.seeds == (0, 1)
    assert fits[1].target.dim == DIM
    assert fits[1].check(modes=False) == "pass"
    assert scorevi.fit_many(targets, client=client, out=out).num_computed == 1
    with pytest.raises(ValueError, match=r"of others: `targets` is not what it was"):
        scorevi.fit_many(targets[::-1], client=client, out=out)


def test_one_that_fails_does_not_touch_the_others(client, tmp_path):
    def factory(seed):
        if seed == 1:
            raise KeyError("no data for 1")
        if seed == 2:
            return scorevi.from_function(lambda x: np.full_like(x, np.nan), 2)
        return scorevi.Gaussian.standard(2)

    out = tmp_path / "fits"
    fits = scorevi.fit_many(factory, seeds=4, client=client, out=out)
    assert fits.failures == {1: "KeyError: 'no data for 1'"}
    assert fits[2].status == "bad-scores"  # a fit that ended badly is one that was made
    with pytest.raises(scorevi.FitError, match=r"Fit 1, seed 1: KeyError: 'no data for 1'"):
        fits[1]
    assert [seed for seed, _ in fits.made()] == [0, 2, 3]
    # Who failed is tried again.
    assert scorevi.fit_many(factory, seeds=4, client=client, out=out).failures == fits.failures


def test_a_worker_killed_in_the_middle_loses_nothing(client, notes, tmp_path):
    factory = noting(notes)
    pids = worker_pids(client)

    def deadly(seed):
        if seed == 3 and not (notes / "3-died").exists():
            (notes / "3-died").touch()
            os.kill(os.getpid(), 9)
        return factory(seed)

    fits = scorevi.fit_many(deadly, seeds=8, client=client, out=tmp_path / "fits")
    assert not fits.failures
    assert (notes / "3-died").exists()
    assert not set(pids) <= set(worker_pids(client))
    for seed, fit in fits.made():
        assert np.array_equal(fit.mean, scorevi.fit(factory(seed), seed=seed).mean)


def test_one_that_kills_its_worker_each_time_is_given_up_alone(client):
    def deadly(seed):
        if seed == 1:
            os.kill(os.getpid(), 9)
        return scorevi.Gaussian.standard(2)

    fits = scorevi.fit_many(deadly, seeds=3, client=client)
    assert list(fits.failures) == [1]
    assert fits.failures[1].startswith("KilledWorker")
    assert [seed for seed, _ in fits.made()] == [0, 2]


SCRIPT = """
import sys
from pathlib import Path
sys.path.insert(0, sys.argv[1])
import scorevi
from test_many import noting

scorevi.fit_many(noting(Path("notes").resolve()), seeds=400, processes=2, out="fits")
print("all")
"""


def test_a_script_that_is_killed_goes_on_and_leaves_no_process_behind(notes, tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    process = subprocess.Popen(
        [sys.executable, "script.py", str(Path(__file__).parent)],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    fits = tmp_path / "fits"
    with process:
        wait_until(lambda: len(list(fits.glob("seed-*"))) >= 8, "some fits", process)
        begun = family([process.pid])
        kill(process.pid)
    wait_until(lambda: not any(map(is_alive, begun)), "the cluster to end")
    done = sorted(int(path.stem.partition("-")[2]) for path in fits.glob("seed-*.npz"))
    assert 8 <= len(done) < 400
    before, ours = made(notes), children()
    found = scorevi.fit_many(noting(notes), seeds=20, processes=2, out=fits)
    assert children() == ours
    again = [seed for seed in done if made(notes).count(seed) > before.count(seed)]
    assert again == []
    assert found.num_computed == 20 - sum(seed < 20 for seed in done)
    assert not found.failures


@pytest.mark.jax
def test_a_log_density_of_data_is_compiled_once_in_each_process(client, notes):
    pytest.importorskip("jax")
    fits = scorevi.fit_many(_traced(notes), seeds=12, client=client)
    assert not fits.failures
    for seed, fit in fits.made():
        np.testing.assert_allclose(fit.mean, seed + np.arange(3.0), atol=1e-8)
    told = [tuple(map(int, path.name.split("-"))) for path in notes.iterdir()]
    assert len(told) == 12
    for process in {pid for pid, _, _ in told}:
        traces = [count for pid, _, count in sorted(told) if pid == process]
        # To compile is to trace. After the first fit, each target is traced for its shape alone.
        assert np.diff(traces)[1:].tolist() == [1] * (len(traces) - 2)


def _traced(folder):
    """Return a factory that notes how often its log density has been traced in its process."""
    traced, targets = [], []

    def log_density(theta, data):
        traced.append(1)
        return -0.5 * ((theta - data["mean"]) ** 2).sum()

    def factory(seed):
        (folder / f"{os.getpid()}-{len(targets)}-{len(traced)}").touch()
        targets.append(seed)
        return scorevi.from_jax(log_density, 3, data={"mean": seed + np.arange(3.0)})

    return factory


@pytest.mark.jax
def test_restarts_as_tasks(client):
    pytest.importorskip("jax")
    target = likelihood(*observations(0))
    fit = scorevi.fit(target, seed=3, restarts=3, client=client)
    here = scorevi.fit(target, seed=3, restarts=3)
    assert len(fit.restarts) == 3
    assert [one.seed for one in fit.restarts] == [one.seed for one in here.restarts]
    assert np.array_equal(fit.mean, here.mean)
    assert fit.target is target
    assert fit.check(modes=False) == "pass"


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"seeds": None}, "`seeds` must say how many fits to make"),
        ({"seeds": [1, 1]}, "`seeds` must be distinct"),
        ({"seeds": [-1]}, "`seeds` must be"),
        ({"seeds": 2, "checkpoint": "a"}, "`checkpoint` is no option of many fits"),
        ({"seeds": 2, "client": 3}, "`client` must be a distributed.Client"),
        ({"seeds": 2, "client": "tcp://a:1", "processes": 2}, "`processes` must be left out"),
        ({"seeds": 2, "processes": 0}, "`processes` must be"),
    ],
)
def test_what_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        scorevi.fit_many(lambda seed: None, **arguments)


def test_what_cannot_be_sent():
    lock = __import__("threading").Lock()
    with pytest.raises(ValueError, match=r"pickling it raised TypeError: cannot pickle"):
        scorevi.fit_many(lambda seed: lock, seeds=2)
    with pytest.raises(ValueError, match=r"one for each of 2 targets; got 3"):
        scorevi.fit_many([scorevi.Gaussian.standard(1)] * 2, seeds=3)
