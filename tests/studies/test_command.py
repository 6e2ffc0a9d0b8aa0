"""``scorevi study``, end to end."""

import csv
import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner
from pool import Here

from scorevi.cli import cli
from scorevi.studies import STUDY_NAMES, execute
from scorevi.studies.table import Row

pytest.importorskip("jax")
pytest.importorskip("matplotlib")
has_data = "PDB_PATH" in os.environ


def scorevi(*arguments, folder, **environment):
    return subprocess.run(
        [sys.executable, "-m", "scorevi", *arguments],
        cwd=folder,
        capture_output=True,
        text=True,
        env=os.environ | environment,
        check=False,
    )


@pytest.mark.slow
@pytest.mark.languages
def test_all_quick(tmp_path):
    names = [name for name in STUDY_NAMES if has_data or name != "posteriordb"]
    result = scorevi("study", "all", "--quick", "--runs", "1", "--out", "results", folder=tmp_path)
    assert result.returncode == 0, result.stderr
    assert ("posteriordb is left out" in result.stderr) is not has_data
    for name in names:
        folder = tmp_path / "results" / name
        with (folder / "results.csv").open(newline="") as file:
            rows = list(csv.DictReader(file))
        assert list(rows[0]) == list(Row._fields)
        assert {row["study"] for row in rows} == {name}
        assert not any(row["value"] == "nan" for row in rows)
        assert_drawn(folder / f"{name}.png")
        assert (folder / f"{name}.svg").read_text().startswith("<?xml")
        assert f"{name}: " in result.stdout
    # GSM converges on Gaussians even in quick runs, and the rules see it.
    assert "holds: GSM takes 10 to 100 times fewer gradients than BBVI." in result.stdout
    again = run("scorecard", "--out", str(tmp_path / "results"), "--to", str(tmp_path / "card.md"))
    assert again.exit_code == 0, again.output
    text = (tmp_path / "card.md").read_text()
    assert "Quick runs" in text
    for picture in re.findall(r"\(figures/(.+?)\)", text):
        assert_drawn(tmp_path / "figures" / picture)
    verdicts = re.findall(r"\*\*(holds|holds partly|does not hold here)\*\*", text)
    assert len(verdicts) == (16 if has_data else 12)
    if has_data:
        assert "10 to 100 times fewer gradients on real posteriors" in text
        assert re.search(r"\| arK \| .*1 of 1 within 0.2: met", text)


def assert_drawn(path):
    """A picture with axes, text and lines in several colours, not an empty page."""
    import matplotlib.image

    pixels = matplotlib.image.imread(path)[..., :3]
    dark = (pixels.max(axis=2) < 0.35).mean()
    coloured = (np.ptp(pixels, axis=2) > 0.25).mean()
    assert pixels.shape[0] > 250
    assert pixels.shape[1] > 500 or "clock" in path.name
    assert 0.002 < dark < 0.3
    assert coloured > 0.0005


def run(*arguments):
    return CliRunner().invoke(cli, ["study", *arguments])


def test_without_a_posteriordb(monkeypatch, tmp_path):
    monkeypatch.delenv("PDB_PATH", raising=False)
    result = run("posteriordb", "--quick", "--out", str(tmp_path))
    assert "git clone https://github.com/stan-dev/posteriordb" in str(result.exception)
    assert "--posteriordb" in str(result.exception)
    result = run("posteriordb", "--posteriordb", str(tmp_path), "--out", str(tmp_path))
    assert "has no folder posteriors" in str(result.exception)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["condition", "--solvers", "gsm,advi"], "--solvers must be out of gsm, bbvi, bam, auto"),
        (["condition", "--posterior", "x"], "--posterior goes with NAME posteriordb"),
        (["condition", "--to", "x.md"], "--to goes with NAME scorecard"),
    ],
)
def test_what_does_not_fit_is_refused(arguments, words, tmp_path):
    assert words in str(run(*arguments, "--out", str(tmp_path)).exception)


@pytest.mark.skipif(not has_data, reason="needs PDB_PATH")
def test_an_unknown_posterior_is_named_with_those_close_to_it(tmp_path):
    result = run(
        "posteriordb", "--posterior", "eight_schools-eight_schools", "--out", str(tmp_path)
    )
    assert "no posterior 'eight_schools-eight_schools'" in str(result.exception)
    assert "eight_schools-eight_schools_centered" in str(result.exception)


@pytest.mark.slow
@pytest.mark.languages
@pytest.mark.filterwarnings("ignore::scorevi.FitWarning")
def test_any_posterior_of_any_database(monkeypatch, tmp_path):
    """A database with a program of its own, of which there are no reference draws."""
    pytest.importorskip("httpstan")
    monkeypatch.setattr(execute, "ProcessPoolExecutor", Here)
    base = Path(__file__).with_name("database")
    result = run(
        "posteriordb", "--posteriordb", str(base), "--posterior", "mine-normal", "--quick",
        "--runs", "1", "--solvers", "gsm,auto", "--out", str(tmp_path / "r"),
    )  # fmt: skip
    assert result.exit_code == 0, result.output
    with (tmp_path / "r/posteriordb/results.csv").open(newline="") as file:
        rows = list(csv.DictReader(file))
    assert {row["solver"] for row in rows} == {"gsm", "auto", "best", "auto, by default"}
    last = {row["solver"]: float(row["value"]) for row in rows if row["metric"] == "negative ELBO"}
    assert last["auto"] - last["best"] < 0.1


def test_the_committed_scorecard_has_every_claim():
    from scorevi.studies.claims import CLAIMS

    text = (Path(__file__).parents[2] / "docs" / "scorecard.md").read_text()
    for claim in CLAIMS:
        assert f"| {claim.says.replace('|', chr(92) + '|')} |" in text
    assert "Quick runs" not in text
