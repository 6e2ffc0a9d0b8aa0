"""The README's Python runs as printed, one block after the other."""

import re
from pathlib import Path

import pytest

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.jax
def test_the_examples_run(tmp_path, monkeypatch):
    pytest.importorskip("jax")
    monkeypatch.chdir(tmp_path)
    blocks = re.findall(r"```python\n(.*?)```", README.read_text(), flags=re.DOTALL)
    assert len(blocks) >= 3
    scope: dict = {}
    for block in blocks:
        exec(compile(block, str(README), "exec"), scope)
    assert (tmp_path / "fit.npz").exists()
    assert abs(scope["step"].q.mean).max() < 5
