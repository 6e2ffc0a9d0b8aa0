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


def _bent_elsewhere(goes_with: int) -> tuple[Evidence, np.ndarray]:
    """Return pairs straight along the first axis, which is narrow, and bent along the second."""
    rng = np.random.default_rng(7)
    z = rng.standard_normal((400, 4))
    h = -z * np.array([1e-4, 1.0, 1.0, 1.0])
    h[:, 1] += z[:, goes_with] * z[:, 2]
    evidence = regress(z, h, np.ones(len(z)))
    assert evidence is not None
    return evidence, np.eye(4)[0]


def test_a_straight_direction_is_not_held_back_by_what_is_bent_without_it():
    evidence, first = _bent_elsewhere(goes_with=3)
    plain = float(evidence.bent(first[:, None])[0])
    assert plain == pytest.approx(0.5, rel=0.2)
    # By chance 4 of 400 pairs are explained: a tenth of the size.
    assert evidence.bent_by(first) < 0.3 * plain
    _, values, vectors = trusted_step(evidence)
    assert (vectors[0] ** 2) @ values > 1.6


def test_a_straight_direction_is_held_back_by_what_would_grow_with_it():
    evidence, first = _bent_elsewhere(goes_with=0)
    plain = float(evidence.bent(first[:, None])[0])
    assert evidence.bent_by(first) == pytest.approx(plain, rel=0.1)
    _, values, vectors = trusted_step(evidence)
    assert (vectors[0] ** 2) @ values == pytest.approx(1.25, rel=0.05)


def test_too_few_pairs_do_not_free_a_direction():
    evidence, first = _bent_elsewhere(goes_with=3)
    assert evidence.pairs is not None
    few = evidence._replace(pairs=tuple(part[:15] for part in evidence.pairs))
    assert few.bent_by(first) == float(few.bent(first[:, None])[0])


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
