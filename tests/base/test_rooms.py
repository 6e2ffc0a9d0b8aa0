"""The rooms of the package import only downwards, and the linter that says so can say no."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter")

ROOT = Path(__file__).parents[2]
LINT = (
    "import sys; from importlinter.cli import lint_imports; "
    "sys.exit(lint_imports(config_filename=sys.argv[1], no_cache=True))"
)


def lint_imports(source):
    return subprocess.run(
        [sys.executable, "-c", LINT, str(ROOT / "pyproject.toml")],
        env=os.environ | {"PYTHONPATH": str(source), "COLUMNS": "200"},
        capture_output=True,
        text=True,
        check=False,
    )


def test_imports_go_one_way():
    result = lint_imports(ROOT / "src")
    assert result.returncode == 0, result.stdout + result.stderr
    assert "A room imports only what stands below it KEPT" in result.stdout


def test_an_import_against_the_stairs_is_found(tmp_path):
    shutil.copytree(
        ROOT / "src" / "scorevi", tmp_path / "scorevi", ignore=shutil.ignore_patterns("*.pyc")
    )
    with (tmp_path / "scorevi" / "base" / "arrays.py").open("a") as file:
        file.write("\nfrom scorevi.engine import run\n")
    result = lint_imports(tmp_path)
    assert result.returncode == 1, result.stdout + result.stderr
    assert "scorevi.base is not allowed to import scorevi.engine" in result.stdout
