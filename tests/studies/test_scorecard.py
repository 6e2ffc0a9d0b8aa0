"""The rules of the scorecard on tables whose answer is known, and the page."""

import math

import pytest

from scorevi.studies.claim_tables import table_of
from scorevi.studies.claims import CLAIMS, Claim
from scorevi.studies.rules import HOLDS, NOT, PARTLY, share_verdict
from scorevi.studies.scorecard import lines_of, verdicts_of, write_scorecard
from scorevi.studies.table import Row, Table, write_rows

KL, ELBO = "forward KL", "negative ELBO"


def rows(study, target, solver, metric, runs, first=10):
    """Rows of runs: for each seed, values at first, 10·first, 100·first … gradients."""
    return [
        Row(study, target, solver, seed, first * 10**k, 0.01 * 10**k, metric, value)
        for seed, run in enumerate(runs)
        for k, value in enumerate(run)
    ]


def claim(words) -> Claim:
    (found,) = (one for one in CLAIMS if words in one.says)
    return found


def decide(words, some, solver="gsm"):
    return claim(words).decide(Table(tuple(some)), solver)


def arrives(at, steps=6):
    """A run that converges after 10^at gradients."""
    return [0.001 if k + 1 >= at else 1.0 for k in range(steps)]


@pytest.mark.parametrize(("yes", "verdict"), [("111", HOLDS), ("110", PARTLY), ("100", NOT)])
def test_shares(yes, verdict):
    assert share_verdict([one == "1" for one in yes]) == verdict


@pytest.mark.parametrize(
    ("bbvi", "verdict", "words"),
    [
        ((3, 4), HOLDS, "D = 4: 10×; D = 8: 100×"),
        ((2, 4), PARTLY, "D = 4: 1×"),
        ((2, 2), NOT, "1×"),
    ],
)
def test_fewer_gradients(bbvi, verdict, words):
    table = []
    for target, theirs in zip(("D = 4", "D = 8"), bbvi, strict=True):
        table += rows("dimensions", target, "gsm", KL, [arrives(2)] * 3)
        table += rows("dimensions", target, "bbvi 0.1", KL, [arrives(theirs)] * 3)
        table += rows("dimensions", target, "bbvi 0.01", KL, [arrives(6)] * 3)
    found = decide("10 to 100 times fewer gradients than BBVI", table)
    assert found.verdict == verdict
    assert words in found.figure


def test_what_bbvi_never_reaches_is_a_lower_bound_and_what_gsm_never_reaches_is_no_gain():
    table = rows("dimensions", "D = 4", "gsm", KL, [arrives(2)] * 3)
    table += rows("dimensions", "D = 4", "bbvi 0.1", KL, [arrives(9)] * 3)
    assert decide("10 to 100 times fewer gradients than", table).figure == "D = 4: > 1e+04×"
    table = rows("dimensions", "D = 4", "gsm", KL, [arrives(9)] * 3)
    table += rows("dimensions", "D = 4", "bbvi 0.1", KL, [arrives(3)] * 3)
    found = decide("10 to 100 times fewer gradients than", table)
    assert (found.verdict, found.figure) == (NOT, "D = 4: not reached")


@pytest.mark.parametrize(("power", "verdict"), [(1.0, HOLDS), (1.4, PARTLY), (2.0, NOT)])
def test_exponent(power, verdict):
    table = [
        Row("dimensions", f"D = {dim}", "gsm", seed, round(100 * dim**power), 0.1, KL, 0.001)
        for dim in (4, 16, 64)
        for seed in range(3)
    ]
    found = decide("almost linearly", table)
    assert found.verdict == verdict
    assert f"D^{power:.2f}" in found.figure


@pytest.mark.parametrize(("at", "verdict"), [(2, HOLDS), (3, NOT)])
def test_condition(at, verdict):
    table = rows("condition", "c = 1", "gsm", KL, [arrives(2)] * 3)
    table += rows("condition", "c = 1000", "gsm", KL, [arrives(at)] * 3)
    assert decide("insensitive", table).verdict == verdict


@pytest.mark.parametrize(
    ("reached", "verdict"), [([6, 6, 6, 6], HOLDS), ([3, 6, 6, 6], PARTLY), ([3, 3, 6, 6], NOT)]
)
def test_bbvi_stuck(reached, verdict):
    table = rows("condition", "c = 1000", "gsm", KL, [arrives(2)] * 4)
    table += rows("condition", "c = 1000", "bbvi 0.01", KL, [arrives(at) for at in reached])
    assert decide("does not converge for c > 100", table).verdict == verdict


def swinging(target, solver, low, high):
    late = [
        Row("nongaussian", target, solver, 0, 1000 + 50 * k, 1.0, KL, (low, high)[k % 2])
        for k in range(20)
    ]
    return [Row("nongaussian", target, solver, 0, 10, 0.0, KL, 100.0), *late]


@pytest.mark.parametrize(
    ("mild", "extreme", "verdict"), [(0.1, 5.0, HOLDS), (5.0, 5.0, NOT), (0.1, 0.1, NOT)]
)
def test_oscillation(mild, extreme, verdict):
    table = []
    for target, size in (("s = 0.2", mild), ("s = 1.8", extreme)):
        table += swinging(target, "gsm", 1.0, 1.0 + size)
        table += swinging(target, "bbvi 0.01", 1.0, 1.05)
    assert decide("oscillates", table).verdict == verdict


@pytest.mark.parametrize(("level", "verdict"), [(1.05, HOLDS), (1.5, NOT)])
def test_equally_good(level, verdict):
    table = swinging("s = 0.2", "gsm", level, level) + swinging("s = 0.2", "bbvi 0.1", 1.0, 1.0)
    assert decide("equally good", table).verdict == verdict


def test_posteriors_are_measured_from_the_best_gaussian():
    table = []
    for target, best in (("a-x", -50.0), ("b-y", 700.0)):
        table += [Row("posteriordb", target, "best", 0, 0, 1.0, ELBO, best)]
        table += rows("posteriordb", target, "gsm", ELBO, [[best + 9, best + 0.5, best + 0.5]])
        table += rows("posteriordb", target, "bbvi 0.1", ELBO, [[best + 9, best + 9, best + 0.1]])
    found = decide("on real posteriors", table)
    assert (found.verdict, found.figure) == (HOLDS, "x: 10×; y: 10×")
    assert decide("same quality", table).figure == "x: 0.5 against 0.1; y: 0.5 against 0.1"


def test_batch_sizes():
    table = []
    for size, at in ((1, 3), (2, 2), (4, 2), (8, 1)):
        table += rows("batch-size", "Gaussian, D = 10", f"gsm B={size}", KL, [arrives(at)] * 3)
    assert decide("better than B = 1", table).verdict == HOLDS
    found = decide("Beyond B = 2", table)
    assert (found.verdict, found.figure) == (NOT, "Gaussian, D = 10: 100, 100, 10")


def test_lines_without_all_solvers():
    table = Table(tuple(rows("dimensions", "D = 4", "gsm", KL, [arrives(2)])))
    assert "not all that it compares was run" in lines_of("dimensions", table)
    some = rows("posteriordb", "a-x", "gsm", ELBO, [[1.0, 0.5]])
    some += rows("posteriordb", "a-x", "bbvi 0.1", ELBO, [[1.0, 0.5]])
    assert verdicts_of("posteriordb", Table(tuple(some))) == []  # the best Gaussian is missing
    assert verdicts_of("dimensions", table) == []
    assert lines_of("clock", table) == ""


def test_bars_in_cells_do_not_break_the_table():
    assert table_of(["a"], [["|t|"]]) == "| a |\n|---|\n| \\|t\\| |"


def test_a_folder_without_results(tmp_path):
    with pytest.raises(ValueError, match=r"no results .*scorevi study all --out"):
        write_scorecard(tmp_path, tmp_path / "scorecard.md")


def test_lost_runs_do_not_count_as_good(tmp_path):
    table = rows("nongaussian", "s = 0.2", "gsm", KL, [[1.0, 0.5, math.inf]] * 3)
    table += rows("nongaussian", "s = 0.2", "bbvi 0.1", KL, [[1.0, 0.5, 0.5]] * 3)
    assert decide("equally good", table).verdict == NOT
    write_rows(tmp_path / "r.csv", table)
    from scorevi.studies.table import read_rows

    assert list(read_rows(tmp_path / "r.csv")) == table
