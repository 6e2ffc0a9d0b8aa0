"""The Python of the README and of the docs runs as printed, one block after the other."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


def run_blocks(path):
    blocks = re.findall(r"```python\n(.*?)```", path.read_text(), flags=re.DOTALL)
    scope: dict = {}
    for block in blocks:
        exec(compile(block, str(path), "exec"), scope)
    return scope, len(blocks)


@pytest.mark.slow
@pytest.mark.languages
def test_the_examples_for_each_language_run():
    scope, count = run_blocks(ROOT / "docs" / "models.md")
    assert count == 5
    assert scope["data"]["posterior"]["sigma"].shape == (1, 1000)


@pytest.mark.slow
def test_nothing_is_lost(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    _, count = run_blocks(ROOT / "docs" / "lose-nothing.md")
    assert count == 3


@pytest.mark.dask
@pytest.mark.slow
def test_scaling(tmp_path, monkeypatch):
    pytest.importorskip("distributed")
    monkeypatch.chdir(tmp_path)
    _, count = run_blocks(ROOT / "docs" / "scaling.md")
    assert count == 2


@pytest.mark.slow
def test_draws_of_the_posterior_itself(tmp_path, monkeypatch):
    pytest.importorskip("arviz")
    monkeypatch.chdir(tmp_path)
    scope, count = run_blocks(ROOT / "docs" / "sampling.md")
    assert count == 1
    assert scope["sample"].check() == "pass"
    assert (tmp_path / "sample.npz").exists()


@pytest.mark.jax
def test_the_examples_run(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    scope, count = run_blocks(ROOT / "README.md")
    assert count >= 3
    assert (tmp_path / "fit.npz").exists()
    assert abs(scope["step"].q.mean).max() < 5
