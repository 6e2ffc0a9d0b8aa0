"""Mixtures by replay: where one Gaussian is not enough, and where it is."""

import numpy as np
import pytest
from conftest import SEEDS

import scorevi
from scorevi import Gaussian, Mixture
from scorevi.examples import eight_schools, funnel, gaussian, random_gaussian
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.truth import load_truth
from scorevi.studies.zoo import zoo


def errors(theta, truth):
    mean = np.abs(theta.mean(axis=0) - truth.mean) / truth.sd
    return float(mean.max()), float(np.abs(np.log(theta.std(axis=0) / truth.sd)).max())


BENT = {
    "banana": (0.1, 0.15),
    "funnel, scale 1": (0.1, 0.15),
    "ring": (0.1, 0.15),
    "two modes that touch, 50 : 50": (0.1, 0.15),
    "sinh-arcsinh, skew 1, tail 1": (0.12, 0.25),
}
"""Bounds on the errors of means, in standard deviations, and of log standard deviations."""
QUICK = "banana"


@pytest.mark.parametrize(
    "name", [name if name == QUICK else pytest.param(name, marks=pytest.mark.slow) for name in BENT]
)
@pytest.mark.parametrize("seed", SEEDS)
def test_it_is_right_where_one_gaussian_is_not(name, seed):
    animal = zoo()[name]()
    one = scorevi.fit(animal.target, seed=seed, family="gaussian")
    fit = scorevi.fit(animal.target, seed=seed, family="mixture")
    mean, log_sd = errors(fit.sample(20_000, seed=0), animal.truth)
    assert isinstance(fit.q, Mixture)
    assert mean < BENT[name][0]
    assert log_sd < BENT[name][1]
    # It begins as one Gaussian, to the bit.
    np.testing.assert_array_equal(fit.trace.elbo[:10], one.trace.elbo[:10])
    assert fit.num_gradients <= 10_000


def test_a_little_of_everything_is_no_reason_for_components():
    """In 50 dimensions log p − log q varies, and yet no direction stands out."""
    target = scorevi.examples.logistic_regression(50, seed=0)
    one = scorevi.fit(target, family="gaussian", seed=0)
    fit = scorevi.fit(target, seed=0)
    draws = fit.sample(400, seed=7)
    ratio = target.evaluate(draws).log_density - fit.q.log_density(draws)
    assert ratio.std() > 0.4
    assert fit.num_gradients == one.num_gradients
    np.testing.assert_array_equal(fit.q.factor, one.q.factor)


@pytest.mark.slow
@pytest.mark.parametrize("name", ["meta-8-noncentered", "plates-centered", "hospitals-noncentered"])
def test_hierarchies_come_out_right(name):
    truth = load_truth(name)
    fit = scorevi.fit(hierarchies()[name](), family="mixture")
    mean, log_sd = errors(fit.sample(20_000, seed=0), truth)
    assert mean < 0.15
    assert log_sd < 0.3
    assert fit.check() == "pass"
    assert fit.resample(1000, seed=0).ess > 1000


@pytest.mark.parametrize(
    "target",
    [
        gaussian([1.0, -2.0], [[2.0, 0.5], [0.5, 1.0]]),
        random_gaussian(20, 1e4),
        zoo()["sinh-arcsinh, skew 0.2, tail 1"]().target,
    ],
)
def test_where_one_gaussian_is_right_it_is_the_same_to_the_bit(target):
    one, other = (scorevi.fit(target, family=family) for family in ("gaussian", "auto"))
    assert isinstance(other.q, Gaussian)
    assert other.num_gradients == one.num_gradients
    np.testing.assert_array_equal(one.q.factor, other.q.factor)
    np.testing.assert_array_equal(one.mean, other.mean)


def interrupted(stop_at):
    """Return a funnel whose score is interrupted after so many points."""
    base, count = funnel(5, 1.0), [0]

    def score(theta):
        count[0] += len(theta)
        if count[0] > stop_at:
            raise KeyboardInterrupt
        return base.score(theta)

    return scorevi.from_function(score, 5, base.log_density, batched=True)


@pytest.fixture(scope="module")
def whole():
    return scorevi.fit(interrupted(10**9), family="mixture", seed=1)


@pytest.mark.parametrize("share", [0.4, 0.7, 0.95])
def test_it_goes_on_from_a_checkpoint_to_the_same_bits(share, whole, tmp_path):
    stop_at = int(share * whole.num_gradients)
    path = tmp_path / "kept.npz"
    keep = {"family": "mixture", "seed": 1, "checkpoint": path}
    part = scorevi.fit(interrupted(stop_at), checkpoint_seconds=1e-9, **keep)
    assert part.status == "interrupted"
    fit = scorevi.fit(interrupted(10**9), resume=True, **keep)
    assert fit.num_gradients == whole.num_gradients
    np.testing.assert_array_equal(fit.q.log_weights, whole.q.log_weights)
    for one, other in zip(fit.q.components, whole.q.components, strict=True):
        np.testing.assert_array_equal(one.mean, other.mean)
        np.testing.assert_array_equal(one.factor, other.factor)


def test_all_that_a_fit_does_works_with_a_mixture(whole, tmp_path):
    fit = whole
    assert "a mixture of" in repr(fit)
    saved = scorevi.load(fit.save(tmp_path / "fit"), interrupted(10**9))
    theta = fit.sample(100, seed=0)
    np.testing.assert_array_equal(saved.q.log_density(theta), fit.q.log_density(theta))
    np.testing.assert_allclose([row.mean for row in fit.summary], fit.mean)
    for row, values in zip(fit.summary, fit.sample(50_000, seed=1).T, strict=True):
        assert (values < row.lower).mean() == pytest.approx(0.05, abs=0.01)
    bars = fit.error_bars()
    assert np.all(bars.mean < 0.2 * fit.q.sd)
    assert fit.check() in ("pass", "warn")
    chosen = fit.resample(500, seed=0)
    assert chosen.ess > 500
    assert fit.covariance.shape == (5, 5)
    assert set(fit.draws(7)) == set(fit.resample(25).draws)


def test_a_mixture_is_named_after_what_its_components_lie_along(capsys):
    from scorevi.results.report import print_report

    fit = scorevi.fit(hierarchies()["meta-8-noncentered"](), family="mixture", seed=1)
    print_report(fit, 1, {})
    assert "along log_tau: nearly Gaussian given it" in capsys.readouterr().out


def test_a_ceiling_on_components_and_on_gradients_is_heeded():
    fit = scorevi.fit(funnel(5, 1.0), family="mixture", components=4, seed=1)
    assert 2 <= len(fit.q.components) <= 4
    fit = scorevi.fit(funnel(5, 1.0), family="mixture", max_gradients=3000, stop=False, seed=1)
    assert fit.num_gradients == 3000
    assert fit.status == "budget"
    assert isinstance(fit.q, Mixture)


def test_iterate_goes_on_with_a_mixture():
    steps = scorevi.iterate(funnel(5, 1.0), family="mixture", seed=1, max_gradients=3500)
    last = list(steps)[-1]
    assert isinstance(last.q, Mixture)
    assert last.info.components == len(last.q.components)


@pytest.mark.filterwarnings("ignore::scorevi.FitWarning")
def test_without_a_log_density_it_stays_with_one_gaussian():
    base = funnel(3, 1.0)
    fit = scorevi.fit(scorevi.from_function(base.score, 3, batched=True), family="mixture")
    assert isinstance(fit.q, Gaussian)


@pytest.mark.filterwarnings("ignore::scorevi.FitWarning")
def test_bad_scores_are_ordinary_events():
    base = funnel(4, 1.0)
    beyond = lambda theta: theta[:, 1] > 1.5  # noqa: E731
    fit = scorevi.fit(
        scorevi.from_function(
            lambda theta: np.where(beyond(theta)[:, None], np.nan, base.score(theta)),
            4,
            lambda theta: np.where(beyond(theta), np.nan, base.log_density(theta)),
            batched=True,
        ),
        family="mixture",
    )
    assert isinstance(fit.q, Mixture)
    assert fit.bad_scores.total > 0
    assert np.isfinite(fit.mean).all()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            {"family": "student"},
            "`family` must be one of 'gaussian', 'auto', 'mixture', 'low-rank'",
        ),
        (
            {"family": "mixture", "solver": "gsm"},
            "`family` must be 'gaussian' for the solver 'gsm'",
        ),
        (
            {"family": "gaussian", "components": 3},
            "`components` must be left out with family='gaussian'",
        ),
        ({"family": "mixture", "components": 0}, "`components` must be"),
    ],
)
def test_what_cannot_be_is_refused(arguments, message):
    with pytest.raises(ValueError, match=message):
        scorevi.fit(eight_schools(), **arguments)


def test_pictures_show_components_and_bananas(whole):
    figure = scorevi.plots.plot_marginals(whole)
    count = len(whole.q.components)
    assert [len(axes.lines) for axes in figure.axes] == [count + 1] * 5 + [0]
    assert figure._repr_png_()[:4] == b"\x89PNG"
    figure = scorevi.plots.plot_pair(whole, *whole.labels[:2])
    assert len(figure.axes[0].collections) == 1
    with pytest.raises(ValueError, match=r"`x` must be among fit.labels, .*; got 'nobody'"):
        scorevi.plots.plot_pair(whole, "nobody", whole.labels[0])
    one = scorevi.fit(random_gaussian(2))
    assert len(scorevi.plots.plot_marginals(one, [one.labels[1]]).axes[0].lines) == 1


@pytest.mark.parametrize("name", ["two modes, 50 : 50", "two modes, 90 : 10"])
@pytest.mark.parametrize("seed", SEEDS)
def test_modes_elsewhere_become_components_of_the_weight_that_they_hold(name, seed):
    animal = zoo()[name]()
    fit = scorevi.fit(animal.target, seed=seed, family="mixture")
    assert len(fit.q.components) == 2
    mean, log_sd = errors(fit.sample(50_000, seed=0), animal.truth)
    assert max(mean, log_sd) < 0.05
    assert fit.check() == "pass"
    assert fit.num_gradients < 1000


def test_a_mode_that_holds_nothing_is_no_component():
    """A narrow mode, 60 nats below."""
    main, minor = Gaussian.standard(3), Gaussian(np.full(3, 12.0), 0.3 * np.eye(3))
    p = Mixture(log_weights=np.array([0.0, -60.0]), components=[main, minor])
    fit = scorevi.fit(gaussian_mixture(p), family="mixture")
    assert isinstance(fit.q, Gaussian)
    np.testing.assert_allclose(fit.mean, 0.0, atol=1e-6)


def gaussian_mixture(p):
    return scorevi.from_function(p.score, p.dim, p.log_density, batched=True)


@pytest.mark.parametrize(("begin", "width"), [(0, 0.7), (0, 1.0), (1, 1.0)])
def test_modes_in_several_dimensions(begin, width):
    """From the one that is not wider: far away the wider one is all there is to be seen."""
    rng = np.random.default_rng(1)
    parts = [Gaussian(8.0 * rng.standard_normal(6), scale * np.eye(6)) for scale in (width, 1.0)]
    p = Mixture([0.7, 0.3], parts)
    fit = scorevi.fit(gaussian_mixture(p), family="mixture", initial=parts[begin].mean)
    np.testing.assert_allclose(np.sort(fit.q.weights), [0.3, 0.7], atol=0.02)
    np.testing.assert_allclose(fit.mean, p.mean, atol=0.1 * p.sd.max())


def test_a_mixture_that_was_cut_short_is_known_by_its_edge():
    """Thirty dimensions, along one of which the last component stands on a plateau."""
    from scorevi.trust.edges import Line

    def along(places, weights):
        parts = [Gaussian(np.eye(30)[0] * place, np.diag([0.3, *[1.0] * 29])) for place in places]
        return Line.of(Mixture(weights, parts))

    falling = np.exp(-0.5 * np.linspace(-3, 3, 15) ** 2)
    whole = along(np.linspace(-3, 3, 15), falling)
    cut = along(np.linspace(-3, 3, 15)[5:], falling[5:])
    assert max(whole.lacks(-1.0), whole.lacks(1.0)) < 0.05
    assert max(cut.lacks(-1.0), cut.lacks(1.0)) > 0.25
    assert cut.parameter == 0
