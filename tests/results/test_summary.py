"""The table: printed, looked up, as a data frame, and the errors of its means."""

import dataclasses
import pickle

import numpy as np
import pytest
from conftest import gsm_fit

import scorevi
from scorevi.examples import eight_schools
from scorevi.results.table import HEADINGS, LEVELS


@pytest.fixture(scope="module")
def fit():
    return gsm_fit(eight_schools(), max_gradients=400, seed=2)


def test_it_prints_as_a_table(fit):
    first, *rows = str(fit.summary).splitlines()
    # Errors of means are known after a check.
    assert first.split() == ["parameter", *(one for one in HEADINGS if one != "error")]
    assert [row.split()[0] for row in rows][:3] == ["mu", "tau", "theta[0]"]
    assert {len(row) for row in (first, *rows)} == {len(first)}
    long = gsm_fit(scorevi.Gaussian.standard(100), max_gradients=200).summary
    lines = str(long).splitlines()
    assert len(lines) == 62
    assert lines[31] == "... 40 more ..."
    assert lines[-1].startswith("theta[99]")


def test_it_is_asked_by_name_and_by_place(fit):
    table = fit.summary
    assert table["mu"] == table[0]
    assert [row.name for row in table["theta"]] == [f"theta[{k}]" for k in range(8)]
    assert table["theta"].quantiles.shape == (8, len(LEVELS))
    assert table[1:3] == tuple(table)[1:3]
    assert type(table[1:3]) is type(table)
    with pytest.raises(KeyError, match="there is no 'sigma' in the summary, which has mu, tau"):
        table["sigma"]
    back = pickle.loads(pickle.dumps(table))
    assert back == table
    np.testing.assert_array_equal(back.quantiles, table.quantiles)


def test_it_becomes_a_data_frame(fit):
    pytest.importorskip("pandas")
    frame = fit.summary.to_pandas()
    assert list(frame.columns) == list(HEADINGS)
    assert frame.index.name == "parameter"
    assert frame.loc["mu", "95%"] == fit.summary["mu"].upper
    assert frame["error"].isna().all()
    assert fit.summary[:0].to_pandas().empty


def test_quantiles_are_those_of_the_draws(fit):
    """Of 100,000 draws against 10,000, within 6 standard errors: fails by chance 1e-7 times."""
    drawn = fit.draws(100_000, seed=5)["tau"]
    row = fit.summary["tau"]
    levels = {"lower": 0.05, "lower_quarter": 0.25, "median": 0.5, "upper_quarter": 0.75}
    for name, level in levels.items():
        below = (drawn < getattr(row, name)).mean()
        error = np.sqrt(level * (1 - level) * (1 / 10_000 + 1 / 100_000))
        assert abs(below - level) < 6 * error, name


def test_the_error_of_a_mean_is_how_far_it_is_off():
    """On a Gaussian posterior the scores tell exactly; of exp(a) to first order."""
    target = scorevi.from_function(
        lambda x: -x,
        2,
        lambda x: -0.5 * (x**2).sum(axis=1),
        constrain=lambda x: {"a": np.exp(0.1 * x[:, 0]), "b": x[:, 1]},
    )
    q = scorevi.Gaussian.from_moments([0.3, 0.0], np.eye(2))
    off = dataclasses.replace(scorevi.fit(target), q=q)
    assert off.summary["a"].error is None
    checked = scorevi.fit(target)
    checked.check(modes=False)
    assert checked.summary["a"].error is not None
    assert dataclasses.replace(checked, q=q).summary["a"].error is None  # not that of this q
    off.check(modes=False)
    a, b = off.summary
    assert a.error == pytest.approx(a.mean - np.exp(0.005), rel=0.1)
    assert b.error == pytest.approx(0.01, rel=0.2)  # that of the table's own 10,000 draws
    free = scorevi.from_function(lambda x: -x, 2, lambda x: -0.5 * (x**2).sum(axis=1))
    off = dataclasses.replace(scorevi.fit(free), q=q)
    off.check(modes=False)
    assert [row.error for row in off.summary] == pytest.approx([0.3, 0.0], abs=1e-6)


def test_errors_are_kept_in_files_and_pickles(tmp_path):
    fit = scorevi.fit(scorevi.examples.random_gaussian(3), seed=0)
    fit.check(modes=False)
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    assert back.summary == fit.summary == pickle.loads(pickle.dumps(fit)).summary
    assert back.summary[0].error is not None
    np.testing.assert_array_equal(back.summary.quantiles, fit.summary.quantiles)
