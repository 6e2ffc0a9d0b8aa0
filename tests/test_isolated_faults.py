"""Every kind of fault at once, hangs and deaths of the process among them, with an exact ledger."""

import hashlib
import os
import time
from collections import Counter

import numpy as np
import pytest

import scorevi
from scorevi.examples import random_gaussian

CAUSES = ("nan", "infinite", "raised", "wrong-shape", "timeout", "died")
RATE = 0.3


def faulty(p, path):
    """A Gaussian's score of a point, of which a share fails in a way that the point decides."""
    mean, precision = p.mean, np.linalg.inv(p.covariance)

    def score(theta):
        digest = hashlib.sha256(theta.tobytes()).digest()
        number = int.from_bytes(digest[:8], "little") / 2**64
        if number >= RATE:
            return precision @ (mean - theta)
        cause = CAUSES[digest[8] % len(CAUSES)]
        with path.open("a") as ledger:  # before anything happens to this process
            ledger.write(cause + "\n")
        if cause == "raised":
            raise ArithmeticError("there is no score here")
        if cause == "timeout":
            time.sleep(600)
        if cause == "died":
            os._exit(3)
        answers = {"nan": np.full(len(theta), np.nan), "infinite": np.full(len(theta), np.inf)}
        return answers.get(cause, np.zeros(3))

    return scorevi.from_function(score, p.dim, batched=False)


@pytest.mark.parametrize("workers", [1, 2])
def test_a_gaussian_is_recovered_and_every_fault_is_counted(tmp_path, workers):
    p = random_gaussian(10, 40.0, seed=3)
    path = tmp_path / "ledger"
    fit = scorevi.fit(
        faulty(p, path),
        max_gradients=120,
        seed=1,
        stop=False,
        score_timeout=0.5,
        workers=workers,
    )
    assert fit.status == "budget"
    assert fit.q.kl(p) < 1e-3
    injected = Counter(path.read_text().split())
    assert injected.total() > 20
    assert set(injected) == set(CAUSES)
    assert fit.bad_scores.counts == injected
