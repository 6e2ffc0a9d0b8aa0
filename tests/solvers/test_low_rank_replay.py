"""Fits of a diagonal and a few directions: exact where they can be, the best where not."""

import numpy as np
import pytest
from conftest import SEEDS, SHORT

import scorevi
from scorevi import LowRank, LowRankReplay
from scorevi.families import Points
from scorevi.solvers import of_family
from scorevi.solvers.base import Batch
from scorevi.solvers.decompose import decompose
from scorevi.solvers.opposites import opposites
from scorevi.solvers.structure import Past, rescaled


def in_family(dim, rank, seed, *, narrow=False, spread=2.0):
    """A target of the family: a common factor model, or one that data determine."""
    rng = np.random.default_rng(seed)
    loadings = 2.0 * rng.normal(size=(dim, rank))
    scale = np.exp(rng.uniform(-spread, spread, dim))
    mean = 3.0 * scale * rng.normal(size=dim)
    p = LowRank.from_factors(mean, scale**2, loadings * scale[:, None])
    return LowRank(p.mean, p.scale, p.directions, 1.0 / p.widths) if narrow else p


@pytest.mark.parametrize("narrow", [False, True])
@pytest.mark.parametrize(("dim", "rank"), [(200, 5), (1000, 3), (30, 2)])
@pytest.mark.parametrize("seed", SEEDS)
def test_a_target_of_the_family_is_found_exactly_by_few_gradients(dim, rank, narrow, seed):
    p = in_family(dim, rank, seed, narrow=narrow)
    fit = scorevi.fit(p, family="low-rank", rank=rank, seed=seed)
    assert fit.status == "converged"
    assert fit.q.kl(p) < 1e-6
    assert fit.num_gradients <= 250


@pytest.mark.parametrize("rank", [8, 16])
def test_more_directions_than_there_are_do_no_harm(rank):
    p = in_family(300, 3, seed=1)
    fit = scorevi.fit(p, family="low-rank", rank=rank)
    assert fit.q.kl(p) < 1e-6


@pytest.mark.parametrize("dim", [1, 2, 50])
def test_the_diagonal_family_is_exact_on_a_diagonal_target(dim):
    rng = np.random.default_rng(dim)
    p = LowRank(rng.normal(size=dim), np.exp(rng.normal(size=dim)))
    fit = scorevi.fit(p, family="diagonal")
    assert fit.q.rank == 0
    assert fit.q.kl(p) < 1e-10
    assert fit.num_gradients <= 64


@SHORT
@pytest.mark.parametrize("seed", SEEDS)
def test_the_best_diagonal_has_the_precisions_of_the_target(seed):
    # 400 pairs determine each of 60 precisions to 7 %, and so standard deviations to 3.5 %; as many
    # as 0.2 are 5.7 standard errors, which the largest of 60 reaches with probability 7e-7.
    p = scorevi.examples.random_gaussian(60, 20, seed=seed)
    fit = scorevi.fit(p, family="diagonal", max_gradients=800, stop=False, seed=seed)
    best = np.diag(np.linalg.inv(p.covariance)) ** -0.5
    assert np.abs(np.log(fit.q.sd / best)).max() < 0.2
    assert np.abs((fit.q.mean - p.mean) / best).max() < 1e-2


@SHORT
def test_a_larger_rank_is_never_worse():
    p = scorevi.examples.random_gaussian(40, 100, seed=0)
    divergences = []
    for rank in (0, 4, 12):
        solver = LowRankReplay(rank)
        fit = scorevi.fit(p, solver, initial="auto", max_gradients=1000, stop=False)
        divergences.append(fit.q.dense().kl(p))
    assert divergences[2] < divergences[1] < divergences[0]


@SHORT
def test_scales_of_many_orders():
    scale = 10.0 ** np.linspace(-6, 6, 50)
    p = LowRank(scale, scale)
    fit = scorevi.fit(p, family="diagonal", max_gradients=500)
    np.testing.assert_allclose(fit.q.sd, scale, rtol=1e-6)
    np.testing.assert_allclose(fit.q.mean, scale, rtol=1e-4)


def test_bent_targets():
    # A logistic regression, whose best diagonal Gaussian a long climb of the ELBO finds too.
    target = scorevi.examples.logistic_regression(20, 200, correlation=0.3)
    fit = scorevi.fit(target, family="diagonal", max_gradients=2000)
    full = scorevi.fit(target, max_gradients=2000)
    precision = np.diag(np.linalg.inv(full.covariance))
    assert fit.status == "converged"
    assert np.abs((fit.mean - full.mean) / full.q.sd).max() < 0.25
    assert np.abs(np.log(fit.q.sd * precision**0.5)).max() < 0.15
    low_rank = scorevi.fit(target, family="low-rank", rank=10, max_gradients=2000)
    assert fit.elbo < low_rank.elbo < full.elbo + 0.1


def test_rows_determine_a_diagonal_and_directions():
    rng = np.random.default_rng(0)
    dim, rank = 80, 4
    diagonal, loadings = rng.uniform(0.5, 2.0, dim), rng.normal(size=(dim, rank))
    matrix = np.diag(diagonal) + loadings @ loadings.T
    x = rng.normal(size=(30, dim))
    nothing = Past(np.zeros(dim), np.zeros(dim))
    found = decompose(x, x @ matrix, rank, np.ones(dim), nothing)
    np.testing.assert_allclose(found.diagonal, diagonal, rtol=1e-3)
    again = decompose(x, x @ matrix, rank, found.diagonal, nothing, is_near=True)
    rows = rng.normal(size=(3, dim))
    np.testing.assert_allclose(again.solve(rows), np.linalg.solve(matrix, rows.T).T, rtol=1e-4)
    white = again.whiten(rows)
    np.testing.assert_allclose(
        np.vecdot(white, white), np.vecdot(rows, np.linalg.solve(matrix, rows.T).T), rtol=1e-4
    )
    np.testing.assert_allclose(again.lengths(rows) ** 2, np.vecdot(rows, rows @ matrix), rtol=1e-4)
    other = rescaled(again, 2.0 * again.diagonal)
    added = other.lengths(rows) ** 2 - again.lengths(rows) ** 2
    np.testing.assert_allclose(added, rows**2 @ again.diagonal, rtol=1e-6)


def test_draws_without_an_opposite_still_count():
    rng = np.random.default_rng(0)
    q = LowRank.standard(3)
    noise = rng.normal(size=(2, 3))
    z = np.concatenate([noise, -noise])
    score = -2.0 * z + 1.0
    batch = Batch.of(q, q.points(z), score, None)
    offset, odd, even = opposites(batch)
    np.testing.assert_allclose(odd, -2.0 * offset)
    np.testing.assert_allclose(even, 1.0)
    kept = Batch.of(q, Points(*(column[1:] for column in q.points(z))), score[1:], None)
    offset, odd, even = opposites(kept)
    assert len(offset) == 2
    assert len(even) == 1
    np.testing.assert_allclose(odd, -2.0 * offset)


@SHORT
def test_a_wall_does_not_stop_it():
    def score(theta):
        return np.where(theta[:, :1] > -0.5, -theta, np.nan)

    target = scorevi.from_function(score, 30)
    fit = scorevi.fit(target, LowRankReplay(2), max_gradients=600)
    assert fit.status.ok
    assert fit.bad_scores.total > 0
    assert np.abs(np.log(fit.q.sd[1:])).max() < 0.5


def test_what_is_refused():
    p = LowRank.standard(4)
    with pytest.raises(ValueError, match="`rank` is that of family='low-rank'; got 3 with 'diag"):
        scorevi.fit(p, family="diagonal", rank=3)
    with pytest.raises(ValueError, match="`rank` must be a whole number >= 0; got -1"):
        scorevi.fit(p, family="low-rank", rank=-1)
    with pytest.raises(ValueError, match="`family` must be 'gaussian' for the solver 'gsm'; got"):
        scorevi.fit(p, "gsm", family="low-rank")
    with pytest.raises(ValueError, match="`components` must be left out with family='low-rank'"):
        scorevi.fit(p, family="low-rank", components=4)
    with pytest.raises(ValueError, match="`initial` must have the target's dimension, 4; got 3"):
        scorevi.fit(p, family="low-rank", initial=LowRank.standard(3))


def test_which_solver_a_family_has():
    assert of_family(LowRankReplay(3), "low-rank", rank=5) == LowRankReplay(5)
    assert of_family(LowRankReplay(3), "gaussian") == LowRankReplay(3)
    assert of_family(scorevi.Replay(4), "diagonal") == LowRankReplay(0, 4)
