"""The command ``sample``: what it prints and writes, how it exits, and how it is interrupted."""

import json
import signal
import subprocess

import numpy as np
import pytest
from command import command_line, environment, run
from waiting import wait_until

import scorevi

pytest.importorskip("nutpie")

MODEL = """
import numpy as np
import scorevi

target = scorevi.from_function(
    lambda x: [1.0, -2.0] - x, 2, lambda x: -0.5 * ((x - [1.0, -2.0]) ** 2).sum(axis=1),
    names=["alpha", "beta"], batched=True)
score_alone = scorevi.from_function(lambda x: -x, 2, batched=True)
flat = scorevi.from_function(np.zeros_like, 2, lambda x: 0 * x[:, 0], batched=True)

def slow():
    import time
    from pathlib import Path
    calls = []
    def log_density(x):
        calls.append(x)
        if len(calls) > 1500:  # of some 2,500 to 3,000, the last two thirds of which are draws
            Path("under-way").touch()
            time.sleep(0.0002)
        return -np.cosh(x).sum(axis=1)
    return scorevi.from_function(lambda x: -np.sinh(x), 2, log_density, batched=True)
"""


@pytest.fixture
def folder(tmp_path):
    (tmp_path / "model.py").write_text(MODEL)
    return tmp_path


def test_it_prints_the_table_the_way_and_the_verdict(folder):
    result = run(
        folder, "sample", "model.py:target", "--num-draws", 400, "--ess", 200, "--progress"
    )
    assert result.returncode == 0, result.stderr
    assert "/200000 gradients" in result.stderr
    lines = result.stdout.splitlines()
    assert lines[0].split() == ["parameter", "mean", "error", "sd", "5%", "50%", "95%"]
    assert lines[1].split()[0] == "alpha"
    assert "sample:     400 draws in 4 chains, by importance weights" in result.stdout
    assert "gradients:" in result.stdout
    assert "worst:      effective sample" in result.stdout
    assert "verdict:    pass" in result.stdout


@pytest.mark.slow
def test_files_and_json(folder):
    arguments = ["--method", "nuts", "--ess", 100, "--out", "s.npz", "--draws", "d.csv", "--json"]
    result = run(folder, "sample", "model.py:target", *arguments)
    assert result.returncode == 0, result.stderr
    told = json.loads(result.stdout)
    assert told["method"] == "nuts"
    assert told["verdict"]["word"] == "pass"
    assert told["ess"] >= 100
    assert told["num_gradients"] == sum(told["gradients"].values())
    assert told["files"] == {"sample": "s.npz", "draws": "d.csv"}
    sample = scorevi.load(folder / "s.npz")
    assert isinstance(sample, scorevi.Sample)
    rows = (folder / "d.csv").read_text().splitlines()
    assert rows[0] == ".chain,.draw,alpha,beta"
    assert len(rows) == 1 + sample.size
    shown = run(folder, "show", "s.npz")
    assert shown.returncode == 0
    assert "why NUTS:   it was asked for" in shown.stdout


def test_what_cannot_be_sampled(folder):
    result = run(folder, "sample", "model.py:flat", "--out", "s.npz")
    assert result.returncode == 1
    assert "verdict:    fail" in result.stdout
    assert "nothing was drawn" in result.stdout
    assert "--out s.npz was not written: nothing was drawn" in result.stderr
    result = run(folder, "sample", "model.py:score_alone")
    assert result.returncode == 2
    assert "must have a log density to be sampled" in result.stderr
    result = run(folder, "sample", "model.py:target", "--chains", 3)
    assert result.returncode == 2
    result = run(folder, "sample", "model.py:target", "--draws", "d.xyz")
    assert result.returncode == 2
    assert "--draws must end in one of .nc, .csv, .parquet" in result.stderr
    result = run(folder, "sample", "model.py:target", "--resume")
    assert "--resume needs --checkpoint" in result.stderr


@pytest.mark.slow
def test_ctrl_c_keeps_what_there_is_and_a_checkpoint_goes_on(folder):
    arguments = ["sample", "model.py:slow", "--method", "nuts", "--num-draws", 1600]
    files = ["--out", "s.npz", "--checkpoint", "run.ckpt", "--checkpoint-seconds", 0]
    process = subprocess.Popen(
        command_line([*arguments, *files]),
        cwd=folder,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=environment(),
    )
    wait_until(lambda: (folder / "under-way").exists(), "the chains have begun")
    process.send_signal(signal.SIGINT)
    out, err = process.communicate()
    assert process.returncode == 130, err
    assert "status:     interrupted" in out
    (folder / "under-way").unlink()
    kept = scorevi.load(folder / "s.npz")
    assert 0 < kept.size < 1600
    result = run(folder, *arguments, *files, "--resume")
    assert result.returncode == 0, result.stderr
    whole = scorevi.load(folder / "s.npz")
    assert whole.size >= 1600
    count = kept.theta.shape[1]
    np.testing.assert_array_equal(whole.theta[:, :count], kept.theta[:, :count])
