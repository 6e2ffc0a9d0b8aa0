"""The scripts in examples/ run, each in a process of its own, and each leaves its picture."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("jax")
pytest.importorskip("matplotlib")

ROOT = Path(__file__).parents[2]
EXAMPLES = ROOT / "examples"
pytestmark = pytest.mark.slow


def run(folder, name, *arguments):
    """Run a script that must succeed; returns what it printed."""
    result = subprocess.run(
        [sys.executable, str(EXAMPLES / f"{name}.py"), "--picture", "it.png", *arguments],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stderr
    assert (folder / "it.png").read_bytes()[:4] == b"\x89PNG"
    return result.stdout


def test_logistic_regression(tmp_path):
    assert run(tmp_path, "logistic_regression").startswith("pass")


def test_eight_schools(tmp_path):
    pytest.importorskip("nutpie")
    one, default = run(tmp_path, "eight_schools", "--draws", "100").split("\n\n")[:2]
    assert "\nwarn" in one or "\nfail" in one
    assert "Gaussian given log_tau" in default
    assert "\npass" in default


@pytest.mark.languages
def test_lotka_volterra(tmp_path):
    assert "\npass" in run(tmp_path, "lotka_volterra")


def test_gaussian_process(tmp_path):
    pytest.importorskip("nutpie")
    assert "<Sample of " in run(tmp_path, "gaussian_process")


def test_many_parameters_of_which_a_few_are_enough_here(tmp_path):
    assert "\npass" in run(tmp_path, "thousand_parameters", "--days", "60")


def test_nuts_is_told_by_a_fit(tmp_path):
    pytest.importorskip("nutpie")
    said = run(tmp_path, "warm_nuts", "--draws", "300")
    told, untold = (float(line.split(": ")[1].split()[0]) for line in said.splitlines()[-3:-1])
    assert told > 2 * untold


@pytest.mark.dask
def test_tall_data(tmp_path):
    pytest.importorskip("distributed")
    assert "converged" in run(tmp_path, "tall_data", "--files", "3", "--rows", "300")


@pytest.mark.dask
def test_ranks_of_a_conjugate_model_are_uniform(tmp_path):
    """It raises a false alarm once in a thousand times; the seeds are fixed."""
    pytest.importorskip("distributed")
    said = run(tmp_path, "sbc", "--fits", "60")
    assert "<60 fits: 60 made> 60 of them computed now" in said


def test_every_script_is_in_the_gallery_with_its_picture():
    gallery = (ROOT / "docs" / "gallery.md").read_text()
    for script in EXAMPLES.glob("*.py"):
        figure = f"figures/{script.stem.replace('_', '-')}.png"
        assert f"examples/{script.name}" in gallery
        assert figure in gallery
        assert (ROOT / "docs" / figure).exists()
