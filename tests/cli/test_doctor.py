"""What works here, and what the Tab key knows."""

import json
import os
import subprocess
import sys

import pytest
from command import environment, run

from scorevi.cli import doctor as module


@pytest.mark.slow
@pytest.mark.languages
def test_the_doctor_looks_at_all_that_is_installed(tmp_path):
    result = run(tmp_path, "doctor")
    assert result.returncode == 0, result.stdout
    assert "works    a fit" in result.stdout
    assert "works    PyMC models" in result.stdout
    assert "thread(s)" in result.stdout
    told = json.loads(run(tmp_path, "doctor", "--json").stdout)
    assert {finding["state"] for finding in told["findings"]} == {"works"}
    assert told["rest"] == []


def test_what_is_missing_is_got_by_one_command(tmp_path, monkeypatch):
    extras = {"plots": ["matplotlib"], "pymc": ["nowhere_a"], "stan": ["json", "nowhere_b"]}
    monkeypatch.setattr(module, "extras", lambda: extras)
    monkeypatch.setattr(module, "find_compiler", lambda: None)
    monkeypatch.setenv("CXX", "nowhere")
    result = run(tmp_path, "doctor")
    assert result.returncode == 0
    assert "missing  PyMC models                    needs nowhere_a" in result.stdout
    assert "missing  Stan programs                  needs nowhere_b" in result.stdout
    assert "To get the rest: pip install 'scorevi[pymc,stan]'" in result.stdout
    assert "missing  a C++ compiler" in result.stdout


def test_what_is_broken_is_named_and_exits_with_1(tmp_path, monkeypatch):
    (tmp_path / "shattered.py").write_text("raise RuntimeError('no\\nway')")
    monkeypatch.syspath_prepend(tmp_path)
    monkeypatch.setattr(module, "extras", lambda: {"plots": ["shattered"]})
    result = run(tmp_path, "doctor")
    assert result.returncode == 1
    assert "broken   pictures                       RuntimeError: no way" in result.stdout


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("scorevi re", "plain,report\n"),
        ("scorevi plot fit.npz ma", "plain,marginals\n"),
        ("scorevi fit --fam", "plain,--family\n"),
        ("scorevi fit mo", "file,\n"),
    ],
)
def test_the_shell_completes(words, completed):
    result = subprocess.run(
        [sys.executable, "-m", "scorevi"],
        env=environment()
        | {
            "COMP_WORDS": words,
            "COMP_CWORD": str(len(words.split()) - 1),
            "_SCOREVI_COMPLETE": "bash_complete",
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert (result.returncode, result.stdout) == (0, completed), result.stderr


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_each_shell_gets_its_script(tmp_path, shell):
    result = run(tmp_path, "completion", shell)
    assert result.returncode == 0, result.stderr
    assert "_SCOREVI_COMPLETE" in result.stdout
    if shell == "bash" and os.path.exists("/bin/bash"):  # noqa: PTH110
        checked = subprocess.run(["/bin/bash", "-n"], input=result.stdout, text=True, check=False)
        assert checked.returncode == 0
