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


@pytest.mark.slow
@pytest.mark.languages
def test_the_readme_has_a_short_example_for_each_language(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    text = (ROOT / "README.md").read_text()
    assert len(text.splitlines()) < 150
    assert "make demo" in text
    assert "make test" in text
    scope, count = run_blocks(ROOT / "README.md")
    assert count == 5
    assert (tmp_path / "fit.npz").exists()
    assert scope["fit"].status == "converged"


@pytest.mark.jax
@pytest.mark.slow
# A parameter that is an axis already is divided by its length, 0, and then put aside.
def test_the_tutorial_ends_well(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    pytest.importorskip("matplotlib")
    pytest.importorskip("nutpie")
    monkeypatch.chdir(tmp_path)
    scope, count = run_blocks(ROOT / "docs" / "tutorial.md")
    assert count == 5
    assert scope["verdict"] == "pass"
    assert scope["sample"].check() == "pass"
    assert (tmp_path / "report.html").exists()


@pytest.mark.slow
@pytest.mark.parametrize(
    ("page", "blocks"),
    [("hierarchies", 2), ("constrained", 1), ("looking", 2), ("from-nuts", 1), ("trust", 1)],
)
def test_the_pages_run(page, blocks, tmp_path, monkeypatch):
    pytest.importorskip("matplotlib")
    pytest.importorskip("nutpie")
    monkeypatch.chdir(tmp_path)
    _, count = run_blocks(ROOT / "docs" / f"{page}.md")
    assert count == blocks
