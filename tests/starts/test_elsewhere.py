"""Other modes: what looks exactly Gaussian may be one of several."""

import numpy as np
import pytest
from conftest import SEEDS

import scorevi
from scorevi import Gaussian, Mixture
from scorevi.base.evaluate import Evaluator
from scorevi.examples import random_gaussian
from scorevi.starts.elsewhere import landings


def apart(dim, share, distance=10.0):
    """Return a mixture of two Gaussians, of sds from 0.5 to 3, as a target."""
    sds = np.linspace(0.5, 3.0, dim)
    other = np.zeros(dim)
    other[0] = distance * sds[0]
    parts = [Gaussian.from_moments(mean, np.diag(sds**2)) for mean in (np.zeros(dim), other)]
    return Mixture([share, 1.0 - share], parts)


@pytest.mark.parametrize("dim", [1, 2, 6, 20])
def test_it_costs_a_gradient_for_each_of_twelve_points_and_finds_what_is_apart(dim):
    one = Evaluator(scorevi.targets.as_target(random_gaussian(dim, 1e3)))
    assert not landings(random_gaussian(dim, 1e3), one, np.random.default_rng(0))
    assert one.spent == 2 * min(dim, 6)
    # Misses one in 300 at most: of forty more than two once in 5,000.
    two = Evaluator(scorevi.targets.as_target(apart(dim, 0.5)))
    found = [
        landings(apart(dim, 0.5).components[0], two, np.random.default_rng(seed))
        for seed in range(40)
    ]
    assert sum(map(bool, found)) >= 38


@pytest.mark.parametrize(("dim", "share", "distance"), [(2, 0.5, 10), (2, 0.9, 7), (6, 0.9, 10)])
@pytest.mark.parametrize("seed", SEEDS)
def test_modes_far_apart_become_components_by_default(dim, share, distance, seed):
    truth = apart(dim, share, distance)
    fit = scorevi.fit(truth, seed=seed)
    assert isinstance(fit.q, Mixture)
    assert fit.num_gradients <= 4000
    np.testing.assert_allclose(fit.q.mean, truth.mean, atol=0.05 * truth.sd.max())
    np.testing.assert_allclose(fit.q.sd, truth.sd, rtol=0.05)


def test_a_mode_sixty_nats_below_gets_no_weight():
    both = apart(3, 0.5)
    low = Mixture(log_weights=np.array([0.0, -60.0]), components=both.components)
    fit = scorevi.fit(low, seed=0)
    assert np.abs(fit.q.mean).max() < 0.05
    np.testing.assert_allclose(fit.q.sd, both.components[0].sd, rtol=0.05)


def test_one_gaussian_asked_for_stays_one():
    both = apart(2, 0.5)
    fit = scorevi.fit(both, family="gaussian", seed=0)
    assert isinstance(fit.q, Gaussian)
    np.testing.assert_allclose(fit.q.sd, both.components[0].sd, rtol=1e-6)


@pytest.mark.parametrize("stop_at", [30, 60, 300])
def test_that_there_are_others_is_known_after_an_interruption(stop_at, tmp_path):
    truth, count = apart(2, 0.5), [0]

    def target(stop_at):
        def score(theta):
            count[0] += len(theta)
            if count[0] > stop_at:
                raise KeyboardInterrupt
            return truth.score(theta)

        return scorevi.from_function(score, 2, truth.log_density, batched=True)

    keep = {"seed": 0, "checkpoint": tmp_path / "kept.npz", "checkpoint_seconds": 1e-9}
    whole = scorevi.fit(target(10**9), seed=0)
    count[0] = 0
    assert scorevi.fit(target(stop_at), **keep).status == "interrupted"
    fit = scorevi.fit(target(10**9), resume=True, **keep)
    np.testing.assert_array_equal(fit.q.mean, whole.q.mean)
    assert fit.num_gradients == whole.num_gradients
