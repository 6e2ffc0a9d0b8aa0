"""What a sample gives back: draws by name, tables, files, ArviZ, and its verdict."""

import json
import pickle

import numpy as np
import pytest

import scorevi
from scorevi.base.status import Status
from scorevi.results.sample_export import write_sample
from scorevi.sampling.judging import Judged, judge
from scorevi.trust.verdict import Reason

pytest.importorskip("nutpie")
arviz = pytest.importorskip("arviz")

STATS = {
    "lp",
    "energy",
    "diverging",
    "tree_depth",
    "reached_max_treedepth",
    "n_steps",
    "acceptance_rate",
    "step_size",
}


def constrain(theta):
    return {"rate": np.exp(theta[:, 0]), "effect": theta[:, 1:].copy()}


def target():
    return scorevi.from_function(
        lambda t: -t,
        3,
        lambda t: -0.5 * (t**2).sum(axis=1),
        names={"rate": (), "effect": 2},
        constrain=constrain,
        dims={"effect": ["side"]},
        coords={"side": ["north", "south"]},
    )


@pytest.fixture(scope="module", params=["importance", "nuts"])
def sample(request):
    return scorevi.sample(target(), 200, ess=50, method=request.param, seed=5)


def test_draws_by_name_with_chains_apart_or_not(sample):
    flat, apart = sample.draws(), sample.draws(chains=True)
    chains, count, _ = sample.theta.shape
    assert flat["effect"].shape == (chains * count, 2)
    assert apart["effect"].shape == (chains, count, 2)
    np.testing.assert_array_equal(apart["rate"], np.exp(sample.theta[:, :, 0]))
    np.testing.assert_array_equal(apart["rate"].reshape(-1), flat["rate"])
    assert sample.labels == ("rate", "effect[north]", "effect[south]")
    row = {row.name: row for row in sample.summary}["rate"]
    assert row.mean == pytest.approx(flat["rate"].mean())
    assert row.upper == pytest.approx(np.quantile(flat["rate"], 0.95))
    assert f"Sample of {chains * count} draws in 4 chains" in repr(sample)


def test_arviz_has_what_its_diagnostics_expect(sample):
    data = sample.to_arviz()
    assert dict(data.posterior.sizes) == {
        "chain": 4,
        "draw": sample.theta.shape[1],
        "side": 2,
    }
    np.testing.assert_array_equal(data.posterior["effect"].values, sample.theta[:, :, 1:])
    stats = data.sample_stats
    np.testing.assert_allclose(
        stats["lp"].values, -0.5 * (sample.theta**2).sum(axis=2), rtol=1e-8, atol=1e-8
    )
    assert data.posterior.attrs["verdict"] == str(sample.check())
    if sample.method == "nuts":
        assert set(stats.data_vars) == STATS
        assert stats["diverging"].dtype == bool
        assert (arviz.bfmi(data) > 0.3).all()
        assert int(stats["n_steps"].sum()) <= sample.gradients["draws"]
        bulk = np.min([arviz.ess(data, method=m)["effect"].values for m in ("bulk", "tail")], 0)
        np.testing.assert_allclose(bulk, sample.ess[1:])
    r_hat = arviz.rhat(data)["effect"].values
    np.testing.assert_allclose(r_hat, sample.rhat[1:])
    assert len(arviz.summary(data)) == 3


def test_pandas_and_files(sample, tmp_path):
    pandas = pytest.importorskip("pandas")
    frame = sample.to_pandas()
    assert frame.index.names == ["chain", "draw"]
    assert list(frame.columns) == ["rate", "effect[north]", "effect[south]"]
    assert frame.loc[(2, 7), "effect[south]"] == sample.theta[2, 7, 2]
    for ending, read in (("csv", pandas.read_csv), ("parquet", pandas.read_parquet)):
        path = tmp_path / f"draws.{ending}"
        write_sample(sample, path)
        back = read(path)
        assert list(back.columns[:2]) == [".chain", ".draw"]
        np.testing.assert_allclose(back["rate"], frame["rate"])
    path = tmp_path / "draws.nc"
    write_sample(sample, path)
    back = arviz.from_netcdf(str(path))
    np.testing.assert_array_equal(back.posterior["rate"].values, sample.draws(chains=True)["rate"])


def test_a_file_gives_it_back(sample, tmp_path):
    path = sample.save(tmp_path / "sample")
    with np.load(path, allow_pickle=False) as data:
        assert json.loads(str(data["meta"]))["format"] == "scorevi-sample-1"
    back = scorevi.load(path)
    assert isinstance(back, scorevi.Sample)
    for name in ("theta", "ess", "rhat"):
        np.testing.assert_array_equal(getattr(back, name), getattr(sample, name))
    for name, values in sample.stats.items():
        np.testing.assert_array_equal(back.stats[name], values)
    assert back.gradients == sample.gradients
    assert back.check() == sample.check()
    assert back.check().reasons == sample.check().reasons
    assert back.summary == sample.summary
    assert (back.labels, back.status, back.method) == (sample.labels, sample.status, sample.method)
    with pytest.raises(ValueError, match="The sample was pickled or loaded without its model"):
        back.draws()
    np.testing.assert_array_equal(
        scorevi.load(path, target=target()).draws()["rate"], sample.draws()["rate"]
    )
    other = scorevi.from_function(
        lambda t: -2 * t, 3, names={"rate": (), "effect": 2}, constrain=constrain
    )
    with pytest.raises(ValueError, match="its scores differ"):
        scorevi.load(path, target=other)


def test_a_damaged_file_is_refused(sample, tmp_path):
    path = sample.save(tmp_path / "sample.npz")
    with np.load(path, allow_pickle=False) as data:
        arrays = {name: data[name] for name in data.files}
    np.savez(path, **arrays | {"theta": arrays["theta"][..., :2]})
    with pytest.raises(ValueError, match="its draws do not fit its approximation"):
        scorevi.load(path)


def test_a_pickle_is_without_the_target(sample):
    back = pickle.loads(pickle.dumps(sample))
    assert back.target is None
    assert back.summary == sample.summary
    assert back.check() == sample.check()


def judged(**changes):
    """A sample that passes, but for the changes."""
    rng = np.random.default_rng(0)
    shape = (4, 250)
    stats = {
        "diverging": np.zeros(shape, dtype=bool),
        "reached_max_treedepth": np.zeros(shape, dtype=bool),
        "energy": rng.standard_normal(shape),
        "n_steps": np.full(shape, 7),
    }
    stats |= changes.pop("stats", {})
    whole = Judged(
        method="nuts",
        theta=rng.standard_normal((*shape, 2)),
        stats=stats,
        ess=np.array([500.0, 600.0]),
        r_hat=np.array([1.0, 1.005]),
        khat=np.nan,
        asked=400.0,
        status=Status("converged", "it did"),
        found=(),
        bad=0,
        labels=("a", "b"),
        right=None,
    )
    return whole._replace(**changes)


def some(share):
    return np.arange(1000).reshape(4, 250) < 1000 * share


@pytest.mark.parametrize(
    ("changes", "level", "text"),
    [
        ({"r_hat": np.array([1.0, 1.02])}, "warn", "R-hat of b is 1.020, above 1.01"),
        ({"r_hat": np.array([1.2, 1.0])}, "fail", "R-hat of a is 1.200"),
        ({"ess": np.array([390.0, 600])}, "warn", "sample of a is 390, of 400 that were asked"),
        ({"ess": np.array([500.0, 60])}, "fail", "effective sample of b is 60, fewer than 100"),
        ({"stats": {"diverging": some(0.01)}}, "warn", "10 of 1000 trajectories diverged"),
        ({"stats": {"diverging": some(0.1)}}, "fail", "100 of 1000 trajectories diverged"),
        ({"stats": {"reached_max_treedepth": some(0.1)}}, "warn", "10% of the trajectories were"),
        ({"stats": {"energy": np.cumsum(np.ones((4, 250)), 1)}}, "warn", "missing information"),
        ({"bad": 5000}, "warn", "71% of the scores were no use"),
        ({"method": "importance", "khat": 0.9}, "fail", "k-hat is 0.90, above 0.7"),
        ({"status": Status("stalled", "stuck")}, "fail", "it ended with stalled: stuck"),
        ({"status": Status("interrupted", "stop")}, "warn", "it ended with interrupted: stop"),
        ({"found": (Reason("fail", "another mode", ""),)}, "fail", "another mode"),
        ({"right": (np.array([1.0, 0]), np.ones(2))}, "warn", "the moments of a differ by"),
        ({"right": (np.zeros(2), np.array([1, 3.0]))}, "warn", "the moments of b differ by"),
        ({"theta": np.empty((4, 0, 2))}, "fail", "nothing was drawn"),
        (
            {"theta": np.random.default_rng(1).standard_cauchy((4, 250, 2))},
            "warn",
            "has tails so long that these draws do not tell its standard deviation",
        ),
    ],
)
def test_what_the_verdict_is_by(changes, level, text):
    verdict = judge(judged(**changes))
    assert verdict == level
    assert text in verdict.explain()
    assert len(verdict.reasons) == 1


def test_nothing_speaks_against_a_good_sample():
    assert judge(judged()) == "pass"
    assert judge(judged(method="importance", khat=0.5)) == "pass"
    assert judge(judged(right=(np.zeros(2), np.ones(2)))) == "pass"
    assert judge(judged(stats={"diverging": some(0.002)})) == "pass"
