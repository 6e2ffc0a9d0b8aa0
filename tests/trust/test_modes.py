"""The search for modes that a fit does not reach: where it begins, and what counts as reached."""

import math

import numpy as np
import pytest
from conftest import gsm_fit

from scorevi.examples import random_gaussian
from scorevi.starts.climb import _WITHIN, is_within
from scorevi.starts.elsewhere import _FAR, _WIDE, _around


@pytest.mark.parametrize("dim", [1, 2, 3, 40])
def test_climbs_begin_far_outside_on_all_sides(dim, monkeypatch):
    fit = gsm_fit(random_gaussian(dim, 10, seed=1), max_gradients=40)
    qr = np.linalg.qr
    shapes = []
    monkeypatch.setattr(np.linalg, "qr", lambda a: shapes.append(a.shape) or qr(a))
    points = _around(fit.q, np.random.default_rng(5))
    assert points.shape == (_FAR, dim)
    z = fit.q.whiten(points)
    radius = math.sqrt(dim) + _WIDE
    ends = min(_FAR, 2 * dim)
    np.testing.assert_allclose(z[:ends] @ z[:ends].T, _ends(ends, radius), atol=1e-7 * radius**2)
    assert (fit.q.distance(points) > radius * (1 - 1e-9)).all()
    # Three axes take no more than three columns.
    assert shapes
    assert all(shape == (dim, min(dim, _FAR // 2)) for shape in shapes)


def _ends(count, radius):
    """Inner products of both ends of orthogonal axes."""
    return radius**2 * np.kron(np.eye(count // 2), [[1.0, -1.0], [-1.0, 1.0]])


def test_whatis_within_is_measured_in_sds():
    fit = gsm_fit(random_gaussian(5, 100, seed=2), max_gradients=60)
    direction = np.full(5, 1 / math.sqrt(5))
    limit = math.sqrt(5) + _WITHIN
    assert is_within(fit.q, fit.q.unwhiten(0.99 * limit * direction[None])[0])
    assert not is_within(fit.q, fit.q.unwhiten(1.01 * limit * direction[None])[0])
