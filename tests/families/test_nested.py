"""A mixture over a few parameters, and a Gaussian given them."""

import dataclasses

import numpy as np
import pytest

from scorevi import Gaussian, Mixture, Nested
from scorevi.families.given import Given

DIM, SCALES = 5, 2


@pytest.fixture(scope="module")
def q():
    rng = np.random.default_rng(0)
    width = DIM - SCALES
    root = rng.standard_normal((3, width, width))
    given = Given(
        np.array([[0.0, 0.0], [0.5, -0.3], [-0.4, 0.8]]),
        root @ root.transpose(0, 2, 1) + np.eye(width),
        rng.standard_normal((3, 1 + SCALES, width)),
    )
    over = Mixture(
        [0.3, 0.7],
        [Gaussian.standard(SCALES), Gaussian.from_moments(np.ones(SCALES), 0.25 * np.eye(SCALES))],
    )
    base = Gaussian.from_moments(rng.standard_normal(DIM), np.diag([1.0, 2.0, 0.5, 3.0, 1.0]))
    turn = np.linalg.qr(rng.standard_normal((DIM, DIM)))[0]
    return Nested(base, turn, over, given, (0, 1))


def test_the_score_is_the_gradient_of_the_log_density(q):
    theta = q.sample(20, seed=1)
    step = 1e-6 * np.eye(DIM)
    slopes = [(q.log_density(theta + e) - q.log_density(theta - e)) / 2e-6 for e in step]
    np.testing.assert_allclose(q.score(theta), np.transpose(slopes), rtol=1e-6, atol=1e-6)
    np.testing.assert_allclose(q.score(theta[0]), q.score(theta)[0])
    assert q.log_density(theta[0]) == pytest.approx(q.log_density(theta)[0])


def test_the_density_is_normalised(q):
    """By importance sampling, to five standard errors: one false alarm in two million."""
    wide = q.coordinates.scaled(1.5)
    theta = wide.sample(100_000, seed=2)
    ratio = np.exp(q.log_density(theta) - wide.log_density(theta))
    assert ratio.mean() == pytest.approx(1.0, abs=5 * ratio.std() / np.sqrt(len(ratio)))


def test_its_moments_are_those_of_its_draws(q):
    """Means to five standard errors, of which ten parameters make one false alarm in 200,000."""
    theta = q.sample(200_000, seed=3)
    error = q.sd / np.sqrt(len(theta))
    assert np.all(np.abs(theta.mean(axis=0) - q.mean) < 5 * error + 0.005 * q.sd)
    np.testing.assert_allclose(theta.std(axis=0), q.sd, rtol=0.02)
    np.testing.assert_allclose(np.cov(theta.T), q.covariance, atol=0.05)
    low, high = q.quantile([0.05, 0.95])
    assert np.all((theta < low).mean(axis=0) < 0.06)
    assert np.all((theta > high).mean(axis=0) < 0.06)


def test_noise_becomes_the_same_draws_with_their_density(q):
    noise = np.random.default_rng(4).standard_normal((9, q.noise_width))
    points = q.points(noise)
    np.testing.assert_allclose(points.log_q, q.log_density(points.theta))
    np.testing.assert_allclose(
        points.z, -q.coordinates.whiten_score(q.score(points.theta)), atol=1e-12
    )
    np.testing.assert_allclose(q.mismatch(points.theta, q.score(points.theta)), 0.0, atol=1e-12)


def test_with_one_term_it_is_a_gaussian():
    """Given t, a Gaussian with mean linear in t and a constant precision: one Gaussian in all."""
    rng = np.random.default_rng(5)
    linear = np.stack([rng.standard_normal(2), rng.standard_normal(2)])[None]
    given = Given(np.zeros((1, 1)), np.array([[[2.0, 0.3], [0.3, 1.0]]]), linear)
    q = Nested(Gaussian.standard(3), np.eye(3), Mixture.standard(1), given, (0,))
    p = q.coordinates
    theta = p.sample(50, seed=6)
    # The moments of t are those of a few thousand even points.
    np.testing.assert_allclose(q.log_density(theta), p.log_density(theta), atol=0.02)


def test_a_precision_that_is_none_is_made_one():
    given = Given(
        np.array([[0.0], [1.0]]),
        np.array([np.eye(2), -np.eye(2)]),
        np.zeros((2, 2, 2)),
    )
    far = np.array([[3.0], [0.5]])
    y, log_q = given.draw(far, np.ones((2, 2)))
    assert np.isfinite(y).all()
    np.testing.assert_allclose(log_q, given.log_density(far, y))


def test_wider_is_wider(q):
    wider = q.wider(1.3, 3.0)
    assert np.all(wider.sample(20_000, seed=7).std(axis=0) > q.sample(20_000, seed=7).std(axis=0))


def test_a_mixture_for_pictures_looks_the_same(q):
    parts = q.as_mixture
    np.testing.assert_allclose(parts.mean, q.mean, atol=0.3)
    np.testing.assert_allclose(parts.sd, q.sd, rtol=0.2)


def test_between_positive_and_not_a_precision_that_is_not_exact_is_bounded():
    """Where the sum of terms is nearly singular a draw would be anywhere."""
    precisions = np.array([np.eye(3), np.diag([0.0, 0.0, -0.5])])
    linear = np.zeros((2, 2, 3))
    linear[0, 0] = 1.0
    exact = Given(np.array([[0.0], [1.0]]), precisions, linear)
    seen = dataclasses.replace(exact, ends=np.array([[-3.0], [3.0]]))
    t = np.log(2.0 - 1e-6 * np.ones((1, 1)))
    noise = np.ones((1, 3))
    far, near = (one.draw(t, noise)[0][0] for one in (exact, seen))
    assert far[2] > 1e3
    np.testing.assert_allclose(near[:2], far[:2])
    assert near[2] == pytest.approx(400.0 + 20.0)  # the mean, v/P, and a standard deviation
    # Where it was never seen to be half as wide, less.
    less = dataclasses.replace(seen, widest=3.0)
    assert less.draw(t, noise)[0][0][2] == pytest.approx(9.0 + 3.0)
    assert less.scaled(2.0).draw(t, noise)[0][0][2] == pytest.approx(9.0 + 6.0)
    # What is drawn is what the density says.
    y, log_q = seen.draw(t, noise)
    np.testing.assert_allclose(seen.log_density(t, y), log_q)
    # Elsewhere nothing changes.
    there = np.array([[-1.0]])
    np.testing.assert_allclose(seen.draw(there, noise)[0], exact.draw(there, noise)[0])


def test_how_wide_it_is_given_scales():
    rng = np.random.default_rng(5)
    root = rng.standard_normal((2, 6, 6)) / 4.0
    precisions = np.eye(6) + root @ root.transpose(0, 2, 1)
    given = Given(np.array([[0.0], [1.0]]), precisions, np.zeros((2, 2, 6)))
    t, y = rng.standard_normal((40, 1)), rng.standard_normal((40, 6))
    whole = np.tensordot(given.terms(t), precisions, 1)
    widths = given.tried(t, y, y).widths
    expected = np.linalg.eigvalsh(whole)[:, 0] ** -0.5
    assert np.all(widths <= expected * (1 + 1e-12))
    assert np.all(widths > 0.8 * expected)
