"""Hierarchies: which parameters make them Gaussian, and fits that use it."""

from types import SimpleNamespace

import numpy as np
import pytest
from conftest import SHORT

import scorevi
from scorevi import Gaussian, Nested
from scorevi.base.estimates import weighted_quantile
from scorevi.families.given import Given
from scorevi.solvers import make_solver, mixing, nesting
from scorevi.solvers.base import Grows
from scorevi.solvers.mixing import Mixing
from scorevi.solvers.overall import importance, mixture_of
from scorevi.solvers.powers import chosen, gains
from scorevi.solvers.scales import structure
from scorevi.solvers.terms import _merged, believed, regressed
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.zoo import zoo

GROUPS = 8
EFFECTS = np.array([28.0, 8.0, -3.0, 7.0, -1.0, 1.0, 18.0, 12.0])
ERRORS = np.array([15.0, 10.0, 16.0, 11.0, 9.0, 11.0, 10.0, 18.0])


def schools(centered):
    """Return eight schools, log τ ~ N(1.5, 1) so that the truth is a matter of two dimensions."""

    def terms(x):
        mu, log_tau, rest = x[:, :1], x[:, 1:2], x[:, 2:]
        tau = np.exp(log_tau)
        theta = rest if centered else mu + tau * rest
        return mu, log_tau, tau, rest, theta

    def log_density(x):
        mu, log_tau, tau, rest, theta = terms(x)
        value = -0.5 * (mu[:, 0] / 5) ** 2 - 0.5 * (log_tau[:, 0] - 1.5) ** 2
        value += (-0.5 * ((EFFECTS - theta) / ERRORS) ** 2).sum(axis=1)
        if centered:
            return value + (-0.5 * ((rest - mu) / tau) ** 2 - log_tau).sum(axis=1)
        return value - 0.5 * (rest**2).sum(axis=1)

    def score(x):
        mu, log_tau, tau, rest, theta = terms(x)
        data = (EFFECTS - theta) / ERRORS**2
        if centered:
            away = (rest - mu) / tau**2
            of_mu, of_rest = away.sum(axis=1), data - away
            of_tau = (away * (rest - mu) - 1.0).sum(axis=1)
        else:
            of_mu, of_rest = data.sum(axis=1), data * tau - rest
            of_tau = (data * tau * rest).sum(axis=1)
        of_mu = of_mu - mu[:, 0] / 25
        return np.column_stack([of_mu, of_tau - (log_tau[:, 0] - 1.5), of_rest])

    names = ["mu", "log_tau", *(f"theta[{k}]" for k in range(GROUPS))]
    return scorevi.from_function(score, 2 + GROUPS, log_density, names, batched=True)


def truth():
    """Return mean and sd of μ and log τ, by quadrature over log τ: given it all is Gaussian."""
    log_tau = np.linspace(-8.0, 7.0, 4001)
    variance = ERRORS**2 + np.exp(2 * log_tau)[:, None]
    precision = (1 / variance).sum(axis=1) + 1 / 25
    mean = (EFFECTS / variance).sum(axis=1) / precision
    log_p = -0.5 * (log_tau - 1.5) ** 2 - 0.5 * np.log(variance).sum(axis=1)
    log_p += -0.5 * (EFFECTS**2 / variance).sum(axis=1)
    log_p += 0.5 * precision * mean**2 - 0.5 * np.log(precision)
    weight = np.exp(log_p - log_p.max())
    weight /= weight.sum()
    mu = weight @ mean
    sd_mu = np.sqrt(weight @ (1 / precision + (mean - mu) ** 2))
    center = weight @ log_tau
    return np.array([mu, center]), np.array([sd_mu, np.sqrt(weight @ (log_tau - center) ** 2)])


@pytest.mark.parametrize(("centered", "powers"), [(True, [-2.0]), (False, [1.0, 2.0])])
def test_the_terms_of_a_normal_hierarchy_are_found_exactly(centered, powers):
    target = schools(centered)
    q = scorevi.fit(target, family="gaussian", max_gradients=600).q
    z = np.random.default_rng(0).standard_normal((200, q.dim))
    h = q.whiten_score(target.score(q.unwhiten(z)))
    found = structure(q, z, np.asarray(h), np.ones(len(z)))
    assert found.scales == (1,)  # log τ
    unit = q.sd[1] * np.sign(found.turn[:, 0] @ q.factor.T[:, 1])
    np.testing.assert_allclose(sorted(found.given.rates[1:, 0] / unit), powers, rtol=1e-6)
    assert found.explains > 1 - 1e-6


def test_a_gaussian_has_no_scales():
    q = Gaussian.standard(4)
    z = np.random.default_rng(0).standard_normal((100, 4))
    assert structure(q, z, -z, np.ones(100)) is None


@pytest.mark.parametrize("seed", range(3))
def test_a_hierarchy_comes_out_right(seed):
    """Within 0.12: importance sampling of the scale with 600 effective draws has 0.04 of error."""
    mean, sd = truth()
    fit = scorevi.fit(schools(centered=True), seed=seed)
    assert isinstance(fit.q, Nested)
    assert fit.status == "converged"
    assert "Gaussian given log_tau" in repr(fit)
    assert fit.num_gradients < 4000
    assert np.all(np.abs(fit.mean[:2] - mean) < 0.12 * sd)
    assert np.all(np.abs(np.log(fit.q.sd[:2] / sd)) < 0.12)


@pytest.fixture(scope="module")
def whole():
    return scorevi.fit(schools(True), seed=1)


def interrupted(stop_at):
    base, count = schools(True), [0]

    def score(theta):
        count[0] += len(theta)
        if count[0] > stop_at:
            raise KeyboardInterrupt
        return base.score(theta)

    def log_density(theta):
        return base.evaluate(theta).log_density

    return scorevi.from_function(score, base.dim, log_density, batched=True)


def test_it_goes_on_from_a_checkpoint_to_the_same_bits(whole, tmp_path):
    keep = {"seed": 1, "checkpoint": tmp_path / "kept.npz"}
    reference = scorevi.fit(interrupted(10**9), seed=1)
    part = scorevi.fit(interrupted(whole.num_gradients - 200), checkpoint_seconds=1e-9, **keep)
    assert part.status == "interrupted"
    assert isinstance(part.q, Nested)
    fit = scorevi.fit(interrupted(10**9), resume=True, **keep)
    assert fit.num_gradients == reference.num_gradients
    np.testing.assert_array_equal(fit.q.given.precisions, reference.q.given.precisions)
    np.testing.assert_array_equal(fit.mean, reference.mean)


def test_all_that_a_fit_does_works_with_a_nested_q(whole, tmp_path):
    fit = whole
    saved = scorevi.load(fit.save(tmp_path / "fit"), schools(True))
    theta = fit.sample(100, seed=0)
    np.testing.assert_array_equal(saved.q.log_density(theta), fit.q.log_density(theta))
    np.testing.assert_allclose([row.mean for row in fit.summary], fit.mean)
    assert np.all(fit.error_bars().mean < 0.3 * fit.q.sd)
    assert fit.check() != "fail"
    chosen = fit.resample(500, seed=0)
    assert chosen.ess > 500
    assert fit.draws(3, seed=0)["log_tau"].shape == (3,)


def test_a_damaged_file_is_refused(whole, tmp_path):
    path = whole.save(tmp_path / "fit")
    with np.load(path) as read:
        arrays = dict(read)
    name = max((n for n in arrays if n.startswith("q_")), key=lambda n: arrays[n].size)
    arrays[name] = arrays[name] * np.nan
    np.savez(path, **arrays)
    with pytest.raises(ValueError, match=r"nested|damaged"):
        scorevi.load(path)


def test_components_and_mixture_ask_for_a_mixture():
    fit = scorevi.fit(schools(True), family="mixture", components=3, max_gradients=2000)
    assert isinstance(fit.q, scorevi.Mixture)
    assert len(fit.q.components) <= 3


def test_a_mixture_by_weights_has_the_moments_of_the_weighted_points():
    rng = np.random.default_rng(0)
    t = rng.standard_normal((800, 2)) * [2.0, 0.5]
    weight = importance(-0.1 * t[:, 0] ** 2 + t[:, 1])
    q = mixture_of(t, weight)
    mean = weight @ t
    np.testing.assert_allclose(q.mean, mean, atol=0.02)
    np.testing.assert_allclose(q.sd, np.sqrt(weight @ (t - mean) ** 2), rtol=0.05)


def test_what_is_wider_is_a_part_of_it_and_hardly_shows():
    rng = np.random.default_rng(0)
    t = rng.standard_normal((800, 1)) * 2.0
    log_t = -0.5 * t[:, 0] ** 2
    log_ratio = log_t + 0.125 * t[:, 0] ** 2
    narrow = importance(log_ratio)
    q = mixture_of(t, narrow, importance(log_ratio - 0.5 * log_t))
    alone = mixture_of(t, narrow)
    assert q.sd[0] < 1.06 * alone.sd[0]
    assert q.log_density(np.array([5.0])) > alone.log_density(np.array([5.0])) + 2.0


def test_no_weights_at_all_are_one_draw():
    weight = importance(np.full(30, -np.inf))
    assert 1.0 / (weight @ weight) == 1.0


def test_powers_of_a_scale_that_is_well_known_are_told_apart():
    """The scale varies by 5 %, so that all its powers are nearly lines; data weigh e^{−2t}."""
    rng = np.random.default_rng(3)
    count, width = 400, 4
    t, y = 0.05 * rng.standard_normal((count, 1)), rng.standard_normal((count, width))
    data = np.diag([3.0, 2.0, 1.0, 0.5])
    h = np.exp(-2.0 * t) * (1.0 - y @ data) - y
    rates, left, _ = chosen(t, y, h, np.ones(count), np.eye(1))
    assert rates[:, 0].tolist() == [0.0, -2.0]
    assert left < 1e-12


def test_products_are_found_half_way_between_squares():
    """A non-centered effect: squares have e^{2t}, the prior has 1, their products e^t."""
    rng = np.random.default_rng(4)
    count = 400
    t, y = 0.5 * rng.standard_normal((count, 1)), rng.standard_normal((count, 2))
    scale = np.exp(t[:, 0])
    off = 0.7 - y[:, 0] - scale * y[:, 1]
    h = np.column_stack([off - 0.1 * y[:, 0], scale * off - y[:, 1]])
    rates, left, _ = chosen(t, y, h, np.ones(count), np.eye(1))
    assert sorted(rates[:, 0]) == [0.0, 1.0, 2.0]
    assert left < 1e-12


def test_terms_that_are_known_are_where_the_search_begins():
    """One scale explains the first two scores, another the others; the first is known."""
    rng = np.random.default_rng(6)
    count = 400
    t, y = 0.5 * rng.standard_normal((count, 2)), rng.standard_normal((count, 4))
    h = -np.exp(-2.0 * t[:, [0, 0, 1, 1]]) * y
    found = chosen(t, y, h, np.ones(count), np.eye(2), np.array([[0.0, 0.0], [-2.0, 0.0]]))
    assert sorted(map(tuple, found.rates)) == [(-2.0, 0.0), (0.0, -2.0), (0.0, 0.0)]
    assert found.left < 1e-12 < found.before
    again = chosen(t, y, h, np.ones(count), np.eye(2), found.rates)
    assert again.rates is found.rates


def test_what_further_terms_explain_is_what_a_regression_says():
    rng = np.random.default_rng(7)
    count = 300
    t, y = rng.standard_normal((count, 1)), rng.standard_normal((count, 3))
    residual, weight = rng.standard_normal((count, 3)), rng.uniform(0.5, 2.0, count)
    known, new = np.exp(t @ [[0.0, -1.0]]), np.exp(t @ [[-2.0, 1.0, 0.5]])
    root = np.sqrt(weight)[:, None]
    expected = []
    for column in new.T:
        own = column - known @ np.linalg.lstsq(known * root, column * root[:, 0])[0]
        design = root * own[:, None] * np.column_stack([np.ones(count), t, y])
        left = np.linalg.lstsq(design, root * residual)[1].sum()
        expected.append((root**2 * residual**2).sum() - left)
    np.testing.assert_allclose(gains(known, new, t, y, residual, weight), expected, rtol=1e-6)


def test_a_parameter_that_no_term_has_is_no_scale():
    target = schools(True)
    rng = np.random.default_rng(5)
    base = Gaussian(np.array([4.0, 1.5, *EFFECTS / 3]), np.diag([3.0, 0.5, *np.full(GROUPS, 3.0)]))
    theta = base.sample(400, rng)
    h = np.asarray(base.whiten_score(target.evaluate(theta).score))
    found = structure(base, base.whiten(theta), h, np.ones(400))
    assert found is not None
    assert found.scales == (1,)


@pytest.mark.slow
def test_what_explains_the_scores_worse_than_one_gaussian_gives_way_to_a_mixture(monkeypatch):
    target = hierarchies()["plates-centered"]()
    assert isinstance(scorevi.fit(target, seed=0).q, Nested)
    monkeypatch.setattr(nesting, "_WORSE", 0.0)
    assert isinstance(scorevi.fit(target, seed=0).q, scorevi.Mixture)


def test_pairs_so_far_out_that_terms_overflow_are_left_out():
    rng = np.random.default_rng(5)
    t, y = rng.standard_normal((60, 1)), rng.standard_normal((60, 3))
    rates = np.array([[0.0], [0.8]])
    given = regressed(rates, t, y, -y * (1.0 + np.exp(0.8 * t)), np.ones(60))
    t[:5] = 3e3
    sane = believed(given, t, y, -y * (1.0 + np.exp(0.8 * np.minimum(t, 1.0))))
    assert not sane[:5].any()
    assert sane[5:].mean() > 0.7
    t[:] = 3e3
    assert not believed(given, t, y, -y).any()


def test_where_no_pair_is_left_it_gives_way_to_a_mixture(monkeypatch):
    """A posterior with a long wall had scales so far out that no score was believed."""
    monkeypatch.setattr(nesting, "believed", lambda *pairs: np.zeros(len(pairs[1]), dtype=bool))
    fit = scorevi.fit(schools(centered=True), seed=0, max_gradients=2500)
    assert not isinstance(fit.q, Nested)
    assert fit.num_updates > 0


def test_scales_never_shrink_to_one_draw():
    """One draw of a y that is far too wide given its scales seemed to hold everything."""
    recent, nothing = np.random.default_rng(3).standard_normal((50, 2)), np.zeros(50)
    log_p = nothing.copy()
    log_p[7] = 500.0
    over = scorevi.Mixture.standard(2)
    state = SimpleNamespace(
        log_p=log_p, log_given=nothing, off=nothing, mixed=nothing, q=SimpleNamespace(over=over)
    )
    counted, wide = nesting._counted(state, recent, np.ones(50, dtype=bool))
    assert 1.0 / (counted @ counted) > 2.9
    found = mixture_of(recent, counted, wide)
    assert found.sd.min() > 0.1


def test_what_is_bimodal_given_a_parameter_ends_as_a_mixture():
    def log_density(x):
        radius = np.sqrt((x**2).sum(axis=1))
        return -0.5 * ((radius - 6.0) / 0.7) ** 2

    def score(x):
        radius = np.sqrt((x**2).sum(axis=1, keepdims=True))
        return -(radius - 6.0) / 0.49 * x / radius

    fit = scorevi.fit(scorevi.from_function(score, 2, log_density, batched=True), seed=2)
    assert isinstance(fit.q, scorevi.Mixture)
    np.testing.assert_allclose(fit.q.sd, 4.3, rtol=0.15)


def test_a_wrong_sign_in_a_hierarchy_is_told_and_does_not_break_it():
    right = schools(True)
    signs = np.where(np.arange(2 + GROUPS) == 0, -1.0, 1.0)

    def score(x):
        return right.evaluate(x).score * signs

    def log_density(x):
        return right.evaluate(x).log_density

    wrong = scorevi.from_function(score, 2 + GROUPS, log_density, batched=True)
    with pytest.warns(scorevi.FitWarning, match="contradicts|diverged|bad-scores"):
        fit = scorevi.fit(wrong, seed=0)
    assert fit.check() == "fail"


def test_weights_are_shortened_and_bad_ones_are_zero():
    log_ratio = np.append(np.zeros(97), [8.0, -np.inf, np.nan])
    weight = importance(log_ratio)
    assert weight.sum() == pytest.approx(1.0)
    assert weight[98] == weight[99] == 0.0
    assert weight[97] / weight[0] < np.exp(8.0)


def _noisy_neck(seed):
    """Return a Gaussian given t, found from noisy scores, and its true precision and mean.

    Ten groups around a mean, whose precision is e^(−2t), and a slope; t has sd 0.7.
    """
    rng = np.random.default_rng(seed)
    width, count = 12, 600
    turn = np.linalg.qr(rng.standard_normal((width, width)))[0]
    around = np.diag([1.0] * 10 + [10.0, 0.0])
    around[:10, 10] = around[10, :10] = -1.0
    first, second = (turn @ one @ turn.T for one in (np.diag(rng.uniform(0.5, 2.0, width)), around))
    linear = turn @ rng.standard_normal(width)

    def truth(t):
        precision = first + np.exp(-2.0 * t) * second
        return precision, np.linalg.solve(precision, linear)

    t = 0.7 * rng.standard_normal((count, 1))
    y, h = np.empty((2, count, width))
    for i, (precision, mean) in enumerate(map(truth, t[:, 0])):
        root = np.linalg.cholesky(precision)
        y[i] = mean + np.linalg.solve(root.T, rng.standard_normal(width))
        h[i] = linear - precision @ y[i] + 0.5 * rng.standard_normal(width)
    found = regressed(np.array([[0.0], [-2.0]]), t, y, h, np.ones(count), turn.T)
    return found, truth


def test_necks_are_followed_beyond_what_was_seen():
    """At t = −2, three sds out; means were 0.5 sd off where intercepts had other matrices."""
    away = []
    for seed in range(10):
        found, truth = _noisy_neck(seed)
        precision, mean = truth(-2.0)
        means, _ = found.moments(np.array([[-2.0]]))
        away.append(np.linalg.norm(np.linalg.cholesky(precision).T @ (means[0] - mean)))
        terms = found.terms(np.array([[-4.0]]))[0]
        far = np.tensordot(terms, found.precisions, 1)
        assert np.linalg.eigvalsh(far)[0] > 0.0
    assert np.mean(away) < 0.3


def test_halves_of_a_matrix_count_by_their_noise():
    matrix = np.array([[1.0, 0.5], [0.0, 2.0]])
    noise = np.array([[0.1, 0.3], [0.1, 0.1]])
    merged, left = _merged(matrix, noise)
    np.testing.assert_allclose(merged, [[1.0, 0.125], [0.125, 2.0]])
    np.testing.assert_allclose(left, [[0.05, 0.075], [0.075, 0.05]])


@pytest.mark.slow
def test_what_is_returned_has_been_drawn_from(monkeypatch):
    """A Gaussian given scales that no draw has tried may be far too wide between the pairs."""
    tried, step = [], mixing.step

    def recording(state, batch):
        tried.append(state.q.given)
        return step(state, batch)

    monkeypatch.setattr(mixing, "step", recording)
    fit = scorevi.fit(hierarchies()["hospitals-centered"](), seed=0)
    assert isinstance(fit.q, Nested)
    assert fit.q.given is tried[-1]


@pytest.mark.parametrize("seed", range(3))
def test_a_hierarchy_is_known_before_any_gaussian_has_arrived(seed):
    fit = scorevi.fit(schools(centered=True), seed=seed)
    assert isinstance(fit.q, Nested)
    assert fit.q.given.ends is None  # its terms are exact
    assert fit.trace.num_gradients[0] < 200
    assert fit.num_gradients < 1200


@SHORT
@pytest.mark.parametrize(("budget", "kind"), [(100, Gaussian), (300, Gaussian), (1000, Nested)])
def test_scales_are_not_begun_with_where_no_gradients_are_left_for_them(budget, kind):
    fit = scorevi.fit(scorevi.examples.eight_schools(), seed=0, max_gradients=budget)
    assert isinstance(fit.q, kind)


def test_in_many_dimensions_and_for_one_gaussian_it_is_not_asked():
    assert Mixing().may_know(128, 300)
    assert not Mixing().may_know(129, 10_000)
    assert not Mixing().may_know(10, 299)
    assert not Mixing(components=2).may_know(10, 10_000)
    assert not isinstance(make_solver("replay"), Grows)


def test_the_quantile_of_weighted_values():
    values, weight = np.array([3.0, 1.0, 2.0]), np.array([0.1, 0.6, 0.3])
    levels = (0.5, 0.85, 0.95, 1.0)
    assert [weighted_quantile(values, weight, level) for level in levels] == [1, 2, 3, 3]


def test_what_is_below_one_gaussian_is_not_good_enough():
    """A few wild draws, with all else in order, are told by the ELBO alone."""
    over = scorevi.Mixture.standard(1)
    given = Given(np.zeros((1, 1)), np.eye(2)[None], np.zeros((1, 2, 2)))
    nested = Nested(Gaussian.standard(3), np.eye(3), over, given, (0,))
    state = SimpleNamespace(
        q=nested,
        counts=np.array([1200]),
        settled=np.array([900.0, 0.0, 1.0]),
        left=0.02,
        fisher=1.0,
        elbo=-3.0,
    )
    state._replace = lambda **changes: SimpleNamespace(**(vars(state) | changes))
    for elbo, ends in ((-2.9, True), (-40.0, False)):
        info = nesting.NestingInfo(effective=700.0, elbo=elbo, fisher=0.5)
        following = nesting._ended(state, info, outside=0.0, tried=given)
        assert bool(getattr(following, "ending", "")) == ends


@pytest.mark.parametrize("seed", range(3))
def test_what_only_seems_exact_is_found_out(seed):
    """Close together, the pairs of a banana are explained to four digits by terms that are none."""
    animal = zoo()["banana"]()
    fit = scorevi.fit(animal.target, seed=seed)
    assert isinstance(fit.q, Nested)
    np.testing.assert_allclose(fit.q.sd, animal.truth.sd, rtol=0.1)
    assert fit.num_gradients < 2000
