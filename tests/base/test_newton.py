"""How far the scores say that a q should still move."""

import numpy as np
import pytest

from scorevi.base.newton import steps


@pytest.mark.parametrize("seed", range(10))
def test_cubes_of_draws_that_are_not_normal_have_means_of_their_own(seed):
    """Scores that agree on average with a skewed q, and differ by a cube: nothing should move.

    By four standard errors in one of some 10,000 runs; taken for zero, the mean of the cube would
    be a way of about 0.2 standard deviations.
    """
    rng = np.random.default_rng(seed)
    z = rng.gamma(1.0, size=(4000, 2)) - 1.0  # mean 0, variance 1, E[z³] = 2
    mismatch = 0.1 * (z**3 - 3.0 * z - 2.0)
    # So that what bends the score does not come into it.
    mismatch -= 0.1 * np.sum(z * mismatch, axis=0) / np.sum(z * z, axis=0) * z
    found = steps(mismatch, z, z, mismatch, lambda rows: rows, normal=False)
    assert (np.abs(found.mean) < 4.0 * found.mean_error + 0.05).all()


@pytest.mark.parametrize("seed", range(10))
def test_cubes_take_noise_out_of_normal_draws(seed):
    """A score that is a cube of its coordinate has no noise left, and says where q should go."""
    z = np.random.default_rng(seed).standard_normal((500, 3))
    mismatch = 0.05 + 0.01 * z * (z**2 - 3.0)
    found = steps(mismatch, z, z, mismatch, lambda rows: rows)
    plain = steps(mismatch, z, z, mismatch, lambda rows: rows, normal=False)
    assert (found.mean_error < 0.1 * plain.mean_error).all()
    np.testing.assert_allclose(found.mean, 0.05, atol=0.01)
