"""``scorevi.sample`` with chains in compiled code: the same bits again, within its limits."""

import contextlib
import pickle
import signal
import threading

import numpy as np
import pytest

import scorevi
from scorevi.base.status import FitWarning
from scorevi.sampling import choosing, compiled_chains
from scorevi.sampling.choosing import sampler_for
from scorevi.sampling.keeping import Keeper
from scorevi.targets.isolated import evaluating

jax = pytest.importorskip("jax")
pytest.importorskip("blackjax")
pytest.importorskip("nutpie")

pytestmark = [pytest.mark.jax, pytest.mark.slow]


@pytest.fixture(scope="module")
def target():
    return scorevi.from_jax(lambda theta: -jax.numpy.cosh(theta).sum(), 3)


def killed_after(rounds, monkeypatch):
    """Have the process be killed, as it were, after so many writings."""
    written = [0]
    write = Keeper.keep

    def keep(self, kept, *, now=False):
        write(self, kept, now=now)
        written[0] += 1
        if written[0] == rounds:
            raise SystemExit

    monkeypatch.setattr(Keeper, "keep", keep)


@pytest.mark.parametrize("rounds", [1, 3, 7])
def test_a_killed_sample_goes_on_to_the_same_bits(rounds, target, tmp_path, monkeypatch):
    options = {"ess": 500, "method": "nuts", "seed": 3, "family": "gaussian"}
    whole = scorevi.sample(target, **options)
    assert whole.sampler == "blackjax"
    kept = options | {"checkpoint": tmp_path / "run.ckpt", "checkpoint_seconds": 0.0}
    with monkeypatch.context() as patch:
        killed_after(rounds, patch)
        with contextlib.suppress(SystemExit):
            scorevi.sample(target, **kept)
    with monkeypatch.context() as patch:
        patch.setattr(choosing, "_has_blackjax", lambda: False)
        if rounds > 1:  # by then there are chains
            with pytest.raises(ValueError, match=r"ran by blackjax, and here .* run by nutpie"):
                scorevi.sample(target, **kept, resume=True)
    again = scorevi.sample(target, **kept, resume=True)
    np.testing.assert_array_equal(again.theta, whole.theta)
    assert again.gradients == whole.gradients
    assert again.check() == "pass"


def test_ctrl_c_keeps_what_there_is(target, monkeypatch):
    before = set(threading.enumerate())
    advance_one = compiled_chains._Chain.advance
    turns = [0]

    def interrupting(self, *arguments):
        turns[0] += 1
        if self.drawn >= 200 and turns[0] > 0:
            turns[0] = -(10**9)
            signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
        advance_one(self, *arguments)

    monkeypatch.setattr(compiled_chains._Chain, "advance", interrupting)
    monkeypatch.setattr(compiled_chains, "_TURN", -1.0)  # many turns, so that it is soon over
    sample = scorevi.sample(target, 20_000, ess=15_000, method="nuts")
    assert sample.status == "interrupted"
    assert sample.size >= 800
    assert sample.check() == "warn", sample.check().explain()
    assert np.abs(sample.flat.mean(axis=0)).max() < 0.3
    assert set(threading.enumerate()) <= before


def test_budgets_of_a_whole_sample(target):
    with pytest.warns(FitWarning, match="Raise max_gradients"):
        sample = scorevi.sample(target, 40_000, ess=30_000, max_gradients=5003, method="nuts")
    assert sample.num_gradients <= 5003
    assert sample.num_gradients > 4900
    assert sample.size > 200


def test_which_sampler(target, monkeypatch):
    assert sampler_for(target) == "blackjax"
    with evaluating(target, False, None, 1) as isolated:
        assert sampler_for(isolated) == "nutpie"
    assert sampler_for(scorevi.examples.eight_schools()) == "nutpie"
    for version, found in (("1.6.2", "nutpie"), ("1.7", "blackjax"), ("2.0.1", "nutpie")):
        monkeypatch.setattr("importlib.metadata.version", lambda _, v=version: v)
        assert sampler_for(target) == found


def test_a_sample_says_by_which(target, tmp_path):
    sample = scorevi.sample(target, 300, ess=100, method="nuts")
    assert sample.check() == "pass", sample.check().explain()
    assert "by NUTS in the fit's coordinates (blackjax)" in repr(sample)
    assert scorevi.load(sample.save(tmp_path / "s.npz")).sampler == "blackjax"
    assert pickle.loads(pickle.dumps(sample)).sampler == "blackjax"
    assert scorevi.sample(target, 300, ess=100, method="importance").sampler == ""
