"""The brute-force reference, where the answer is known."""

import numpy as np

from scorevi import Gaussian
from scorevi.examples import dense_base, gaussian, random_gaussian, sinh_arcsinh
from scorevi.studies.best_gaussian import best_gaussian
from scorevi.studies.metrics import elbo


def test_a_gaussian_is_its_own_best():
    p = random_gaussian(4, 30, seed=0)
    best = best_gaussian(gaussian(p.mean, p.covariance), Gaussian.standard(4), draws=2000)
    assert best.q.kl(p) < 1e-6
    assert abs(best.elbo - (p.log_det + 2 * np.log(2 * np.pi))) < 1e-6


def test_nothing_near_it_is_better():
    target = sinh_arcsinh(dense_base(3), skew=0.5)
    best = best_gaussian(target, Gaussian.standard(3), draws=4000)
    rng = np.random.default_rng(0)
    half = np.random.default_rng(0).standard_normal((2000, 3))
    z = np.concatenate([half, -half])
    z = z @ np.linalg.inv(np.linalg.cholesky(z.T @ z / len(z))).T
    assert elbo(best.q, target, z) == best.elbo
    for _ in range(20):
        shift = 0.02 * rng.standard_normal(3)
        root = np.eye(3) + 0.02 * rng.standard_normal((3, 3))
        near = best.q.moved(shift, root, np.linalg.slogdet(root)[1])
        assert elbo(near, target, z) < best.elbo + 1e-5
