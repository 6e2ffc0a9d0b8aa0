"""What numbers are called, and which of them are given: one rule for tables, files and verdicts."""

import csv
import dataclasses
import warnings

import numpy as np
import pytest
from conftest import gsm_fit

import scorevi
from scorevi.base.labels import theta_labels
from scorevi.results.report import print_report
from scorevi.results.writing import write_draws

COORDS = {"dims": {"z": ["side"]}, "coords": {"side": ["north", "south"]}}


def two_sides(**more):
    """One scalar and one vector, exactly Gaussian, and what ``more`` says of them."""
    return scorevi.from_function(
        np.negative,
        3,
        lambda x: -0.5 * (x**2).sum(axis=1),
        names={"mu": (), "z": 2},
        batched=True,
        **COORDS | more,
    )


def constrained(theta):
    return {"mu": theta[:, 0], "z": np.exp(theta[:, 1:])}


@pytest.mark.parametrize("constrain", [None, constrained])
def test_coords_are_labels_everywhere(constrain, tmp_path):
    pytest.importorskip("pandas")
    fit = scorevi.fit(two_sides(constrain=constrain))
    expected = ["mu", "z[north]", "z[south]"]
    assert list(fit.labels) == expected
    assert [row.name for row in fit.summary] == expected
    assert list(fit.to_pandas(5, seed=0).columns) == expected
    write_draws(fit, tmp_path / "draws.csv", 5, seed=0)
    with (tmp_path / "draws.csv").open(newline="") as file:
        assert next(csv.reader(file)) == expected
    plots = pytest.importorskip("scorevi.results.plots")
    ticks = plots.plot_fit(fit).axes[0].get_yticklabels()
    assert [tick.get_text() for tick in ticks] == expected


@pytest.mark.slow
def test_the_verdict_names_by_coords():
    target = scorevi.from_function(
        lambda x: -np.stack([x[:, 0], np.sinh(x[:, 1])], axis=1),
        2,
        lambda x: -0.5 * x[:, 0] ** 2 - np.cosh(x[:, 1]),
        names={"z": 2},
        batched=True,
        **COORDS,
    )
    fit = scorevi.fit(target)
    wrong = scorevi.Gaussian(fit.q.mean + np.array([0.0, 3.0]), fit.q.factor)

    reasons = dataclasses.replace(fit, q=wrong).check(modes=False).reasons
    assert any("z[south]" in reason.text for reason in reasons)
    assert not any("z[1]" in reason.text for reason in reasons)


@pytest.mark.parametrize("constrain", [None, constrained])
def test_a_saved_fit_keeps_its_labels_without_its_target(constrain, tmp_path):
    fit = scorevi.fit(two_sides(constrain=constrain))
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    assert back.labels == fit.labels == ("mu", "z[north]", "z[south]")
    assert back.summary == fit.summary
    if constrain is None:
        pytest.importorskip("pandas")
        assert tuple(back.to_pandas(3, seed=0).columns) == fit.labels


def test_coords_that_repeat_themselves_give_way_to_indices():
    target = two_sides(coords={"side": ["north", "north"]})
    assert theta_labels(target) == ("mu", "z[0]", "z[1]")


def lower(theta, count):
    """A lower triangle of which row by row the entries are given, ones on the diagonal."""
    factor = np.tile(np.eye(count), (len(theta), 1, 1))
    factor[:, *np.tril_indices(count, -1)] = theta
    return factor


def test_entries_of_theta_are_called_after_what_they_move():
    def constrain(theta):
        a = lower(theta[:, :6], 4)
        return {
            "factor": a,
            "matrix": a @ a.transpose(0, 2, 1),
            # Column by column, as Stan has matrices.
            "table": np.exp(theta[:, 6:12]).reshape(-1, 3, 2).transpose(0, 2, 1),
            "share": _softmax(theta[:, 12:14]),
            "none": theta[:, 14],
            "square": np.exp(theta[:, 16:]).reshape(-1, 2, 2).transpose(0, 2, 1),
        }

    target = scorevi.from_function(
        np.negative,
        20,
        names={"factor": 6, "table": 6, "share": 2, "none": 2, "square": 4},
        constrain=constrain,
        batched=True,
    )
    below = ("factor[1,0]", "factor[2,0]", "factor[2,1]")
    assert theta_labels(target) == (
        *below, "factor[3,0]", "factor[3,1]", "factor[3,2]",
        "table[0,0]", "table[1,0]", "table[0,1]", "table[1,1]", "table[0,2]", "table[1,2]",
        "share[0]", "share[1]", "none[0]", "none[1]",
        "square[0,0]", "square[1,0]", "square[0,1]", "square[1,1]",
    )  # fmt: skip


def _softmax(rows):
    both = np.concatenate([rows, -rows.sum(axis=1, keepdims=True)], axis=1)
    return np.exp(both) / np.exp(both).sum(axis=1, keepdims=True)


def test_a_constrain_that_fails_leaves_the_index():
    def constrain(theta):
        if len(theta) > 2:
            raise ArithmeticError("not so many")
        return {"factor": lower(theta, 3)}

    target = scorevi.from_function(
        np.negative, 3, names="factor", constrain=constrain, batched=True
    )
    assert theta_labels(target) == ("factor[0]", "factor[1]", "factor[2]")


# --- which variables ----------------------------------------------------------------------------


def with_everything():
    def derive(theta, seed):
        rng = np.random.default_rng(seed)
        return {
            "y_rep": rng.normal(size=(len(theta), 3)),
            "log_lik": -theta[:, :1] + np.zeros(4),
            "long": np.tile(theta[:, :1], 50),
            "twice": 2 * theta[:, 0],
        }

    return two_sides(derive=derive, predictive=["y_rep"], likelihoods=["log_lik"])


def test_one_rule_for_all_that_gives_draws(tmp_path):
    pytest.importorskip("pandas")
    pytest.importorskip("arviz")
    fit = scorevi.fit(with_everything())
    parameters, derived = ["mu", "z"], ["long", "twice"]
    for include, names in (
        ("parameters", parameters),
        ("all", [*parameters, *derived]),
        ("everything", [*parameters, "y_rep", "log_lik", *derived]),
    ):
        assert list(fit.draws(4, seed=0, include=include)) == names
        assert list(fit.resample(4, seed=0, include=include).draws) == names
        columns = fit.to_pandas(4, seed=0, include=include).columns
        assert list(dict.fromkeys(name.partition("[")[0] for name in columns)) == names
        write_draws(fit, tmp_path / "draws.csv", 4, seed=0, include=include)
        with (tmp_path / "draws.csv").open(newline="") as file:
            assert next(csv.reader(file)) == list(columns)
        data = fit.to_arviz(4, seed=0, include=include)
        groups = [name for name in names if name not in ("y_rep", "log_lik")]
        assert list(data["posterior"].data_vars) == groups
        assert list(data["posterior_predictive"].data_vars) == ["y_rep"]
    assert list(fit.draws(4)) == list(fit.draws(4, include="all"))
    for draw in (fit.draws, fit.to_pandas, fit.to_arviz, fit.resample):
        with pytest.raises(
            ValueError, match='`include` must be one of "parameters", "all", "every'
        ):
            draw(4, include="some")


def test_the_table_has_parameters_first_and_long_arrays_last(capsys):
    fit = scorevi.fit(with_everything())
    names = [row.name for row in fit.summary]
    assert names[:5] == ["mu", "z[north]", "z[south]", "twice", "long[0]"]
    print_report(fit, 10, {})
    assert "twice" in capsys.readouterr().out


# --- seeds and sizes ----------------------------------------------------------------------------


def test_no_seed_means_new_draws_and_a_seed_the_same():
    pytest.importorskip("pandas")
    pytest.importorskip("arviz")
    fit = scorevi.fit(two_sides())
    ways = {
        "sample": lambda **how: fit.sample(size=4, **how),
        "draws": lambda **how: fit.draws(size=4, **how)["z"],
        "resample": lambda **how: fit.resample(size=4, **how).theta,
        "to_pandas": lambda **how: fit.to_pandas(size=4, **how).to_numpy(),
        "to_arviz": lambda **how: fit.to_arviz(size=4, **how)["posterior"]["z"].values,
    }
    for name, way in ways.items():
        assert not np.array_equal(way(), way()), name
        assert not np.array_equal(way(seed=None), way(seed=None)), name
        np.testing.assert_array_equal(way(seed=1), way(seed=1), err_msg=name)
        generator = np.random.default_rng(1)
        assert not np.array_equal(way(seed=generator), way(seed=generator)), name


@pytest.mark.parametrize("size", [1, 5])
def test_a_few_draws_are_resampled_from_many(size):
    fit = scorevi.fit(scorevi.examples.eight_schools())
    seen = []
    target = fit.target

    class Counting:
        def __getattr__(self, name):
            return getattr(target, name)

        def evaluate(self, theta):
            seen.append(len(theta))
            return target.evaluate(theta)

    with warnings.catch_warnings():
        warnings.simplefilter("error")
        sample = dataclasses.replace(fit, target=Counting()).resample(size, seed=0)
    assert sample.theta.shape == (size, 10)
    assert sum(seen) == 400
    assert sample.khat < 0.7


def test_too_few_proposals_are_refused_by_name():
    fit = scorevi.fit(two_sides())
    with pytest.raises(ValueError, match="`proposals` must be a whole number >= 25; got 10"):
        fit.resample(5, proposals=10, seed=1)


def test_proposals_without_a_score_are_said():
    def log_density(x):
        return np.where(np.abs(x[:, 0]) < 1e-3, -0.5 * (x**2).sum(axis=1), np.nan)

    fit = gsm_fit(two_sides(), max_gradients=100)

    half = scorevi.from_function(np.negative, 3, log_density, batched=True)
    with pytest.raises(scorevi.FitError, match=r"\d+ of 400 draws have a usable score, fewer than"):
        dataclasses.replace(fit, target=half).resample(5, seed=0)
