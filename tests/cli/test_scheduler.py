"""The command line on a cluster: ``--scheduler``."""

import json

import pytest

pytest.importorskip("distributed")

from clusters import deployed
from command import run

pytestmark = [pytest.mark.dask, pytest.mark.slow]

MODEL = """
import functools
import numpy as np
import scorevi

def shard(mean):
    return scorevi.Gaussian.from_moments([mean, 0.0], np.eye(2))

target = scorevi.from_shards([functools.partial(shard, m) for m in (1.0, 4.0)], 2, names=["a", "b"])
def factory(seed):
    if seed == 2:
        raise ValueError("none for two")
    return scorevi.Gaussian.from_moments([float(seed), 0.0], np.eye(2))

alone = scorevi.Gaussian.from_moments([2.0, 0.0], np.eye(2))
"""


def test_shards_restarts_many_fits_and_studies_on_a_scheduler(tmp_path):
    # The worker does not see the file: what it defines is sent along.
    model, away = tmp_path / "model", tmp_path / "away"
    model.mkdir()
    away.mkdir()
    (model / "sums.py").write_text(MODEL)
    with deployed(away) as (address, _):
        scheduler = ("--scheduler", address)
        result = run(model, "fit", "sums.py:target", *scheduler, "--json", "--out", "fit.npz")
        assert result.returncode == 0, result.stderr
        told = json.loads(result.stdout)
        assert told["status"] == "converged"
        assert (model / "fit.npz").exists()
        means = {row["name"]: row["mean"] for row in told["parameters"]}
        assert means["a"] == pytest.approx(2.5)
        again = run(model, "fit", "sums.py:alone", *scheduler, "--restarts", 2, "--json")
        assert again.returncode == 0, again.stderr
        refused = run(model, "fit", "sums.py:alone", *scheduler)
        many = ("many", "sums.py:factory", "--seeds", 4, "--out", "fits", *scheduler)
        first, second = run(model, *many, "--check"), run(model, *many, "--check", "--json")
        study = ("study", "condition", "--quick", "--solvers", "gsm", "--runs", 1, "--out", "r")
        studied = run(model, *study, *scheduler, "--no-progress")
    assert refused.returncode == 2
    assert "--scheduler must be left out, unless the target is made by" in refused.stderr
    assert first.returncode == 1
    assert "4 fits, 3 of them computed now: fits" in first.stdout
    assert "statuses: 3 converged" in first.stdout
    assert "seed 2 failed: ValueError: none for two" in first.stdout
    told = json.loads(second.stdout)
    assert (told["computed"], told["verdicts"]) == (0, {"pass": 3})
    assert studied.returncode == 0, studied.stderr
    assert (model / "r" / "condition" / "results.csv").exists()
    assert not list(away.glob("**/results.csv"))
