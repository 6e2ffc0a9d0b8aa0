"""Stan programs on the command line."""

import json
from importlib import resources

import numpy as np
import pytest
from command import run
from stan_programs import PROGRAMS

import scorevi

PROGRAM = str(resources.files("scorevi.studies") / "models" / "eight_schools_noncentered.stan")
PRINTS = str(PROGRAMS / "prints.stan")
DATA = {
    "J": 8,
    "y": [28, 8, -3, 7, -1, 1, 18, 12],
    "sigma": [15, 10, 16, 11, 9, 11, 10, 18],
}


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "data.json").write_text(json.dumps(DATA))
    (tmp_path / "short.json").write_text(json.dumps(DATA | {"y": [1, 2]}))
    (tmp_path / "broken.stan").write_text("parameters { real x }")
    return tmp_path


def test_fit_writes_all_that_is_asked_for(folder):
    arviz = pytest.importorskip("arviz")
    options = ["--data", "data.json", "--max-gradients", "200", "--num-draws", "30", "--json"]
    for ending in ("nc", "csv", "parquet"):
        result = run(
            folder, "fit", PROGRAM, *options, "--out", "fit.npz", "--draws", f"draws.{ending}"
        )
        assert result.returncode == 0, result.stderr
        assert json.loads(result.stdout)["num_gradients"] <= 200
    target = scorevi.from_stan(PROGRAM, folder / "data.json")
    fit = scorevi.load(folder / "fit.npz", target)
    expected = fit.draws(30, seed=0)
    data = arviz.from_netcdf(str(folder / "draws.nc"))
    np.testing.assert_array_equal(data["posterior"]["theta"].values[0], expected["theta"])
    header = (folder / "draws.csv").read_text().splitlines()[0]
    assert header.startswith("theta_trans[0],")
    assert header.endswith(",theta[7]")
    pandas = pytest.importorskip("pandas")
    table = pandas.read_parquet(folder / "draws.parquet")
    assert list(table.columns) == header.split(",")
    np.testing.assert_array_equal(table["tau"], expected["tau"])


def test_compile_prints_where_the_library_is_and_fit_takes_it(folder):
    cached = run(folder, "compile", PROGRAM)
    assert cached.returncode == 0, cached.stderr
    assert cached.stdout.strip().endswith("model.so")
    copied = run(folder, "compile", PROGRAM, "--out", "schools.so")
    assert copied.stdout.strip() == "schools.so"
    result = run(folder, "fit", "schools.so", "--data", "data.json", "--max-gradients", "100")
    assert result.returncode == 0, result.stderr
    assert "theta_trans[0]" in result.stdout


def test_a_syntax_error_keeps_its_lines(folder):
    result = run(folder, "compile", "broken.stan")
    assert result.returncode == 2
    assert result.stdout == ""
    assert "Syntax error in 'broken.stan', line 1, column 20" in result.stderr
    assert "                            ^\n" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([PROGRAM], "--data must hold 'J'"),
        ([PROGRAM, "--data", "short.json"], "--data: 'y' does not fit the program. Stan says"),
        ([PROGRAM, "--data", "none.json"], "--data could not be read: none.json: No such file"),
        ([PROGRAM, "--data", "data.json", "--dim", "3"], "--dim is for a log density in JAX"),
        ([PROGRAM, "--include-path", "none"], "--include-path must be folders; there is none at"),
        (["none.stan"], "there is no file none.stan"),
        (["model.py:target", "--data", "data.json"], "--data is for a Stan program; got model.py"),
    ],
)
def test_errors_are_one_line(folder, arguments, message):
    result = run(folder, "fit", *arguments)
    assert result.returncode == 2
    assert message in result.stderr
    assert len(result.stderr.splitlines()) == 1


def test_what_a_program_prints_does_not_get_into_the_result(folder):
    arviz = pytest.importorskip("arviz")
    (folder / "nan.json").write_text('{"n": 3, "y": [1, 2, 3], "unused": NaN}')
    result = run(
        folder, "fit", PRINTS, "--data", "nan.json", "--observed", "y", "--predictive",
        "y_rep", "--draws", "draws.nc", "--num-draws", 20, "--max-gradients", 100, "--json",
    )  # fmt: skip
    assert [row["name"] for row in json.loads(result.stdout)["parameters"]] == ["mu"]
    assert "at " in result.stderr
    assert "note" not in result.stderr
    data = arviz.from_netcdf(str(folder / "draws.nc"))
    assert list(data["posterior"].data_vars) == ["mu"]
    assert data["posterior_predictive"]["y_rep"].shape == (1, 20, 3)
    np.testing.assert_array_equal(data["observed_data"]["y"], [1, 2, 3])


def test_nan_in_the_data_is_noted(folder):
    (folder / "nan.json").write_text(json.dumps(DATA | {"y": ["NaN"] + [1] * 7}))
    result = run(folder, "fit", PROGRAM, "--data", "nan.json", "--max-gradients", "100")
    assert "scorevi: note: --data: 'y' holds NaN at [0]." in result.stderr
