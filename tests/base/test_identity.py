"""Solvers by their settings: told apart where they differ, known again in another process."""

import dataclasses
import functools
import itertools
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import scorevi
from scorevi import BBVI, GSM, BaM, Gaussian, Replay
from scorevi.base.identity import identify


def constant(value):
    return lambda t: value


class Slope:
    def __init__(self, by):
        self.by = by

    def __call__(self, t):
        return 1.0 + self.by * t

    def method(self, t):
        return 2.0 + self.by * t


class Plain:
    """A solver's settings without a repr."""

    def __init__(self, rate, how=None):
        self.rate, self.how = rate, how


@dataclasses.dataclass(frozen=True)
class Own:
    metric: Callable[[Any], Any]
    start: np.ndarray | None = None


def norm(scale):
    return lambda theta, other: scale * float(np.linalg.norm(theta - other))


DIFFERENT = [
    BaM(),
    BaM(batch_size=4),
    BaM(schedule=10.0),
    BaM(schedule=constant(10.0)),
    BaM(schedule=constant(20.0)),
    BaM(schedule=lambda t: 10.0 / (1 + t)),
    BaM(schedule=lambda t: 10.0 / (1 + t) if t < 1000 else 1e-3),
    BaM(schedule=functools.partial(lambda rate, t: rate / (1 + t), 3.0)),
    BaM(schedule=functools.partial(lambda rate, t: rate / (1 + t), 4.0)),
    BaM(schedule=Slope(1.0)),
    BaM(schedule=Slope(2.0)),
    BaM(schedule=Slope(1.0).method),
    BaM(schedule=[3.0, 2.0, 1.0].__getitem__),
    BaM(schedule=[3.0, 2.0, 2.0].__getitem__),
    BBVI(),
    BBVI(learning_rate=(0.1, 0.01)),
    GSM(),
    Replay(),
    Plain(1.0),
    Plain(2.0),
    Plain(1.0, norm(1.0)),
    Plain(1.0, norm(2.0)),
    Own(norm(1.0)),
    Own(norm(2.0)),
    Own(functools.partial(norm(1.0), other=1.0)),
    Own(functools.partial(norm(1.0), other=2.0)),
    Own(np.linalg.norm),
    Own(np.linalg.det),
    Own(np.linalg.det, np.arange(10_000.0)),
    Own(np.linalg.det, np.arange(10_000.0) + (np.arange(10_000) == 5_000)),
]


@pytest.mark.filterwarnings("error")
def test_other_settings_have_another_name():
    named = [identify(solver) for solver in DIFFERENT]
    for one, two in itertools.combinations(range(len(named)), 2):
        assert named[one] != named[two], (one, two)
    assert all(len(name) < 200 and "0x" not in name for name in named)


def test_the_same_settings_have_the_same_name():
    for one, two in (
        (BaM(schedule=constant(10.0)), BaM(schedule=lambda step: 10)),
        (BaM(schedule=lambda t: 8.0 / (1 + t)), BaM(schedule=lambda t: 8.0 / (t + 1))),
        (Own(norm(1.0)), Own(norm(1.0))),
        (Plain(1.0, norm(1.0)), Plain(1.0, norm(1.0))),
    ):
        assert identify(one) == identify(two)
    assert identify(GSM(batch_size=3)) == repr(GSM(batch_size=3))


def test_what_holds_itself_comes_to_an_end():
    solver = Plain(1.0)
    solver.how = solver
    assert identify(solver) == "Plain(rate=1.0, how=...)"


PRINT = "import test_identity as t; print(*map(t.identify, t.DIFFERENT), sep='\\n')"


@pytest.mark.slow
def test_names_are_the_same_in_another_process():
    paths = repr(sys.path)
    command = [sys.executable, "-c", f"import sys; sys.path[:] = {paths}; {PRINT}"]
    run = subprocess.run(command, capture_output=True, text=True, check=True)
    assert run.stdout.splitlines() == [identify(solver) for solver in DIFFERENT]


def test_a_checkpoint_of_another_schedule_is_refused(tmp_path):
    options = {"max_gradients": 64, "checkpoint": tmp_path / "c", "stop": False}
    target = Gaussian.standard(2)
    first = scorevi.fit(target, BaM(schedule=lambda t: 10.0), **options)
    with pytest.raises(ValueError, match=r"`solver` is BaM\(.*schedule=a function \(") as caught:
        scorevi.fit(target, BaM(schedule=lambda t: 20.0), resume=True, **options)
    there, here = str(caught.value).split(" there and ")
    assert there.split("`solver` is ")[1] != here.split(" here")[0]
    again = scorevi.fit(target, BaM(schedule=lambda step: 10.0), resume=True, **options)
    np.testing.assert_array_equal(again.mean, first.mean)
