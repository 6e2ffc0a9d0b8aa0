"""The figures behind pictures do not ask for a matrix of all parameters where there is none."""

import numpy as np

from scorevi.examples import random_gaussian
from scorevi.results.shapes import correlations, covariance_of, strongest, survey


class Slim:
    """A Gaussian that has no D × D factor to show, only what it does to rows."""

    def __init__(self, q, conditional_sd):
        self.dim, self.sd, self.whiten_score = q.dim, q.sd, q.whiten_score
        self.conditional_sd = conditional_sd

    @property
    def coordinates(self):
        return self


def test_a_family_without_a_factor_gives_the_same_figures():
    q = random_gaussian(6, 40, seed=1)
    slim = Slim(q, np.ones(6))
    chosen = np.array([4, 1, 2])
    np.testing.assert_allclose(covariance_of(slim, chosen), q.covariance[np.ix_(chosen, chosen)])
    for one, other in zip(correlations(slim, chosen), correlations(q, chosen), strict=True):
        np.testing.assert_allclose(one, other, atol=1e-12)
    np.testing.assert_allclose(survey(slim, 3).largest, survey(q, 3).largest, atol=1e-6)


def test_of_very_many_coordinates_those_are_looked_at_that_others_tell_most_about(monkeypatch):
    monkeypatch.setattr("scorevi.results.shapes._MOST_NUMBERS", 60)
    monkeypatch.setattr("scorevi.results.shapes._FEWEST_LOOKED_AT", 3)
    q = random_gaussian(20, 40, seed=1)
    slim = Slim(q, q.sd * np.where(np.isin(np.arange(20), [3, 11, 17]), 0.1, 1.0))
    found = survey(slim, 5)
    assert set(np.flatnonzero(found.largest)) == {3, 11, 17}
    assert len(found.pairs) == 3
    assert set(strongest(slim, 2, found.largest)) < {3, 11, 17}
