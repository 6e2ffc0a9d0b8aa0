"""Pictures: what they show of a fit, with few and with many parameters."""

import dataclasses

import numpy as np
import pytest
from conftest import gsm_fit
from made_up import many

import scorevi
from scorevi.examples import eight_schools, random_gaussian
from scorevi.results.plots import KINDS
from scorevi.results.shapes import correlations, exact_curve, sampled_curve, strongest, survey
from scorevi.results.table import LEVELS

pytest.importorskip("matplotlib")


@pytest.fixture(scope="module")
def fit():
    fit = gsm_fit(eight_schools(), max_gradients=400, seed=2)
    fit.check(modes=False)
    return fit


@pytest.mark.slow
@pytest.mark.parametrize("dim", [1, 5, 500])
def test_every_kind_draws_few_and_many(dim, tmp_path):
    fit = gsm_fit(random_gaussian(1), max_gradients=100) if dim == 1 else many(dim)
    fit = dataclasses.replace(fit, log_ratio=np.random.default_rng(0).standard_normal(400))
    for kind in KINDS:
        if dim == 1 and kind == "pairs":
            with pytest.raises(ValueError, match="must be 2 to 8 names; got 1"):
                fit.plot(kind)
            continue
        figure = fit.plot(kind)
        figure.savefig(tmp_path / f"{kind}.png", dpi=40)
        assert sum(axes.get_visible() for axes in figure.axes) <= 12
        assert figure._repr_png_()[:4] == b"\x89PNG"


def test_the_stop_is_marked(fit):
    for axes in fit.plot("course").axes:
        assert [text.get_text() for text in axes.texts] == ["budget"]
        [stop] = [line for line in axes.lines if line.get_linestyle() == "--"]
        assert stop.get_xdata()[0] == fit.num_gradients


def test_a_density_on_the_models_own_scale_is_that_of_its_draws(fit):
    """Within 0.1 of the highest value: 10,000 draws in bins, off by more once in 1e6 fits."""
    axes = fit.plot("marginals", ["tau"]).axes[0]
    x, height = axes.lines[-1].get_data()
    assert np.trapezoid(height, x) == pytest.approx(1.0, abs=0.01)
    drawn = fit.draws(100_000, seed=3)["tau"]
    edges = np.quantile(drawn, np.linspace(0.02, 0.98, 25))
    counted = np.histogram(drawn, edges)[0] / len(drawn) / np.diff(edges)
    middle = np.interp(0.5 * (edges[1:] + edges[:-1]), x, height)
    assert np.abs(middle - counted).max() < 0.1 * height.max()


def test_quantiles_of_a_gaussian_give_its_density():
    q = random_gaussian(2, seed=3)
    fit = dataclasses.replace(gsm_fit(q, max_gradients=100), q=q, target=None)
    curve, exact = sampled_curve(fit.summary.quantiles[1]), exact_curve(q, 1)
    np.testing.assert_allclose(
        np.interp(curve.x, exact.x, exact.density), curve.density, atol=2e-3 * exact.density.max()
    )
    assert sampled_curve(np.repeat([1.0, 2.0], [10, len(LEVELS) - 10])).x.size == 0


def test_reference_draws_are_drawn_on_their_own_scale(fit):
    by_name = fit.plot("marginals", ["tau", "theta[3]"], reference=fit.draws(500, seed=1))
    assert [len(axes.patches) for axes in by_name.axes] == [1, 1]
    assert [text.get_text() for text in by_name.legends[0].texts] == ["fit", "reference"]
    theta = fit.sample(500, seed=1)
    unconstrained = fit.plot("marginals", reference=theta)
    assert {axes.get_title() for axes in unconstrained.axes} == {*fit.labels, ""}
    pairs = fit.plot("pairs", ["mu", "log_tau"], reference=theta)
    np.testing.assert_array_equal(pairs.axes[2].lines[0].get_xdata(), theta[:, 8])
    with pytest.raises(ValueError, match=r"`reference` must be an array \(n, 10\)"):
        fit.plot("pairs", reference=fit.draws(5))
    with pytest.raises(ValueError, match=r"or an array \(n, 10\).*; got shape \(3, 2\)"):
        fit.plot("marginals", reference=np.zeros((3, 2)))
    with pytest.raises(ValueError, match="'tau' is one number"):
        fit.plot("marginals", ["tau"], reference={"tau": 1.0})


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("histogram",), "`kind` must be one of overview, marginals, .*; got 'histogram'"),
        (("marginals", "tau"), "`parameters` must be a list of names; got 'tau'"),
        (("marginals", ["nobody"]), "must be names in fit.summary, mu, tau, .*; got 'nobody'"),
        (("marginals", []), "`parameters` must name at least one; got none"),
        (("pairs", ["mu", "tau"]), "`parameters` must be among fit.labels, .*; got 'tau'"),
        (("correlation", ["tau"]), "`parameters` must be among fit.labels; got 'tau'"),
        (("course", ["mu"]), "`parameters` must be left out, or `kind` be one of marginals"),
    ],
)
def test_what_cannot_be_drawn_is_said(fit, arguments, message):
    with pytest.raises(ValueError, match=message):
        fit.plot(*arguments)
    with pytest.raises(ValueError, match="`reference` must be left out, or `kind` be one of"):
        fit.plot("course", reference=fit.draws(5))


def test_a_fit_that_failed_has_a_course_and_nothing_else():
    with pytest.warns(scorevi.FitWarning):
        fit = gsm_fit(scorevi.from_function(lambda x: x * np.nan, 2, batched=True))
    texts = [axes.texts[0].get_text() for axes in fit.plot("course").axes]
    assert texts == ["no update was made", "needs the log density"]
    for kind in ("overview", "marginals", "pairs", "correlation"):
        with pytest.raises(scorevi.FitError, match="No update was made"):
            fit.plot(kind)


def test_the_weights_are_those_of_the_check(fit, tmp_path):
    weights, share = fit.plot("weights").axes[0].lines[-1].get_data()
    ratio = np.exp(fit.log_ratio - fit.log_ratio.max())
    np.testing.assert_allclose(weights, np.sort(ratio / ratio.mean())[::-1])
    assert share[-1] == 1.0
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    np.testing.assert_array_equal(back.log_ratio, fit.log_ratio)
    unchecked = gsm_fit(eight_schools(), max_gradients=100)
    with pytest.raises(ValueError, match=r"they come from fit.check\(\)"):
        unchecked.plot("weights")


def test_what_is_correlated_stands_together():
    """Two groups of three, shuffled: in the heat map each is in one piece."""
    rng = np.random.default_rng(0)
    factor = 0.3 * np.eye(6)
    factor[[0, 3, 5], 0] = factor[[1, 2, 4], 1] = 1.0
    q = scorevi.Gaussian(np.zeros(6), factor @ np.linalg.qr(rng.standard_normal((6, 6)))[0])
    order, matrix = correlations(q, np.arange(6))
    assert {frozenset(order[:3]), frozenset(order[3:])} == {
        frozenset({0, 3, 5}),
        frozenset({1, 2, 4}),
    }
    sd = q.sd[order]
    exact = q.covariance[np.ix_(order, order)] / np.outer(sd, sd)
    np.testing.assert_allclose(matrix, exact, atol=1e-12)
    found = survey(q, 6)
    assert {frozenset(pair[:2]) for pair in found.pairs} == {
        frozenset(pair) for pair in [(0, 3), (0, 5), (3, 5), (1, 2), (1, 4), (2, 4)]
    }
    assert len(strongest(many(50).q, 7)) == 7
