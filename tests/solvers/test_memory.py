"""What remembered pairs say, and how far replay goes by it."""

import numpy as np
import pytest
from conftest import logistic_regression

import scorevi
from scorevi.solvers.memory import Evidence, regress
from scorevi.solvers.replay import trusted_step
from scorevi.solvers.weights import weights

DIM = 80


@pytest.mark.parametrize("bent", [0.01, 1.0, 4.0])
def test_a_shift_is_as_long_as_the_score_is_straight_along_it(bent):
    """Bent along one direction of many: the others' straightness does not lengthen the step."""
    left = np.zeros((DIM, DIM))
    left[3, 3] = bent**2
    intercept = np.zeros(DIM)
    intercept[3] = 50.0
    shift, values, _ = trusted_step(Evidence(intercept, np.eye(DIM), 1.0, False, left))
    assert np.count_nonzero(np.abs(shift) > 1e-12) == 1
    assert abs(shift[3]) <= max(0.3, 0.7 / bent) + 1e-12
    assert abs(shift[3]) >= 0.3
    np.testing.assert_allclose(values, 1.0)


def test_a_step_that_is_too_wide_along_a_bent_direction_is_shortened_there_only():
    left = np.zeros((2, 2))
    left[0, 0] = 4.0
    left[1, 1] = 1e-6
    evidence = Evidence(np.zeros(2), np.diag([0.01, 0.01]), 1.0, False, left * 1.0)
    _, values, vectors = trusted_step(evidence)
    along = (vectors**2) @ values
    assert along[0] == pytest.approx(1.25)
    assert along[1] >= 1.25


def test_even_weights_are_not_cut_off():
    """Those that are cut off at 1 favour the middle: E|z|² would be below D."""
    rng = np.random.default_rng(0)
    z = rng.standard_normal((4000, 30))
    # Drawn from a q that was 1 % narrower in each direction.
    then = -0.5 * np.vecdot(z, z) - 30 * np.log(0.99)
    found = weights(z * 0.99, then, 0.0, 100.0)
    squares = np.vecdot(z * 0.99, z * 0.99)
    assert abs(np.average(squares, weights=found) / 30 - 1.0) < 0.01


def test_uneven_weights_are_at_most_one():
    z = np.random.default_rng(0).standard_normal((400, 3))
    then = -0.5 * np.vecdot(z, z) / 0.5**2 - 3 * np.log(0.5)
    found = weights(z, then, 0.0, 10.0)
    assert found.max() == 1.0
    assert (found == 1.0).sum() > 40


def test_plain_least_squares_decide_where_the_kernel_contradicts_them():
    """An exponential is not quadratic; the kernel's intercept is far off along it."""
    rng = np.random.default_rng(1)
    z = rng.standard_normal((600, 6))
    h = -z.copy()
    h[:, 0] += np.exp(1.2 * z[:, 0]) - np.exp(0.72)
    found = regress(z, h, np.ones(600))
    assert abs(found.intercept[0]) < 0.5
    assert np.abs(found.intercept[1:]).max() < 0.05


def test_rounding_is_not_amplified():
    """The same noise after nearly the same steps gives nearly the same draws."""

    class Nudged:
        def __init__(self, inner):
            self._inner = inner
            self.dim, self.parameters, self.variables = inner.dim, inner.parameters, inner.variables
            self.has_log_density = True

        def evaluate(self, theta):
            found = self._inner.evaluate(theta)
            return found._replace(score=found.score * (1 + 1e-15))

    target = logistic_regression()
    one, two = (
        scorevi.fit(t, seed=0, stop=False, max_gradients=300) for t in (target, Nudged(target))
    )
    np.testing.assert_allclose(one.mean, two.mean, rtol=0, atol=1e-9)
