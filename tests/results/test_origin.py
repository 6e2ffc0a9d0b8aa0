"""What is kept of how a fit was made."""

import functools
import textwrap

import numpy as np
import pytest
from conftest import SHORT

import scorevi
from scorevi.base.source import source_of


class Model:
    """A user's own object."""

    dim = 2

    def score(self, theta):
        return -theta


@SHORT
def test_the_call_says_what_was_not_left_at_its_default(tmp_path):
    fit = scorevi.fit(Model(), scorevi.GSM(batch_size=4), max_gradients=200, seed=7, initial=[1, 2])
    assert fit.origin.call == (
        "scorevi.fit(target, solver=GSM(batch_size=4, settle=False), max_gradients=200, seed=7, "
        "initial=[1, 2])"
    )
    assert fit.origin.settings["tolerance"] == 0.1
    assert fit.origin.source == textwrap.dedent(source_of(Model))
    assert set(fit.origin.versions) >= {"scorevi", "python", "numpy", "scipy", "platform"}
    assert fit.origin.made.endswith("+00:00")
    assert scorevi.load(fit.save(tmp_path / "fit.npz")).origin == fit.origin


@SHORT
@pytest.mark.parametrize(
    ("initial", "told"),
    [
        (scorevi.Gaussian.standard(30), "initial=<a Gaussian>"),
        (np.zeros(30), "initial=<an array (30,)>"),
        ("mode", "initial='mode'"),
    ],
)
def test_what_cannot_be_typed_is_told_in_words(initial, told, tmp_path):
    target = scorevi.Gaussian.standard(30)
    fit = scorevi.fit(target, "gsm", initial=initial, max_gradients=200)
    assert told in fit.origin.call
    assert fit.origin.source == ""  # a Gaussian of ours is nobody's model
    fit.save(tmp_path / "fit.npz")


def test_a_seed_that_was_drawn_is_told():
    fit = scorevi.fit(scorevi.Gaussian.standard(2), seed=None)
    assert f"seed={fit.seed}" in fit.origin.call


def test_sources():
    def inner(theta):
        return -theta

    assert source_of(inner) == "def inner(theta):\n    return -theta"
    assert source_of(inner, None, inner) == source_of(inner)
    assert source_of(functools.partial(inner), np.negative) == ""
