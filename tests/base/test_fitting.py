"""What a person sees of a fit while it runs."""

import math

import pytest

from scorevi.base.fitting import Limits, Look, _cut, fitting_bar, progress_of


@pytest.mark.parametrize(
    ("look", "limits", "text", "share"),
    [
        # Half of the tolerance's precision takes four times the effort.
        (Look(500, -3.0, 1.0, 0.2), Limits(10_000, None, 0.1), "about 15 s left", 0.25),
        (Look(500, -3.0, 1.0, 0.2), Limits(1000, None, 0.1), "about 5.0 s left", 0.5),
        (Look(500, -3.0, 1.0, 0.2), Limits(10_000, 12.0, 0.1), "about 7.0 s left", 5 / 12),
        (Look(500, -3.0, 1.0), Limits(10_000, None, 0.1), "at most 95 s left", 0.05),
        (Look(500, -3.0, 1.0, 0.2), Limits(10_000, None, None), "at most 95 s left", 0.05),
        (Look(500, -3.0, 1.0, 0.2, 7), Limits(500_500), "7 components", 500 / 500_500),
        (Look(500, math.nan, 1.0), Limits(1_000_000), "at most 2 h 46 min left", 0.0005),
        (Look(500, -3.0, 1.0, 0.2, done=True), Limits(10_000, None, 0.1), "0.1 wanted", 1.0),
    ],
)
def test_time_left_is_that_of_the_distance_or_of_the_limits(look, limits, text, share):
    progress = progress_of(look, limits, elapsed=5.0, rate=100.0)
    assert text in progress.text
    assert progress.share == pytest.approx(share)
    assert ("left" in progress.text) is not look.done
    assert progress.text.startswith("500 gradients  100/s")


def test_it_says_what_it_does_not_know():
    assert progress_of(Look(0), Limits(), 0.0, 0.0) == (0.0, "0 gradients")
    said = progress_of(Look(10, math.nan, 0.5), Limits(), 1.0, 10.0).text
    assert said == "10 gradients  10/s  Fisher residual 0.5"


def test_a_narrow_terminal_keeps_what_comes_first():
    text = progress_of(Look(500, -3.0, 1.0, 0.2), Limits(10_000, None, 0.1), 5.0, 100.0).text
    assert _cut(text, 200) == text
    assert _cut(text, 50) == "500 gradients  100/s  about 15 s left  ELBO -3.00"
    assert _cut(text, 3) == "500 gradients"


def test_a_pipe_is_left_alone_and_a_log_gets_a_line(capsys, monkeypatch):
    monkeypatch.setenv("COLUMNS", "140")
    with fitting_bar(Limits(100), None) as show:
        show(Look(50, -1.0, 0.1))
    assert capsys.readouterr() == ("", "")
    with fitting_bar(Limits(100), True) as show:
        show(Look(50, -1.0, 0.1))
        show(Look(60))
    out, err = capsys.readouterr()
    assert out == ""
    assert err.count("\n") == 1
    assert "60 gradients" in err
    assert "ELBO -1.00" in err  # of the look before, which had one
