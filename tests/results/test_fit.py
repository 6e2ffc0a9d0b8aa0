"""Saving, loading, exporting and drawing."""

import dataclasses
import importlib.util
import json
import os
import pickle
import warnings
import zipfile

import numpy as np
import pytest
from conftest import gsm_fit

import scorevi
from scorevi.examples import eight_schools
from scorevi.results.report import as_json, print_report
from scorevi.results.writing import write_draws


@pytest.fixture(scope="module")
def fit():
    return gsm_fit(eight_schools(), max_gradients=400, seed=2)


def test_a_fit_comes_back_as_it_was_saved(fit, tmp_path):
    path = fit.save(tmp_path / "fit.npz")
    back = scorevi.load(path)
    np.testing.assert_array_equal(back.mean, fit.mean)
    np.testing.assert_array_equal(back.covariance, fit.covariance)
    np.testing.assert_array_equal(back.sample(3, seed=1), fit.sample(3, seed=1))
    for name, column in fit.trace._asdict().items():
        np.testing.assert_array_equal(getattr(back.trace, name), column)
    for name in ("status", "num_gradients", "solver", "seed", "parameters", "elbo", "summary"):
        assert getattr(back, name) == getattr(fit, name), name
    assert (back.status.cause, back.status.advice) == (fit.status.cause, fit.status.advice)
    assert str(back) == str(fit)
    assert path.stat().st_mode & 0o777 == 0o666 & ~_umask()


def _umask():
    mask = os.umask(0)
    os.umask(mask)
    return mask


def test_draws_of_a_loaded_fit_need_the_model(fit, tmp_path):
    path = fit.save(tmp_path / "fit")
    assert path.name == "fit.npz"
    with pytest.raises(ValueError, match=r"Use scorevi.load\(path, target=...\)"):
        scorevi.load(path).draws(3)
    back = scorevi.load(path, target=eight_schools())
    np.testing.assert_array_equal(back.draws(3, seed=1)["theta"], fit.draws(3, seed=1)["theta"])
    with pytest.raises(ValueError, match="its parameters differ"):
        scorevi.load(path, target=scorevi.Gaussian.standard(10))


def test_an_unconstrained_fit_needs_no_model(tmp_path):
    fit = gsm_fit(scorevi.Gaussian.standard(2), max_gradients=50)
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(back.draws(3, seed=0)["theta"], fit.draws(3, seed=0)["theta"])


def test_a_failed_fit_can_be_saved_and_stays_failed(tmp_path):
    target = scorevi.from_function(lambda x: x * np.nan, 2, batched=True)
    with pytest.warns(scorevi.FitWarning):
        fit = gsm_fit(target)
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    assert back.status == "bad-scores"
    assert back.bad_scores.counts == fit.bad_scores.counts
    assert back.bad_scores.describe() == fit.bad_scores.describe()
    with pytest.raises(scorevi.FitError, match="No update was made"):
        _ = back.mean


def test_a_folder_that_is_not_there_or_not_writable_is_named(fit, tmp_path):
    with pytest.raises(ValueError, match="`path` must lie in an existing folder"):
        fit.save(tmp_path / "missing" / "fit.npz")
    (tmp_path / "taken.npz").mkdir()
    with pytest.raises(ValueError, match="`path` must be a file to write"):
        fit.save(tmp_path / "taken.npz")
    assert list(tmp_path.glob(".*.part")) == []
    with pytest.raises(ValueError, match="`path` could not be written"):
        fit.save("/proc/fit.npz")


def test_truncated_and_foreign_files_are_refused(fit, tmp_path):
    whole = fit.save(tmp_path / "fit.npz").read_bytes()
    refused = "must be a file written by Fit.save"
    for length in (0, 10, 1000, len(whole) // 2, len(whole) - 1):
        (tmp_path / "cut.npz").write_bytes(whole[:length])
        with pytest.raises(ValueError, match=refused):
            scorevi.load(tmp_path / "cut.npz")
    np.savez(tmp_path / "foreign.npz", x=np.ones(3))
    np.savez(tmp_path / "other.npz", meta=np.array(json.dumps({"format": "scorevi-fit-99"})))
    np.save(tmp_path / "array.npy", np.ones(3))
    (tmp_path / "text.npz").write_text("hello")
    with zipfile.ZipFile(tmp_path / "zip.npz", "w") as archive:
        archive.writestr("meta.npy", b"nothing")
    for name in ("foreign.npz", "other.npz", "array.npy", "text.npz", "zip.npz"):
        with pytest.raises(ValueError, match=refused):
            scorevi.load(tmp_path / name)
    with pytest.raises(ValueError, match="there is none at"):
        scorevi.load(tmp_path / "nowhere.npz")


def test_nothing_in_a_file_is_executed(tmp_path):
    class Trap:
        def __reduce__(self):
            return (os.mkdir, (str(tmp_path / "sprung"),))

    np.savez(tmp_path / "trap.npz", meta=np.array([Trap()], dtype=object))
    (tmp_path / "trap.pkl").write_bytes(pickle.dumps(Trap()))
    for name in ("trap.npz", "trap.pkl"):
        with pytest.raises(ValueError, match=r"must be a file written by Fit\.save"):
            scorevi.load(tmp_path / name)
    assert not (tmp_path / "sprung").exists()


def test_a_status_survives_pickling(fit):
    copy = pickle.loads(pickle.dumps(fit.status))
    assert (copy, copy.cause, copy.advice) == (fit.status, fit.status.cause, fit.status.advice)
    with pytest.raises(ValueError, match="`word` must be one of"):
        scorevi.Status("fine", "it is")


def test_csv_draws(fit, tmp_path):
    write_draws(fit, tmp_path / "draws.csv", size=20, seed=1)
    lines = (tmp_path / "draws.csv").read_text().splitlines()
    assert lines[0].startswith("mu,tau,theta[0],theta[1]")
    values = np.array([line.split(",") for line in lines[1:]], dtype=float)
    np.testing.assert_array_equal(values[:, 1], fit.draws(20, seed=1)["tau"])
    with pytest.raises(
        ValueError, match=r"`path` must end in one of \.nc, \.csv, \.parquet; got draws\.txt"
    ):
        write_draws(fit, tmp_path / "draws.txt")
    with pytest.raises(ValueError, match="there is no"):
        write_draws(fit, tmp_path / "missing" / "draws.csv")


@pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::DeprecationWarning")
@pytest.mark.skipif(importlib.util.find_spec("arviz") is None, reason="needs the arviz extra")
def test_arviz_draws(fit, tmp_path):
    import arviz

    data = fit.to_arviz(size=30, seed=1)
    expected = fit.draws(30, seed=1)
    assert data["posterior"]["theta"].shape == (1, 30, 8)
    np.testing.assert_array_equal(data["posterior"]["tau"].values[0], expected["tau"])
    np.testing.assert_array_equal(
        np.log(data["posterior"]["tau"].values),
        np.log(np.exp(data["unconstrained_posterior"]["log_tau"].values)),
    )
    assert data["posterior"].attrs["inference_library"] == "scorevi"
    write_draws(fit, tmp_path / "draws.nc", size=30, seed=1)
    back = arviz.from_netcdf(str(tmp_path / "draws.nc"))
    np.testing.assert_array_equal(back["posterior"]["tau"].values[0], expected["tau"])


def test_the_picture_shows_names_and_course(fit, tmp_path):
    plots = pytest.importorskip("scorevi.results.plots")
    figure = plots.plot_fit(fit, title="Eight schools")
    left, fisher, elbo = figure.axes
    assert [tick.get_text() for tick in left.get_yticklabels()][:2] == ["mu", "tau"]
    assert fisher.get_yscale() == "log"
    assert len(elbo.lines[0].get_xdata()) == fit.num_updates
    plots.save_picture(fit, tmp_path / "fit.png")
    assert (tmp_path / "fit.png").read_bytes()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="there is no"):
        plots.save_picture(fit, tmp_path / "missing" / "fit.png")


def test_the_picture_of_a_fit_without_log_density(tmp_path):
    plots = pytest.importorskip("scorevi.results.plots")
    fit = gsm_fit(scorevi.from_function(np.negative, 40), max_gradients=100)
    figure = plots.plot_fit(fit)
    assert "first 30 of 40 parameters" in figure.axes[0].get_title()
    assert figure.axes[2].texts[0].get_text() == "needs the log density"
    figure.savefig(tmp_path / "fit.png")


def test_saving_a_loaded_fit_loses_nothing(fit, tmp_path):
    once = scorevi.load(fit.save(tmp_path / "once.npz"))
    twice = scorevi.load(once.save(tmp_path / "twice.npz"))
    assert twice.summary == fit.summary
    with pytest.raises(ValueError, match="loaded without its model"):
        twice.draws(3)


def test_a_constrain_that_fails_late_does_not_stand_in_the_way_of_saving(tmp_path):
    def constrain(theta):
        if len(theta) > 2:
            raise ArithmeticError("not so many")
        return {"a": theta[:, 0]}

    target = scorevi.from_function(np.negative, 1, constrain=constrain)
    fit = gsm_fit(target, max_gradients=100)
    with pytest.raises(ValueError, match="`constrain` raised ArithmeticError: not so many"):
        _ = fit.summary
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    again = scorevi.load(back.save(tmp_path / "again.npz"))
    for loaded in (back, again):
        assert loaded.num_updates == 50
        assert loaded.constrained
        with pytest.raises(ValueError, match="loaded without its model"):
            loaded.draws(2)
        with pytest.raises(ValueError, match="could not be computed when the fit was saved"):
            _ = loaded.summary
        assert len(loaded.sample(2, seed=0)) == 2
    with_target = scorevi.load(tmp_path / "fit.npz", target=target)
    assert list(with_target.draws(2)) == ["a"]
    with pytest.raises(ValueError, match="`constrain` raised ArithmeticError: not so many"):
        _ = with_target.summary


def test_a_report_without_a_summary_says_so(tmp_path, capsys):
    def constrain(theta):
        if len(theta) > 2:
            raise ArithmeticError("not so many")
        return {"a": theta[:, 0]}

    target = scorevi.from_function(np.negative, 1, constrain=constrain)
    fit = gsm_fit(target, max_gradients=100)
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    for one, reason in ((fit, "`constrain` raised"), (back, "could not be computed when")):
        print_report(one, 0, {})
        shown = capsys.readouterr().out
        assert f"note:       no table: {'The summary ' if one is back else ''}{reason}" in shown
        assert "status:" in shown
        told = as_json(one, {})
        assert told["parameters"] == []
        assert any(reason in note for note in told["notes"])


def test_a_constrained_fit_without_an_update_stays_constrained(tmp_path):
    target = scorevi.from_function(
        lambda x: x * np.nan, 1, batched=True, constrain=lambda x: {"a": np.exp(x[:, 0])}
    )
    with pytest.warns(scorevi.FitWarning):
        fit = gsm_fit(target)
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    assert back.constrained
    with pytest.raises(scorevi.FitError, match="No update was made"):
        _ = back.summary


def test_files_of_the_first_format_still_load(fit, tmp_path):
    with np.load(fit.save(tmp_path / "fit.npz")) as data:
        arrays = {name: data[name] for name in data.files}
    meta = json.loads(str(arrays["meta"])) | {"format": "scorevi-fit-1"}
    del meta["verdict"], meta["restarts"]
    for name in ("fingerprint", "restart_means", "restart_sds"):
        del arrays[name]
    np.savez(tmp_path / "old.npz", **arrays | {"meta": np.array(json.dumps(meta))})
    assert content_of(scorevi.load(tmp_path / "old.npz")) == content_of(
        scorevi.load(tmp_path / "fit.npz")
    )


def test_flipped_bytes_are_refused_or_harmless(fit, tmp_path):
    whole = fit.save(tmp_path / "fit.npz").read_bytes()
    original = scorevi.load(tmp_path / "fit.npz")
    rng = np.random.default_rng(0)
    path = tmp_path / "flipped.npz"
    refused = 0
    for _ in range(300):
        damaged = bytearray(whole)
        damaged[rng.integers(len(whole))] ^= 1 << rng.integers(8)
        path.write_bytes(bytes(damaged))
        try:
            loaded = scorevi.load(path)
        except ValueError as error:
            assert "must be a file written by Fit.save" in str(error)  # noqa: PT017
            refused += 1
        else:
            assert content_of(loaded) == content_of(original)
    assert refused > 200


def content_of(fit):
    """All that a fit holds, as text by which two can be compared to the bit."""
    numbers = {"q": (fit.q.mean, fit.q.factor, np.array(fit.q.log_det)), "trace": fit.trace}
    exact = {name: [array.tobytes() for array in arrays] for name, arrays in numbers.items()}
    plain = {
        field.name: repr(getattr(fit, field.name))
        for field in dataclasses.fields(fit)
        if field.name not in numbers
    }
    return exact | plain | {"status": fit.status.explain()}


def test_the_repr_is_one_line(fit):
    assert len(repr(fit).splitlines()) == 1
    assert f"Fit of {fit.q.dim} dimensions" in repr(fit)
    assert "nan" not in repr(fit)
    without = gsm_fit(scorevi.from_function(np.negative, 2, batched=True), max_gradients=100)
    assert "Fit of 2 dimensions" in repr(without)
    assert "ELBO" not in repr(without)
    assert "ELBO" in repr(fit)


def test_odd_names_in_pictures(tmp_path):
    plots = pytest.importorskip("scorevi.results.plots")
    names = ["$\\beta_{1}$ cost in $", "x" * 300]
    target = scorevi.from_function(np.negative, 2, names=names)
    figure = plots.plot_fit(gsm_fit(target, max_gradients=100))
    assert figure._repr_png_()[:4] == b"\x89PNG"
    with pytest.raises(ValueError, match="empty name"):
        plots.save_picture(gsm_fit(target, max_gradients=100), "")


def test_seeds_of_draws_are_checked(fit):
    for wrong in (-1, 1.0, "a", True):
        with pytest.raises(ValueError, match="`seed` must be a whole number >= 0"):
            fit.draws(3, seed=wrong)


def test_arviz_summarises_and_draws_it(fit, monkeypatch):
    monkeypatch.setenv("MPLBACKEND", "Agg")
    arviz = pytest.importorskip("arviz")
    pytest.importorskip("matplotlib").use("Agg")
    data = fit.to_arviz(size=500, seed=1)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # one chain: no R-hat
        table = arviz.summary(data)
        assert arviz.plot_pair(data, var_names=["mu", "tau"]) is not None
    assert float(table.loc["mu", "mean"]) == pytest.approx(
        fit.draws(500, seed=1)["mu"].mean(), abs=0.01
    )
    assert set(data["sample_stats"].data_vars) == {"lp", "log_q", "importance_weight"}
    theta = fit.sample(500, seed=1)
    np.testing.assert_array_equal(data["sample_stats"]["log_q"].values[0], fit.q.log_density(theta))
    np.testing.assert_array_equal(
        data["sample_stats"]["lp"].values[0], fit.target.evaluate(theta).log_density
    )
    assert data["posterior"].attrs["status"] == fit.status


def test_importance_weights_of_a_target_that_is_bad_in_places():
    target = scorevi.from_function(
        np.negative, 1, lambda x: np.where(x[:, 0] > 2, np.nan, -0.5 * x[:, 0] ** 2), batched=True
    )
    fit = gsm_fit(target, max_gradients=200)
    statistics = fit.to_arviz(1000, seed=1)["sample_stats"]
    weight = statistics["importance_weight"].values[0]
    assert weight.sum() == pytest.approx(1)
    assert (weight[np.isnan(statistics["lp"].values[0])] == 0).all()


def test_a_data_frame(fit):
    pytest.importorskip("pandas")
    table = fit.to_pandas(20, seed=1)
    assert list(table.columns)[:3] == ["mu", "tau", "theta[0]"]
    np.testing.assert_array_equal(table["theta[7]"], fit.draws(20, seed=1)["theta"][:, 7])


def test_dims_and_coords_reach_arviz():
    pytest.importorskip("arviz")
    target = scorevi.from_function(
        np.negative,
        3,
        names={"beta": 3},
        dims={"beta": ["city"]},
        coords={"city": ["Bern", "Oslo", "Rome"]},
        observed={"y": np.arange(4.0)},
    )
    data = gsm_fit(target, max_gradients=50).to_arviz(10, seed=1)
    for group in ("posterior", "unconstrained_posterior"):
        assert data[group]["beta"].dims == ("chain", "draw", "city")
        assert list(data[group]["city"].values) == ["Bern", "Oslo", "Rome"]
    np.testing.assert_array_equal(data["observed_data"]["y"].values, np.arange(4.0))
    assert set(data["sample_stats"].data_vars) == {"log_q"}
    with pytest.raises(ValueError, match="`dims` must give a list of names for 'beta'; got 'city'"):
        scorevi.from_function(np.negative, 3, names="beta", dims={"beta": "city"})


def test_names_that_arviz_keeps_for_itself_get_an_underscore(tmp_path):
    arviz = pytest.importorskip("arviz")
    target = scorevi.from_function(
        np.negative,
        6,
        names={"chain": (), "draw": 2, "chain_": (), "city": 2},
        dims={"draw": ["draw"], "city": ["city"]},
        coords={"city": ["Bern", "Oslo"]},
        observed={"draw": np.arange(2.0)},
    )
    fit = gsm_fit(target, max_gradients=50)
    write_draws(fit, tmp_path / "draws.nc", 10, seed=1)
    data = arviz.from_netcdf(str(tmp_path / "draws.nc"))
    expected = fit.draws(10, seed=1)
    for group in ("posterior", "unconstrained_posterior"):
        named = data[group]
        assert set(named.data_vars) == {"chain__", "draw_", "chain_", "city"}
        np.testing.assert_array_equal(named["chain__"].values[0], expected["chain"])
        np.testing.assert_array_equal(named["draw_"].values[0], expected["draw"])
        assert named["city"].dims == ("chain", "draw", "city_")
        assert list(named["city_"].values) == ["Bern", "Oslo"]
    np.testing.assert_array_equal(data["observed_data"]["draw_"].values, [0.0, 1.0])
    assert "chain to chain__" in data["posterior"].attrs["renamed"]
    assert "city to city_" in data["posterior"].attrs["renamed"]


def test_a_file_of_draws_that_cannot_be_written_is_said_in_a_line(tmp_path):
    pytest.importorskip("arviz")
    target = scorevi.from_function(np.negative, 2, names=["a/b", "c"])
    with pytest.raises(ValueError, match="`path` could not be written") as caught:
        write_draws(gsm_fit(target, max_gradients=50), tmp_path / "draws.nc", 1000)
    assert len(str(caught.value)) < 500


def test_what_is_predicted_is_a_group_of_its_own_and_not_summarised():
    pytest.importorskip("arviz")
    target = scorevi.from_function(
        np.negative,
        2,
        constrain=lambda x: {"mu": x[:, 0], "y_rep": x},
        predictive=["y_rep"],
    )
    fit = gsm_fit(target, max_gradients=50)
    assert [row.name for row in fit.summary] == ["mu"]
    assert list(fit.draws(3)) == ["mu"]
    assert list(fit.draws(3, include="everything")) == ["mu", "y_rep"]
    data = fit.to_arviz(10, seed=1)
    assert list(data["posterior"].data_vars) == ["mu"]
    assert list(data["posterior_predictive"].data_vars) == ["y_rep"]


@pytest.mark.parametrize(
    ("variables", "message"),
    [
        ({"dims": {"gamma": ["city"]}}, "`dims` must name variables.*no 'gamma' among beta"),
        ({"dims": {"beta": ["a", "b"]}}, r"every axis of 'beta', which has shape \(3,\)"),
        (
            {"dims": {"beta": ["city"]}, "coords": {"city": ["Bern"]}},
            "`coords` must have 3 labels for 'city', an axis of 'beta'; got 1",
        ),
        ({"predictive": ["y"]}, "`predictive` must name variables.*no 'y' among beta"),
        ({"predictive": "y"}, "`predictive` must be a list of names; got 'y'"),
    ],
)
def test_names_of_axes_that_do_not_fit_are_refused(variables, message):
    with pytest.raises(ValueError, match=message):
        scorevi.from_function(np.negative, 3, names="beta", batched=True, **variables)
    if variables["predictive" if "predictive" in variables else "dims"] != "y":
        pytest.importorskip("arviz")
        target = scorevi.from_function(
            np.negative, 3, constrain=lambda x: {"beta": x}, batched=True, **variables
        )
        with pytest.raises(ValueError, match=message):
            gsm_fit(target, max_gradients=50).to_arviz(10)


def test_a_target_is_shown_in_a_line():
    assert repr(eight_schools()) == "<FunctionTarget, D = 10: eta[8], mu, log_tau>"
    many = scorevi.from_function(np.negative, 20, names=[f"x{i}" for i in range(20)], batched=True)
    assert repr(many).endswith("x7, ... 12 more>")


def test_a_target_with_other_data_is_refused(tmp_path):
    def target(centre, scale=1.0):
        return scorevi.from_function(
            lambda x: (centre - x) / scale**2,
            2,
            lambda x: -0.5 * ((x - centre) ** 2).sum(axis=1) / scale**2,
            batched=True,
        )

    fitted = gsm_fit(target(1.0), max_gradients=100)
    path = fitted.save(tmp_path / "fit.npz")
    assert scorevi.load(path, target(1.0)).target is not None
    for other in (target(1.0 + 1e-4), target(1.0, 1.001), target(np.nan)):
        with pytest.raises(ValueError, match="`target` must be the one that was fitted; its scor"):
            scorevi.load(path, other)
    again = scorevi.load(path).save(tmp_path / "again.npz")
    assert scorevi.load(again, target(2.0)).target is not None
