"""What pairs say about the components of a mixture: the same as the plain formulas, one by one."""

import numpy as np
import pytest

from scorevi import Gaussian, Mixture
from scorevi.examples import random_gaussian
from scorevi.families.stacked import log_sum
from scorevi.solvers.components import Pairs, in_parameters, look, of_parameters, stronger
from scorevi.solvers.counting import counted
from scorevi.solvers.memory import of_symmetric, shortened, symmetric, trusted
from scorevi.solvers.weights import effective_size, largest_power, largest_share, median


def memory(dim, count, apart):
    """Return a mixture, pairs from a wider one, and the log density of that."""
    parts = [
        Gaussian(apart * k * np.ones(dim), random_gaussian(dim, 5.0, seed=k).factor, None)
        for k in range(3)
    ]
    q = Mixture([0.2, 0.3, 0.5], parts)
    z = q.coordinates.scaled(1.3).sample(count, seed=0)
    return q, z, np.asarray(q.coordinates.scaled(1.3).log_density(z))


def weights_of_one(log_part, log_q, log_then, log_share, dim):
    """Return the weights for a regression and for averages, over all pairs at once."""
    ratio, share = log_part - log_then, log_part - log_q
    own = share >= min(-0.7, np.sort(share)[-(dim + 1) :].min())
    full = np.minimum(0.7, ratio - np.median(ratio[own]))
    honest = np.exp(full - full.max())
    if effective_size(full) < 4.0 * (dim + 1):
        along = np.minimum(0.7, log_share)
        full = along + largest_share(along, full, 4.0 * (dim + 1), bits=12) * (full - along)
    full = full * largest_power(full, min(2.0 * (dim + 1), 0.99 * len(full)))
    weight = np.exp(full - full.max())
    least = np.sort(weight)[-max(512, 4 * (dim + 1)) :].min()
    return np.where((weight > 1e-4) & (weight >= least), weight, 0.0), honest


@pytest.mark.parametrize("dim", [1, 3, 10])
@pytest.mark.parametrize("count", [40, 3000])
@pytest.mark.parametrize("apart", [0.5, 20.0])
def test_pairs_count_as_for_one_component_after_the_other(dim, count, apart):
    q, z, log_then = memory(dim, count, apart)
    log_parts, log_q, _ = q.look(z)
    along = np.stack([part.log_density(z * 0.5) for part in q.components], axis=1)
    along = along - log_sum(along)[:, None]
    found = counted(log_parts, log_q, log_then, lambda: along, dim)
    for k, (kept, weight, honest) in enumerate(found):
        columns = log_parts[:, k], log_q, log_then, along[:, k]
        expected, expected_honest = weights_of_one(*columns, dim)
        whole = np.zeros(count)
        whole[kept] = weight
        np.testing.assert_allclose(whole, expected, rtol=1e-10, atol=1e-12)
        np.testing.assert_allclose(honest, expected_honest, rtol=1e-10, atol=1e-300)


@pytest.mark.parametrize(("dim", "axes"), [(1, 1), (2, 2), (6, 0), (6, 3)])
def test_a_look_is_the_plain_regression(dim, axes):
    q, z, log_then = memory(dim, 2000, 0.5)
    log_parts, log_q, score = q.look(z)
    h = -np.tanh(z) - 0.3 * z**2
    pairs = Pairs(z, h, h - score, -log_q)
    counts = counted(log_parts, log_q, log_then, lambda: log_parts, dim)[0]
    part = q.components[0]
    directions = np.linalg.qr(np.random.default_rng(0).standard_normal((dim, dim)))[0][:, :axes]
    own = of_parameters(part)
    local = look(pairs, counts, part, directions, own)
    white, weight = part.whiten(z[counts.kept]), counts.weight
    t = white @ directions
    columns = [np.ones((len(white), 1)), white]
    columns += [t[:, [j]] * white - directions[:, j] for j in range(axes)]
    design = np.concatenate([*columns, t**3 - 3.0 * t], axis=1)
    ridge = np.where(np.arange(design.shape[1]) > dim, 1.0, 1e-9) * weight.max()
    hat = np.linalg.solve((design.T * weight) @ design + np.diag(ridge), design.T * weight)
    effective = weight.sum() ** 2 / (weight @ weight)
    inflation = effective / (effective - design.shape[1])
    raw = shortened(pairs.mismatch[counts.kept] @ part.factor)
    values = hat @ raw
    left = raw - design @ values
    basis = np.linalg.eigh((left.T * weight / weight.sum()) @ left)[1]
    noise = np.concatenate([hat[:1], basis.T @ hat[1 : dim + 1]]) ** 2 @ (left @ basis) ** 2
    intercept = basis @ trusted(values[0] @ basis, noise[0] * inflation, dim)[0]
    slope = symmetric(values[1 : dim + 1])
    turned, number = basis.T @ slope @ basis, dim * (dim + 1) // 2
    shrunk = trusted(turned, of_symmetric(noise[1:] * inflation), number)[0]
    plain = of_symmetric(hat[1 : dim + 1] ** 2 @ left**2 * inflation)
    slope = stronger(basis @ shrunk @ basis.T, in_parameters(slope, plain, own))
    np.testing.assert_allclose(local.evidence.intercept, intercept, rtol=1e-9, atol=1e-10)
    np.testing.assert_allclose(local.evidence.precision, np.eye(dim) - slope, atol=1e-9)
    assert local.bend(axes) is None
    if axes:
        assert local.bend(0).shape == (dim, dim)


def test_bends_are_the_third_derivatives_of_the_target():
    """Of log p = −|z|²/2 − c z₀ z₁²/2: along z₀ the precision of z₁ grows by c."""
    bend, dim = 0.3, 2
    q = Mixture.standard(dim)
    z = q.sample(1000, seed=0)
    h = -z - bend * np.stack([0.5 * z[:, 1] ** 2, z[:, 0] * z[:, 1]], axis=1)
    log_parts, log_q, score = q.look(z)
    counts = counted(log_parts, log_q, log_q, lambda: log_parts, dim)[0]
    pairs = Pairs(z, h, h - score, np.zeros(len(z)))
    local = look(pairs, counts, q.components[0], np.eye(2)[:, :1], np.eye(2))
    np.testing.assert_allclose(local.bend(0), [[0.0, 0.0], [0.0, -bend]], atol=0.02)


@pytest.mark.parametrize("count", [1, 2, 5, 8, 101])
def test_the_median_is_that_of_numpy(count):
    values = np.random.default_rng(count).standard_normal(count)
    assert median(values) == np.median(values)
