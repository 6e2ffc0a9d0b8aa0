"""The direction along which the posterior changes its shape."""

import numpy as np
import pytest

from scorevi.base.newton import steps
from scorevi.base.valley import valley


def bent(dim, count, strength, noise, seed=0):
    """Draws of N(0, I), and what a line leaves of the scores of one whose widths go with u = e₀."""
    rng = np.random.default_rng(seed)
    z = rng.standard_normal((count, dim))
    third = np.sqrt(strength / (dim - 1))
    residual = noise * rng.standard_normal((count, dim))
    residual[:, 1:] += third * z[:, :1] * z[:, 1:]
    residual[:, 0] += 0.5 * third * (z[:, 1:] ** 2 - 1.0).sum(axis=1)
    return z, residual


@pytest.mark.parametrize(("dim", "count"), [(5, 400), (20, 512), (30, 512), (90, 600)])
def test_the_direction_and_its_strength_are_found(dim, count):
    """By the tensor where that is small, by products of draws where it is not."""
    found = [valley(*bent(dim, count, 1.2, 0.3, seed)) for seed in range(10)]
    assert all(one is not None for one in found)
    assert np.median([abs(one.direction[0]) for one in found]) > 0.8
    assert np.median([one.strength for one in found]) == pytest.approx(1.2, abs=0.3)
    assert np.median([one.lengthening for one in found]) > 1.5


def test_a_score_without_a_bend_has_none_that_matters():
    """Noise alone: over 20 seeds the way is never a tenth longer."""
    for seed in range(20):
        found = valley(*bent(10, 512, 0.0, 0.3, seed))
        assert found is None or found.lengthening < 1.1


def test_pairs_without_weight_do_not_count():
    z, residual = bent(6, 300, 1.0, 0.1)
    more = np.concatenate([z, 5 * np.ones((50, 6))]), np.concatenate([residual, -np.ones((50, 6))])
    weight = np.concatenate([np.ones(300), np.zeros(50)])
    with_them, without = valley(*more, weight), valley(z, residual)
    assert with_them.strength == pytest.approx(without.strength)
    np.testing.assert_allclose(np.abs(with_them.direction), np.abs(without.direction), atol=1e-10)


def test_both_ways_to_sum_agree():
    """Rows of no weight switch from the products of draws to the tensor."""
    z, residual = bent(20, 300, 1.0, 0.1)
    nothing = np.zeros((200, 20))
    weight = np.concatenate([np.ones(300), np.zeros(200)])
    tensor = valley(np.vstack([z, nothing]), np.vstack([residual, nothing]), weight)
    assert tensor.strength == pytest.approx(valley(z, residual).strength)


def test_a_valley_lengthens_the_way_to_the_best_gaussian():
    z, residual = bent(10, 2000, 1.4, 0.1)
    mismatch = residual.copy()
    mismatch[:, 0] += 0.1
    found = steps(mismatch, z, z, mismatch, np.asarray)
    assert found.lengthening > 2.5
    assert found.mean[0] > 0.2
    assert np.abs(found.mean[1:]).max() < 0.1
    tenths = np.full_like(z, 0.1)
    straight = steps(tenths, z, z, tenths, np.asarray)
    assert straight.lengthening == pytest.approx(1.0, abs=0.02)
    np.testing.assert_allclose(straight.mean, 0.1, rtol=0.02)


@pytest.mark.parametrize(
    ("dim", "score", "bends"), [(8, 0.05, 0.0), (40, 0.05, 0.0), (8, -0.02, 0.2), (8, -0.1, 0.2)]
)
def test_the_way_along_a_valley_is_newtons(dim, score, bends):
    """Mean and widths are both off, so that the score along u says little of how far it is.

    With S = |Q_u|², score a and covariance m bends too small it is (a + S m / 2) / (1 − S / 2).
    The median over 100 seeds has an error of 0.006; a bend that noise has made larger counts less.
    """
    strength, count = 1.0, 512
    told = []
    for seed in range(100):
        z, residual = bent(dim, count, strength, 0.1, seed)
        mismatch = residual.copy()
        mismatch[:, 0] += score
        mismatch[:, 1:] += bends * np.sqrt(strength / (dim - 1)) * z[:, 1:]
        design = np.concatenate([np.ones((count, 1)), z], axis=1)
        found = valley(z, mismatch - design @ np.linalg.lstsq(design, mismatch)[0])
        way = found.way(z, mismatch)
        told.append(np.sign(found.direction[0]) * np.array([one.value for one in way]))
    expected = (score + 0.5 * strength * bends) / (1.0 - 0.5 * strength)
    shift, beyond, bend = np.median(told, axis=0)
    assert shift == pytest.approx(expected, abs=0.05)
    assert beyond == pytest.approx(expected - score, abs=0.05)
    assert bend == pytest.approx(bends, abs=0.05)


def test_one_dimension_has_no_valley():
    z = np.random.default_rng(0).standard_normal((200, 1))
    assert valley(z, z**2 - 1.0) is None
