"""What remembered pairs say, and how far replay goes by it."""

import numpy as np
import pytest
from conftest import SEEDS, logistic_regression

import scorevi
from scorevi.solvers.lines import least_squares
from scorevi.solvers.memory import Evidence, regress
from scorevi.solvers.trust_region import small_step, trusted_step
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


@pytest.mark.parametrize(("size", "is_small"), [(0.05, True), (0.18, True), (0.3, False)])
def test_a_small_step_is_the_same_by_a_triangular_factor(size, is_small):
    """By the norm of the change, by its eigenvalues, and not at all where these are clipped."""
    rng = np.random.default_rng(3)
    turned = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    precision = np.eye(DIM) + (turned * rng.uniform(-size, size, DIM)) @ turned.T
    intercept = 0.05 * rng.standard_normal(DIM)
    evidence = Evidence(intercept, precision, 1.0, False, 0.5 * np.eye(DIM))
    found = small_step(evidence)
    assert (found is not None) is is_small
    if found is not None:
        shift, lower = found
        expected, variances, vectors = trusted_step(evidence)
        np.testing.assert_allclose(shift, expected, atol=1e-12)
        np.testing.assert_allclose(
            np.linalg.inv(lower @ lower.T), (vectors * variances) @ vectors.T, atol=1e-12
        )


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


@pytest.mark.parametrize("apart", [0.0, 1e-9, 1e-7])
def test_two_pairs_that_are_nearly_the_same_do_not_make_a_score_linear(apart):
    dim = 20
    rng = np.random.default_rng(4)
    z = rng.standard_normal((dim + 2, dim))
    z[-1] = z[-2] + apart * rng.standard_normal(dim)
    found = regress(z, -np.tanh(z), np.ones(len(z)))
    assert found is None or not found.linear


@pytest.mark.parametrize("dim", [1, 20, 500])
def test_as_many_pairs_as_decide_tell_that_a_score_is_linear(dim):
    z = np.random.default_rng(5).standard_normal((dim + 2, dim))
    found = regress(z, -2.0 * z, np.ones(len(z)))
    assert found.linear


def test_few_directions_are_asked_by_themselves_however_many_are_held_back(monkeypatch):
    asked = []
    monkeypatch.setattr(Evidence, "bent_by", lambda self, way: asked.append(way) or 1e-9)
    dim = 40
    rng = np.random.default_rng(6)
    precision = np.diag(np.geomspace(1e-6, 0.1, dim))
    pairs = tuple(rng.standard_normal(shape) for shape in ((200, dim), (200, dim), (200,)))
    evidence = Evidence(np.zeros(dim), precision, 1.0, False, np.eye(dim), pairs=pairs)
    _, values, vectors = trusted_step(evidence)
    assert len(asked) == 8
    # Those that are narrowest by most.
    freed = values > 2.0
    assert freed.sum() == 8
    np.testing.assert_allclose(np.abs(vectors[:8, freed]), np.eye(8), atol=1e-12)


@pytest.mark.parametrize("dim", [20, 21])
def test_noise_of_one_size_is_told_as_well_by_a_factor_as_by_a_matrix(dim):
    """Each coefficient's variance, by a thousand draws, within a tenth on average."""
    rng = np.random.default_rng(8)
    z = rng.standard_normal((600, dim))
    design = np.concatenate([np.ones((600, 1)), z], axis=1)
    weight = rng.uniform(0.5, 1.0, 600)
    errors = rng.standard_normal((600, 1000))
    hat, factored = (least_squares(design, weight, formed=formed) for formed in (True, False))
    np.testing.assert_allclose(hat @ errors, factored @ errors, rtol=0, atol=1e-12)
    truth = (hat @ errors).var(axis=1)
    for one in (hat, factored):
        told = one.noise(errors**2).mean(axis=1)
        assert np.mean(np.log(told / truth)) == pytest.approx(0.0, abs=0.1)


@pytest.mark.slow
@pytest.mark.parametrize("seed", SEEDS)
def test_a_skewed_regression_is_not_held_back(seed):
    """Columns so correlated that many outcomes are all but certain; −98 to −99 where it was."""
    rng = np.random.default_rng(100)
    mixing = rng.standard_normal((100, 100)) / 10.0
    design = rng.standard_normal((1000, 100)) @ mixing * 3.0
    chance = 1.0 / (1.0 + np.exp(-design @ rng.standard_normal(100) * 0.5))
    outcome = (rng.random(1000) < chance).astype(float)

    def log_density(beta):
        link = beta @ design.T
        likelihood = link @ outcome - np.logaddexp(0.0, link).sum(axis=1)
        return likelihood - 0.125 * np.vecdot(beta, beta)

    def score(beta):
        return (outcome - 1.0 / (1.0 + np.exp(-beta @ design.T))) @ design - 0.25 * beta

    fit = scorevi.fit(scorevi.from_function(score, 100, log_density), seed=seed)
    z = np.random.default_rng(9).standard_normal((4000, 100))
    theta = fit.q.unwhiten(np.concatenate([z, -z]))
    assert np.mean(log_density(theta) - fit.q.log_density(theta)) > -96.5
