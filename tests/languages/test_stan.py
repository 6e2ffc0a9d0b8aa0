"""Stan programs, compiled for real."""

import ctypes
import importlib.metadata
import json
import os
import pickle
import re
import shutil
import subprocess
import sys
import threading
from pathlib import Path

import bridgestan
import numpy as np
import pytest
from conftest import SHORT
from stan_programs import PROGRAMS, REGRESSION, TRANSFORMS

import scorevi
from scorevi.targets.stan import CompileError, interface
from scorevi.targets.stan.columns import outputs_of
from scorevi.targets.stan.data import read_data, write_data
from scorevi.targets.stan.program import Program
from scorevi.targets.stan.toolchain import Toolchain

N = 40
X = np.linspace(-1, 1, N)
DATA = {"N": N, "x": X, "y": 0.5 + X + np.random.default_rng(0).normal(size=N)}


@pytest.fixture(scope="session")
def include_folder():
    return PROGRAMS


@pytest.fixture(scope="session")
def regression(include_folder):
    return scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder], observed=["y"])


@pytest.fixture(scope="session")
def regression_fit(regression):
    return scorevi.fit(regression, max_gradients=300)


@pytest.fixture(scope="session")
def transforms_fit():
    return scorevi.fit(scorevi.from_stan(TRANSFORMS, {"n": 0}), max_gradients=2000)


# --- scores and variables -----------------------------------------------------------------------


def test_scores_are_those_of_bridgestan(regression):
    theta = np.random.default_rng(1).normal(size=(5, 3)) * 0.5
    score, log_density, failures = regression.evaluate(theta)
    assert not failures
    for point, one, value in zip(theta, score, log_density, strict=True):
        expected, gradient = regression.model.log_density_gradient(point)
        assert value == expected
        np.testing.assert_array_equal(one, gradient)


def test_threads_do_not_change_a_bit(regression, include_folder):
    threaded = scorevi.from_stan(REGRESSION, DATA, include_paths=include_folder, threads=3)
    theta = np.random.default_rng(2).normal(size=(50, 3))
    theta[7, 0] = 5.0
    for size in (1, 2, 50):
        alone, together = regression.evaluate(theta[:size]), threaded.evaluate(theta[:size])
        np.testing.assert_array_equal(alone.score, together.score)
        np.testing.assert_array_equal(alone.log_density, together.log_density)
        assert alone.failures == together.failures


def test_many_threads_of_the_user_at_once(regression):
    theta = np.random.default_rng(3).normal(size=(200, 3)) * 0.1
    expected = regression.evaluate(theta).score
    results = [None] * 8

    def work(index):
        results[index] = regression.evaluate(theta).score

    workers = [threading.Thread(target=work, args=(index,)) for index in range(len(results))]
    for worker in workers:
        worker.start()
    for worker in workers:
        worker.join()
    for result in results:
        np.testing.assert_array_equal(result, expected)


def test_what_stan_rejects_is_a_bad_score_with_its_reason(regression):
    evaluation = regression.evaluate(np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]]))
    assert list(evaluation.failures) == [1]
    assert evaluation.failures[1].cause == "raised"
    assert "a is too large: 3" in evaluation.failures[1].detail
    assert np.isnan(evaluation.score[1]).all()
    assert np.isfinite(evaluation.score[0]).all()
    start = np.array([1.5, 0.0, 0.0])
    fit = scorevi.fit(regression, "gsm", max_gradients=300, initial=start, stop=False)
    assert fit.status == "budget"
    assert fit.bad_scores.counts["raised"] > 0


def test_draws_by_name_and_kind(regression, regression_fit):
    parameters = regression_fit.draws(20, seed=1, include="parameters")
    assert list(parameters) == ["a", "b", "sigma"]
    everything = regression_fit.draws(20, seed=1, include="everything")
    assert {name: value.shape[1:] for name, value in everything.items()} == {
        "a": (),
        "b": (),
        "sigma": (),
        "location": (N,),
        "drawn": (),
        "noise_of_data": (),
        "z.real": (),
        "z.imag": (),
        "pair:1": (),
        "pair:2": (2,),
        "log_lik": (N,),
    }
    np.testing.assert_array_equal(everything["sigma"], parameters["sigma"])
    np.testing.assert_allclose(
        everything["location"], everything["a"][:, None] + everything["b"][:, None] * DATA["x"]
    )
    np.testing.assert_array_equal(everything["pair:2"][:, 1], everything["b"])
    again = regression_fit.draws(20, seed=1)
    assert set(everything) - set(again) == {"log_lik"}
    np.testing.assert_array_equal(again["drawn"], everything["drawn"])
    assert not np.array_equal(regression_fit.draws(20, seed=2)["drawn"], everything["drawn"])
    with pytest.raises(ValueError, match='`include` must be one of "parameters", "all", "every'):
        regression_fit.draws(include="some")


def test_draws_that_stan_rejects_are_nan_and_said_so(regression_fit):
    theta = np.array([[0.0, 0.0, 0.0], [3.0, 0.0, 0.0]])
    with pytest.warns(scorevi.FitWarning, match="At 1 of 2 draws.*derived.*a is too large"):
        values = regression_fit.named(theta)
    assert values["a"].tolist() == [0.0, 3.0]
    assert np.isnan(values["location"][1]).all()
    assert np.isfinite(values["location"][0]).all()


def test_the_seed_of_transformed_data(include_folder, regression_fit):
    target = scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder], seed=5)
    other = target.variables.derived(np.zeros((1, 3)), 0)["noise_of_data"]
    assert other != regression_fit.draws(1)["noise_of_data"]


def test_the_print_statement_is_heard(include_folder, capsys):
    scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder])
    assert "N is 40" in capsys.readouterr().out


@pytest.mark.filterwarnings("ignore:Estimated shape parameter of Pareto distribution")
def test_arviz_gets_the_log_likelihood_and_the_data(regression_fit):
    arviz = pytest.importorskip("arviz")
    data = regression_fit.to_arviz(2000, seed=1)
    assert "log_lik" not in data["posterior"]
    assert data["log_likelihood"]["log_lik"].shape == (1, 2000, N)
    np.testing.assert_array_equal(data["observed_data"]["y"].values, DATA["y"])
    loo = arviz.loo(data)
    assert np.isfinite(float(loo.elpd if hasattr(loo, "elpd") else loo.elpd_loo))
    weights = data["sample_stats"]["importance_weight"].values
    assert weights.sum() == pytest.approx(1)
    assert "log_lik[0]" not in [row.name for row in regression_fit.summary]


# --- transforms ---------------------------------------------------------------------------------


def test_constraints_hold(transforms_fit):
    draws = transforms_fit.draws(200, seed=1)
    assert (draws["positive"] > 0).all()
    assert (draws["below"] < 3).all()
    assert ((draws["interval"] > 2) & (draws["interval"] < 5)).all()
    np.testing.assert_allclose(draws["shares"].sum(axis=2), 1, rtol=1e-12)
    assert (draws["shares"] > 0).all()
    for name in ("rising", "rising_positive"):
        assert (np.diff(draws[name], axis=1) > 0).all()
    assert (draws["rising_positive"] > 0).all()
    factor = draws["corr_factor"]
    np.testing.assert_allclose(np.linalg.norm(factor, axis=2), 1, rtol=1e-12)
    np.testing.assert_array_equal(factor, np.tril(factor))
    np.testing.assert_allclose(draws["corr"][:, [0, 1], [0, 1]], 1, rtol=1e-12)
    assert (np.linalg.eigvalsh(draws["cov"]) > 0).all()
    np.testing.assert_array_equal(draws["cov_factor"], np.tril(draws["cov_factor"]))
    np.testing.assert_allclose(np.linalg.norm(draws["direction"], axis=2), 1, rtol=1e-12)
    assert (draws["table"] > 0).all()
    np.testing.assert_allclose(draws["scaled"], 10 * draws["deep"][:, :, 0])


def test_theta_is_labelled_by_the_entries_that_it_moves(transforms_fit):
    """BridgeStan's names of it are in another order than its values where there are arrays."""
    labels = transforms_fit.labels
    assert len(set(labels)) == transforms_fit.dim
    assert [name for name in labels if name.startswith("corr_factor")] == [
        "corr_factor[1,0]",
        "corr_factor[2,0]",
        "corr_factor[2,1]",
    ]
    assert [name for name in labels if name.startswith("cov")] == [
        f"{name}[{place}]" for name in ("cov", "cov_factor") for place in ("0,0", "1,0", "1,1")
    ]
    # Those that stand for one entry each, and so move with it alone.
    base = np.full(transforms_fit.dim, 0.3)
    before = transforms_fit.named(base[None], "parameters")
    for index, label in enumerate(labels):
        name, _, rest = label.partition("[")
        if name not in ("table", "vectors", "deep"):
            continue
        moved = base.copy()
        moved[index] += 0.1
        after = transforms_fit.named(moved[None], "parameters")[name]
        changed = np.argwhere(after[0] != before[name][0])
        assert changed.tolist() == [[int(part) for part in rest.rstrip("]").split(",")]], label


def test_known_posteriors_are_recovered(transforms_fit):
    """Moments of 20,000 draws, whose own error is 0.007 sd; the rest of 0.1 sd is for the fit."""
    draws = transforms_fit.draws(20_000, seed=1)
    i, j = np.mgrid[1:3, 1:4]
    a, b = np.mgrid[1:3, 1:3, 0:1, 0:1][:2]
    coded = i + 0.1 * j
    counts = np.array([[200, 300, 500], [500, 400, 100]])
    shares = counts / 1000
    length = 1 / np.tanh(10) - 1 / 10
    known = {
        "shifted": (12, 0.25),
        "shares": (shares, np.sqrt(shares * (1 - shares) / 1001)),
        "rising": ([-1, 0, 2], 0.1),
        "rising_positive": ([1, 2, 4], 0.1),
        "table": _lognormal(np.log(coded), 0.1),
        "vectors": _lognormal(np.log(coded), 0.1),
        "deep": (2 * a + b + 0.5 * i + 0.1 * j, 0.1),
        "positive": _lognormal(np.log(7), 0.1),
    }
    for name, (mean, sd) in known.items():
        error = (draws[name].mean(axis=0) - mean) / sd
        assert np.abs(error).max() < 0.1, name
        np.testing.assert_allclose(draws[name].std(axis=0) / sd, 1, atol=0.1, err_msg=name)
    logit = np.log((draws["interval"] - 2) / (5 - draws["interval"]))
    assert logit.mean() == pytest.approx(0.5, abs=0.03)
    assert logit.std() == pytest.approx(0.3, abs=0.03)
    assert np.log(3 - draws["below"]).mean() == pytest.approx(1, abs=0.02)
    # The marginal correlation of LKJ(eta) in K dimensions is a Beta(a, a) on (-1, 1) with
    # a = eta - 1 + K / 2, so its sd is 1 / sqrt(2 a + 1).
    for name, a in (("corr_factor", 100.5), ("corr", 200)):
        values = draws[name][:, 1, 0]
        assert values.mean() * np.sqrt(2 * a + 1) == pytest.approx(0, abs=0.1)
        assert values.std() * np.sqrt(2 * a + 1) == pytest.approx(1, abs=0.1)
    np.testing.assert_allclose(draws["cov"].mean(axis=0), [[2, 0.6], [0.6, 1]], rtol=0.02)
    assert draws["cov"][:, 0, 0].std() == pytest.approx(2 * np.sqrt(2 / 400), rel=0.1)
    # Von Mises-Fisher: the mean of x·mu is coth(kappa) - 1/kappa. Its Gaussian image in the
    # unconstrained space is only roughly Gaussian, hence the wide margin on 1 - length = 0.1.
    for row, axis in ((0, 0), (1, 2)):
        assert draws["direction"][:, row, axis].mean() == pytest.approx(length, abs=0.03)


def _lognormal(mu, sigma):
    mean = np.exp(mu + sigma**2 / 2)
    return mean, mean * np.sqrt(np.expm1(sigma**2))


def test_columns_in_any_order():
    names = ["m.1.1", "m.2.1", "m.1.2", "m.2.2", "s", "t.1:1", "t.2:1", "t.1:2", "t.2:2"]
    found = {name: columns.tolist() for name, columns in outputs_of(names)}
    assert found == {"m": [[0, 2], [1, 3]], "s": 4, "t:1": [5, 6], "t:2": [7, 8]}


# --- the library --------------------------------------------------------------------------------


@SHORT
def test_a_library_or_a_stan_model_will_do(regression, include_folder, tmp_path):
    library = scorevi.compile_stan(REGRESSION, include_paths=[include_folder])
    for name in ("libtbb.so.2", "model.so"):
        shutil.copyfile(library.parent / name, tmp_path / name)
    theta = np.random.default_rng(4).normal(size=(3, 3)) * 0.3
    expected = regression.evaluate(theta).score
    by_library = scorevi.from_stan(tmp_path / "model.so", DATA)
    np.testing.assert_array_equal(by_library.evaluate(theta).score, expected)
    text = write_data(DATA, None)
    model = bridgestan.StanModel(tmp_path / "model.so", text, warn=False)
    assert scorevi.fit(model, max_gradients=100).parameters == regression.parameters
    with pytest.raises(ValueError, match="`data` must be left out for a StanModel"):
        scorevi.from_stan(model, DATA)


def test_a_moved_library_loads_in_a_new_process_with_the_official_client(include_folder, tmp_path):
    """The folder of the environment is neither in the library nor in the loader's path."""
    library = scorevi.compile_stan(REGRESSION, include_paths=[include_folder])
    shutil.copytree(library.parent, tmp_path / "moved")
    code = (
        "import warnings; warnings.simplefilter('error'); import bridgestan, sys; "
        "print(bridgestan.StanModel(sys.argv[1], sys.argv[2]).param_unc_num())"
    )
    command = [sys.executable, "-c", code, str(tmp_path / "moved" / "model.so")]
    clean = {name: value for name, value in os.environ.items() if name != "LD_LIBRARY_PATH"}
    run = subprocess.run(
        [*command, write_data(DATA, None)], capture_output=True, text=True, env=clean, check=True
    )
    assert run.stdout.splitlines()[-1] == "3"
    assert str(Toolchain.find().root).encode() not in library.read_bytes()


def test_only_bridgestans_interface_is_visible(include_folder):
    library = scorevi.compile_stan(REGRESSION, include_paths=[include_folder])
    listed = subprocess.run(
        ["nm", "-D", "--defined-only", str(library)], capture_output=True, text=True, check=True
    )
    names = {line.split()[-1] for line in listed.stdout.splitlines()}
    assert all(name.startswith("bs_") for name in names)
    assert {"bs_param_initialize", "bs_log_density_hessian_vector_product"} <= names


def test_the_rest_of_bridgestans_interface(regression):
    model, theta = regression.model, np.array([0.1, -0.2, 0.3])
    assert model.name() == "scorevi_model"
    assert "STAN_THREADS=true" in model.model_info()
    value, _, hessian = model.log_density_hessian(theta)
    assert value == model.log_density(theta)
    step = 1e-5
    for axis in range(3):
        shift = step * np.eye(3)[axis]
        up, down = (model.log_density_gradient(theta + sign * shift)[1] for sign in (1, -1))
        np.testing.assert_allclose(hessian[axis], (up - down) / (2 * step), rtol=1e-5, atol=1e-6)
    _, product = model.log_density_hessian_vector_product(theta, np.array([1.0, 2.0, 3.0]))
    np.testing.assert_allclose(product, hessian @ [1.0, 2.0, 3.0], rtol=1e-6)
    constrained = model.param_constrain(theta)
    assert constrained[2] == pytest.approx(np.exp(0.3))
    np.testing.assert_allclose(model.param_unconstrain(constrained), theta)
    by_json = model.param_unconstrain_json({"a": 0.1, "b": -0.2, "sigma": np.exp(0.3)})
    np.testing.assert_allclose(by_json, theta)
    start = model.param_initialize(model.new_rng(1), {"b": 0.25}, init_radius=1.0)
    assert start[1] == 0.25
    assert (np.abs(start) <= 1).all()
    with pytest.raises(RuntimeError, match="a is too large"):
        model.param_initialize(model.new_rng(1), {"a": 4.0})
    constant = model.log_density(theta, propto=False) - model.log_density(theta)
    other = model.log_density(theta + 0.1, propto=False) - model.log_density(theta + 0.1)
    assert constant == pytest.approx(other)
    assert model.log_density(theta, jacobian=False) == pytest.approx(value - 0.3)


def test_a_bridgestan_installation_is_used_where_there_is_one(
    monkeypatch, tmp_path, include_folder, regression
):
    """A stand-in for BridgeStan's folder: what it compiles is copied from our own cache."""
    library = scorevi.compile_stan(REGRESSION, include_paths=[include_folder])
    folder = tmp_path / "bridgestan"
    folder.mkdir()
    (folder / "Makefile").write_text(
        "%_model.so: %.stan\n"
        f"\tcp {library} $@; cp {library.parent}/libtbb.so.2 $(dir $@)\n"
        "\techo $(STANCFLAGS) $(STAN_THREADS) > flags\n"
    )
    monkeypatch.setenv("BRIDGESTAN", str(folder))
    monkeypatch.setenv("SCOREVI_CACHE", str(tmp_path / "cache"))
    target = scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder])
    assert target.model.lib_path.startswith(str(tmp_path / "cache"))
    flags = (folder / "flags").read_text()
    assert f"--include-paths={include_folder}" in flags
    assert "True" in flags
    theta = np.zeros((1, 3))
    np.testing.assert_array_equal(target.evaluate(theta).score, regression.evaluate(theta).score)
    monkeypatch.setenv("BRIDGESTAN", str(tmp_path))
    with pytest.raises(ValueError, match="BRIDGESTAN must be BridgeStan's folder, with its Make"):
        scorevi.compile_stan(REGRESSION)


def test_a_library_without_threads_is_not_given_any(monkeypatch, regression):
    monkeypatch.setattr(regression.model, "model_info", lambda: "STAN_THREADS=false")
    with pytest.raises(ValueError, match="`threads` must be 1 for a library compiled without"):
        scorevi.from_stan(regression.model, threads=2)


def test_the_shim_reports_the_version_it_was_written_for(regression, monkeypatch):
    assert regression.model.model_version() == interface.INTERFACE
    # Whatever client is there when it is compiled.
    flags = interface.defines()
    monkeypatch.setattr(bridgestan, "__version__", "2.7.1")
    monkeypatch.setattr(importlib.metadata, "version", lambda name: "2.7.1")
    assert interface.defines() == flags
    assert [int(flag.split("=")[1]) for flag in flags] == list(interface.INTERFACE)


def test_the_shim_has_all_that_its_version_of_the_client_asks_for(include_folder):
    if interface._parsed(bridgestan.__version__)[:2] > interface.INTERFACE[:2]:
        pytest.skip("the client is newer than the interface that the shim was written for")
    source = Path(bridgestan.__file__).with_name("model.py").read_text()
    wanted = set(re.findall(r"stanlib\.(bs_\w+)", source))
    library = ctypes.CDLL(str(scorevi.compile_stan(REGRESSION, include_paths=[include_folder])))
    assert len(wanted) > 15
    assert all(hasattr(library, name) for name in wanted)


@pytest.mark.parametrize("version", ["2.6.2", "1.0.0", "3.0.0"])
def test_a_client_that_does_not_fit_is_named(monkeypatch, version, include_folder):
    monkeypatch.setattr(bridgestan, "__version__", version)
    message = rf"need bridgestan>=2\.7,<3; {version} is installed.*pip install 'bridgestan>="
    with pytest.raises(ImportError, match=message):
        scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder])


def test_a_client_of_another_minor_version_will_do(monkeypatch, regression):
    """The tests make errors of warnings, and the client warns of any difference."""
    monkeypatch.setattr(bridgestan.model, "__version_info__", (2, 8, 1))
    monkeypatch.setattr(bridgestan, "__version__", "2.8.1")
    library = Path(regression.model.lib_path)
    assert scorevi.from_stan(library, DATA).dim == 3


def test_a_newer_client_that_asks_for_more_is_told_apart(monkeypatch, regression):
    def newer(self, library, *_, **__):
        return ctypes.CDLL(str(library)).bs_of_the_future

    monkeypatch.setattr(bridgestan, "__version__", "2.99.0")
    library = Path(regression.model.lib_path)
    monkeypatch.setattr(bridgestan.StanModel, "__init__", newer)
    message = r"client, 2\.99\.0, asks for more.*2\.9\.0.*bs_of_the_future.*'bridgestan<=2\.9\.0'"
    with pytest.raises(ValueError, match=message):
        scorevi.from_stan(library, DATA)


def test_a_library_of_another_major_version_is_refused(monkeypatch, regression):
    monkeypatch.setattr(interface, "_version_of", lambda library: (1, 0, 2))
    with pytest.raises(ValueError, match=r"with version 2 of .* has 1\.0\.2\. Compile the program"):
        scorevi.from_stan(Path(regression.model.lib_path), DATA)


def test_a_pickled_target_is_the_same(include_folder):
    target = scorevi.from_stan(
        PROGRAMS / "line.stan",
        DATA,
        include_paths=[include_folder],
        observed=["y"],
        predictive=["drawn"],
        dims={"location": ["day"]},
        coords={"day": list(range(N))},
        threads=2,
    )
    copy = pickle.loads(pickle.dumps(target))
    assert repr(copy) == repr(target) == "<StanTarget 'line.stan', D = 3: a, b, sigma>"
    assert (copy.name, copy.threads) == (target.name, target.threads)
    for name in ("predictive", "dims", "coords"):
        assert getattr(copy.variables, name) == getattr(target.variables, name), name
    np.testing.assert_array_equal(copy.variables.observed["y"], DATA["y"])
    theta = np.zeros((2, 3))
    np.testing.assert_array_equal(copy.evaluate(theta).score, target.evaluate(theta).score)


# --- what goes wrong ----------------------------------------------------------------------------


def test_a_syntax_error_comes_with_line_and_caret():
    with pytest.raises(CompileError) as caught:
        scorevi.from_stan("parameters { real x }")
    message = str(caught.value)
    assert "line 1, column 20" in message
    assert "   ^\n" in message


def test_an_include_that_is_not_found():
    with pytest.raises(ValueError, match=r"(?s)shared\.stan.*where included files are with `inc"):
        scorevi.from_stan(REGRESSION, DATA)


def test_no_compiler(monkeypatch):
    monkeypatch.delenv("CXX", raising=False)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompileError, match=r"needs a C\+\+ compiler.*apt install g"):
        scorevi.compile_stan("parameters { real x; }")
    monkeypatch.setenv("CXX", "/nowhere/c++ -v")
    with pytest.raises(CompileError, match=r"looked for CXX=/nowhere/c\+\+ -v"):
        scorevi.compile_stan("parameters { real x; }")


def test_a_compiler_that_fails(monkeypatch, tmp_path):
    fake = tmp_path / "c++"
    fake.write_text("#!/bin/sh\ntest $1 = --version && exit 0\necho 'out of luck' >&2; exit 3\n")
    fake.chmod(0o700)
    monkeypatch.setenv("CXX", str(fake))
    monkeypatch.setenv("SCOREVI_CACHE", str(tmp_path / "cache"))
    with pytest.raises(CompileError, match=r"(?s)failed with code 3.*out of luck"):
        scorevi.compile_stan("parameters { real x; }")
    left = [path.name for path in (tmp_path / "cache" / "models").iterdir()]
    assert all(name.endswith(".lock") for name in left)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            {"y": None},
            "`data` must hold 'y', .*an array of 1 dimension of type real; it holds N, x",
        ),
        ({"y": [1.0]}, "`data`: 'y' does not fit the program. Stan says: mismatch in dimension"),
        ({"y": [[1.0]]}, r"`data`: 'y' must be an array of 1 dimension.*; got shape \(1, 1\)"),
        ({"N": 1.5}, "`data`: 'N' must hold whole numbers"),
        ({"N": -1}, "`data` was refused. Stan says: .*N is -1"),
        ({"y": "many"}, "`data`: 'y' must hold real numbers; got str 'many'"),
        ({"y": [1.0, "2.5"]}, r"must hold real numbers; got str '2.5' at \[1\]"),
        ({"y": [1.0, None]}, r"must hold real numbers; got NoneType 'None' at \[1\]"),
        ({"y": [1.0, 2j]}, "'y' must hold real numbers; got complex128"),
        ({"y": np.zeros(N, "M8[D]")}, r"must hold real numbers; got datetime64\[D\]"),
        ({"y": np.zeros(N, "m8[s]")}, r"must hold real numbers; got timedelta64\[s\]"),
        ({"y": np.ma.masked_less(X, 0)}, "'y' must have no masked entries; 20 of 40 are"),
        ({"y": [[1.0], [1.0, 2.0]]}, "`data`: 'y' must be rectangular"),
        ({"N": float("nan")}, "`data`: 'N' must hold whole numbers"),
    ],
)
def test_data_that_does_not_fit(change, message, include_folder, regression):
    data = {name: value for name, value in (DATA | change).items() if value is not None}
    with pytest.raises(ValueError, match=message):
        scorevi.from_stan(REGRESSION, data, include_paths=[include_folder])


def test_data_in_every_form(include_folder, regression, tmp_path):
    theta = np.array([[0.1, 0.2, 0.3]])
    expected = regression.evaluate(theta).score
    plain = {"N": 40.0, "x": tuple(DATA["x"]), "y": DATA["y"].tolist(), "unused": "text"}
    (tmp_path / "data.json").write_text(json.dumps(plain))
    for data in (plain, json.dumps(plain), tmp_path / "data.json", str(tmp_path / "data.json")):
        target = scorevi.from_stan(REGRESSION, data, include_paths=[include_folder])
        np.testing.assert_array_equal(target.evaluate(theta).score, expected)


def test_nan_in_the_data_is_said(include_folder, regression):
    y = DATA["y"].tolist()
    y[3] = y[5] = "NaN"
    message = r"`data`: 'y' holds NaN at \[3\] and 1 more"
    with pytest.warns(scorevi.FitWarning, match=message):
        scorevi.from_stan(REGRESSION, DATA | {"y": y}, include_paths=[include_folder])


def test_no_masked_entry_is_no_mask(include_folder, regression):
    data = DATA | {"y": np.ma.masked_invalid(DATA["y"])}
    target = scorevi.from_stan(REGRESSION, data, include_paths=[include_folder])
    theta = np.array([[0.1, 0.2, 0.3]])
    np.testing.assert_array_equal(target.evaluate(theta).score, regression.evaluate(theta).score)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"dims": {"w": ["a"]}}, "`dims` must name variables of the model; there is no 'w' among"),
        ({"dims": {"log_lik": ["a", "b"]}}, r"every axis of 'log_lik', which has shape \(40,\)"),
        (
            {"dims": {"y": ["day"]}, "observed": ["y"], "coords": {"day": [1, 2]}},
            "`coords` must have 40 labels for 'day', an axis of 'y'; got 2",
        ),
        ({"predictive": ["y"]}, "`predictive` must name variables of the model; there is no 'y'"),
        ({"observed": "y"}, "`observed` must be a list of names; got 'y'"),
    ],
)
def test_names_that_do_not_fit_are_refused_at_once(options, message, include_folder, regression):
    with pytest.raises(ValueError, match=message):
        scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder], **options)


def test_it_is_shown_in_a_line(regression):
    assert repr(regression) == "<StanTarget 'program.stan', D = 3: a, b, sigma>"


@pytest.mark.parametrize(
    ("data", "message"),
    [
        ("{not json", "`data` must be JSON; the text is not"),
        ("nowhere.json", r"`data` could not be read: nowhere\.json: No such file"),
        (3, "`data` must be a dict, a path to a JSON file, or JSON text; got int"),
    ],
)
def test_data_that_cannot_be_read(data, message):
    with pytest.raises(ValueError, match=message):
        read_data(data)


@pytest.mark.parametrize(
    ("program", "message"),
    [
        ("nowhere.stan", r"there is no file nowhere\.stan"),
        ("nowhere.so", r"`program` must be a file; there is none at nowhere\.so"),
        (3, "`program` must be a path, the source.*; got int"),
    ],
)
def test_programs_that_are_none(program, message):
    with pytest.raises(ValueError, match=message):
        scorevi.from_stan(program)


def test_a_library_of_another_kind(tmp_path):
    (tmp_path / "text.so").write_text("not a library")
    with pytest.raises(ValueError, match="must be a library with BridgeStan's interface"):
        scorevi.from_stan(tmp_path / "text.so")
    other = tmp_path / "other.so"
    shutil.copyfile(_libm(), other)
    with pytest.raises(ValueError, match="must be a library with BridgeStan's interface"):
        scorevi.from_stan(other)


def _libm():
    maps = Path("/proc/self/maps").read_text().splitlines()
    return next(line.split()[-1] for line in maps if "/libm" in line and ".so" in line)


def test_observed_must_name_data(regression, include_folder):
    with pytest.raises(ValueError, match="`observed` must name data; 'w' is not among N, x, y"):
        scorevi.from_stan(REGRESSION, DATA, include_paths=[include_folder], observed=["w"])


def test_programs_are_known_by_their_content(include_folder, tmp_path):
    first = scorevi.compile_stan(REGRESSION, include_paths=[include_folder])
    path = tmp_path / "copy.stan"
    path.write_text(REGRESSION)
    program = Program.read(path, [include_folder])
    assert program.include_paths == (include_folder, tmp_path)
    assert scorevi.compile_stan(REGRESSION, include_paths=[include_folder]) == first


def test_options_of_cxx_come_last(monkeypatch):
    monkeypatch.setenv("CXX", "env g++ -O1")
    command = Toolchain.find().compile
    assert command[0].endswith("env")
    assert command[1] == "g++"
    assert command.index("-O1") > command.index("-O3")


def test_the_source_is_kept_for_reports():
    code = "parameters { real mu; } model { mu ~ normal(0, 1); }"
    target = scorevi.from_stan(code)
    assert target.variables.source == code
    assert scorevi.fit(target, seed=0).origin.source == code
