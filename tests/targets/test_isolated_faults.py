"""Every kind of fault at once, hangs and deaths of the process among them, with an exact ledger."""

from collections import Counter

import pytest

import scorevi
from scorevi.examples import random_gaussian
from scorevi.studies.faults import ISOLATED_CAUSES, deadly


@pytest.mark.slow
@pytest.mark.parametrize("workers", [1, 2])
def test_a_gaussian_is_recovered_and_every_fault_is_counted(tmp_path, workers):
    p = random_gaussian(10, 40.0, seed=3)
    path = tmp_path / "ledger"
    fit = scorevi.fit(
        deadly(p, 0.3, path),
        max_gradients=80,
        seed=2,  # three hangs, three deaths
        stop=False,
        score_timeout=1.0,
        workers=workers,
    )
    assert fit.status == "budget"
    assert fit.q.kl(p) < 1e-3
    injected = Counter(path.read_text().split())
    assert injected.total() > 10
    assert set(injected) == set(ISOLATED_CAUSES)
    assert fit.bad_scores.counts == injected
