"""Sums over shards, on clusters of two processes: the same as one target, whoever dies."""

import dataclasses
import functools
import os
import pickle
import subprocess
import sys
import threading

import numpy as np
import pytest

import scorevi

distributed = pytest.importorskip("distributed")

from clusters import (  # noqa: E402
    DIM,
    SHARDS,
    Events,
    assert_same,
    builders,
    built,
    children,
    deployed,
    family,
    is_alive,
    kill,
    likelihood,
    load,
    observations,
    whole,
    worker_pids,
)
from waiting import InterruptWhen, wait_until  # noqa: E402

from scorevi.base.cluster import connected, connecting, waiting  # noqa: E402
from scorevi.base.target import TargetLost  # noqa: E402
from scorevi.targets.shards.worker import build  # noqa: E402

pytestmark = [pytest.mark.dask, pytest.mark.slow]

POINTS = np.random.default_rng(0).standard_normal((4, DIM))


@pytest.fixture(scope="module")
def client():
    with connected(None, 2) as found:
        yield found


def sharded(client, prior=None, log=None, **options):
    prior = scorevi.Gaussian.standard(DIM) if prior is None else prior
    return scorevi.from_shards(builders(log), DIM, prior=prior, client=client, **options)


@pytest.fixture(scope="module")
def undisturbed(client):
    return scorevi.fit(sharded(client), seed=3)


def test_shards_are_the_sum_that_they_stand_for(client, undisturbed):
    found, expected = sharded(client).evaluate(POINTS), whole().evaluate(POINTS)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-12)
    np.testing.assert_allclose(found.log_density, expected.log_density, rtol=1e-12)
    alone = scorevi.fit(whole(), seed=3)
    assert undisturbed.status == "converged"
    assert undisturbed.num_gradients == alone.num_gradients
    np.testing.assert_allclose(undisturbed.mean, alone.mean, rtol=0, atol=1e-8)
    np.testing.assert_allclose(undisturbed.covariance, alone.covariance, rtol=1e-8)


def test_names_draws_verdict_weights_and_files(client, tmp_path):
    target = sharded(client, names=["a", "b", "c"], constrain=lambda theta: {"odds": np.exp(theta)})
    fit = scorevi.fit(target, seed=3)
    assert fit.draws(7)["odds"].shape == (7, DIM)
    assert fit.check() == "pass"
    assert fit.resample(50, seed=1).theta.shape == (50, DIM)
    path = fit.save(tmp_path / "fit.npz")
    assert np.array_equal(scorevi.load(path, target).draws(3, seed=1)["odds"][0].shape, (DIM,))
    other = scorevi.from_shards(builders()[:2], DIM, client=client, names=["a", "b", "c"])
    with pytest.raises(ValueError, match=r"its scores differ"):
        scorevi.load(path, other)
    assert b"cloudpickle" not in path.read_bytes()


@pytest.mark.parametrize("step", [1, 6, 20])
def test_a_worker_killed_in_the_middle_changes_no_bit(client, undisturbed, tmp_path, step):
    log, pids = tmp_path / "built", worker_pids(client)
    prior = Events({step: lambda: kill(pids[step % 2])})
    fit = scorevi.fit(sharded(client, prior, log), seed=3)
    assert prior.count > step
    assert built(log) > SHARDS
    assert_same(fit, undisturbed)


def test_all_workers_killed_again_and_again_change_no_bit(client, undisturbed, tmp_path):
    def all_of_them():
        for pid in worker_pids(client):
            kill(pid)

    log = tmp_path / "built"
    prior = Events({5: all_of_them, 20: all_of_them})
    assert_same(scorevi.fit(sharded(client, prior, log), seed=3), undisturbed)
    assert built(log) >= 3 * SHARDS


def test_a_worker_killed_during_an_evaluation_changes_no_bit(client, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"

    def slow(number):
        target = load(number)

        def score(beta):
            if number == 0 and not go.exists():
                begun.write_text(str(os.getpid()))
                wait_until(go.exists, "the test to let go")
            return target.score(beta)

        return scorevi.from_function(score, DIM, target.log_density, batched=True)

    parts = [functools.partial(slow, number) for number in range(SHARDS)]
    target = scorevi.from_shards(parts, DIM, client=client)

    def killer():
        wait_until(lambda: begun.exists() and begun.read_text(), "the evaluation to begin")
        pid = int(begun.read_text())
        kill(pid)
        go.touch()

    thread = threading.Thread(target=killer)
    thread.start()
    found = target.evaluate(POINTS)
    thread.join()
    expected = scorevi.from_shards(builders(), DIM, client=client).evaluate(POINTS)
    assert np.array_equal(found.score, expected.score)
    assert np.array_equal(found.log_density, expected.log_density)


def test_ctrl_c_ends_the_fit_and_not_the_program(client, tmp_path):
    begun, go = tmp_path / "begun", tmp_path / "go"

    def slow():
        def score(beta):
            begun.touch()
            wait_until(go.exists, "the test to let go")
            return -beta

        log_density = scorevi.Gaussian.standard(DIM).log_density
        return scorevi.from_function(score, DIM, log_density, batched=True)

    target = scorevi.from_shards([slow], DIM, client=client)
    with InterruptWhen(begun.exists, "an evaluation"), pytest.warns(scorevi.FitWarning):
        fit = scorevi.fit(target)
    go.touch()
    assert fit.status == "interrupted"


def test_a_client_that_restarts_its_workers_changes_no_bit(client, undisturbed):
    prior = Events({6: client.restart})
    assert_same(scorevi.fit(sharded(client, prior), seed=3), undisturbed)


def test_the_cluster_of_ones_own_begins_and_ends_with_what_needs_it(undisturbed, tmp_path):
    before, seen, log = children(), set(), tmp_path / "built"
    prior = Events({2: lambda: seen.update(family(children() - before))})
    target = sharded(None, prior, log, workers=2)
    fit = scorevi.fit(target, seed=3)
    assert len(seen) >= 4  # two workers, and a nanny each
    assert built(log) == SHARDS
    assert children() == before
    wait_until(lambda: not any(map(is_alive, seen)), "the processes to end")
    assert_same(fit, undisturbed)
    with target:
        fit.check(modes=False)
        fit.resample(20)
        fit.save(tmp_path / "fit")
    assert built(log) == 2 * SHARDS
    assert children() == before


def test_steps_one_by_one(client):
    steps = scorevi.iterate(sharded(client), seed=3)
    for step in steps:
        if step.num_gradients > 30:
            break
    assert step.q.mean.shape == (DIM,)


def spoilt(number, how):
    """A shard that fails at half of all points, in one of several ways."""
    target = load(number)
    if number != 2:
        return target

    def score(beta):
        if how == "raised" and (beta[:, 0] > 1).any():
            raise ZeroDivisionError("no score here")
        return np.where(beta[:, :1] > 1, np.nan if how == "nan" else np.inf, target.score(beta))

    return scorevi.from_function(score, DIM, target.log_density, batched=True)


@pytest.mark.parametrize("how", ["nan", "infinite", "raised"])
def test_what_is_bad_in_one_shard_is_a_bad_score_of_that_point_alone(client, how):
    parts = [functools.partial(spoilt, number, how) for number in range(SHARDS)]
    target = scorevi.from_shards(parts, DIM, client=client)
    points = np.array([[0.5, 0, 0], [2.0, 0, 0], [0.1, 0, 0]])
    found = target.evaluate(points)
    assert np.isfinite(found.score).all(axis=1).tolist() == [True, False, True]
    assert list(found.failures) == [1]
    assert found.failures[1].cause == how
    assert found.failures[1].detail.startswith("shard 2: ")
    if how == "nan":
        fit = scorevi.fit(target, "gsm", max_gradients=200, seed=0, stop=False)
        assert set(fit.bad_scores.counts) == {"nan"}
        assert fit.num_gradients <= 200


def test_scores_without_a_log_density(client):
    def scores(number):
        return scorevi.from_function(load(number).score, DIM, batched=True)

    parts = [functools.partial(scores, number) for number in range(2)]
    target = scorevi.from_shards(parts, DIM, client=client, log_density=False)
    assert target.evaluate(POINTS).log_density is None
    with pytest.raises(TargetLost, match=r"shard 0 on the worker tcp.* has no log density; say"):
        scorevi.from_shards(parts, DIM, client=client).evaluate(POINTS)


def test_builders_take_what_dask_holds(client):
    delayed = pytest.importorskip("dask").delayed(observations)
    parts = [functools.partial(_from_pair, delayed(number)) for number in range(SHARDS)]
    held = [
        functools.partial(_from_pair, client.submit(observations, number))
        for number in range(SHARDS)
    ]
    expected = scorevi.from_shards(builders(), DIM, client=client).evaluate(POINTS)
    for given in (parts, held):
        found = scorevi.from_shards(given, DIM, client=client).evaluate(POINTS)
        assert np.array_equal(found.score, expected.score)


def _from_pair(pair):
    return likelihood(*pair)


@pytest.mark.jax
def test_shards_in_jax(client):
    jnp = pytest.importorskip("jax.numpy")

    def in_jax(number):
        design, outcome = observations(number)

        def log_density(beta):
            link = design @ beta
            return outcome @ link - jnp.logaddexp(0.0, link).sum()

        return scorevi.from_jax(log_density, DIM)

    parts = [functools.partial(in_jax, number) for number in range(2)]
    found = scorevi.from_shards(parts, DIM, client=client).evaluate(POINTS)
    expected = scorevi.from_shards(builders()[:2], DIM, client=client).evaluate(POINTS)
    np.testing.assert_allclose(found.score, expected.score, rtol=1e-12, atol=1e-12)
    np.testing.assert_allclose(found.log_density, expected.log_density, rtol=1e-12)


def test_a_shard_that_is_moved_is_built_anew_there(client, tmp_path):
    log = tmp_path / "built"
    builder = sharded(client, log=log).builders[1]
    shard = build(builder.recipe)
    moved = pickle.loads(pickle.dumps(shard))
    assert built(log) == 1
    assert np.array_equal(moved.target.evaluate(POINTS).score, shard.target.evaluate(POINTS).score)
    assert built(log) == 2


def test_restarts_share_the_shards(client, tmp_path):
    log = tmp_path / "built"
    target = sharded(client, log=log)
    fit = scorevi.fit(target, seed=3, restarts=2, max_gradients=300)
    assert len(fit.restarts) == 2
    assert built(log) == SHARDS


def test_large_batches_of_points_go_out_once(client):
    wide = 9_000
    parts = [functools.partial(_normal, wide)] * 3
    target = scorevi.from_shards(parts, wide, client=client)
    points = np.random.default_rng(0).standard_normal((2, wide))
    assert points.nbytes > 100_000
    assert np.array_equal(target.evaluate(points).score, -points - points - points)


def _normal(dim):
    return scorevi.from_function(
        lambda x: -x, dim, lambda x: -0.5 * (x * x).sum(axis=1), batched=True
    )


# What goes wrong outside of the shards.


def test_a_scheduler_that_dies_is_no_bad_score_and_a_checkpoint_goes_on(
    client, undisturbed, tmp_path
):
    path = tmp_path / "run.ckpt"
    with deployed(tmp_path) as (address, (scheduler, _)):
        target = sharded(address, Events({25: scheduler.kill}))
        with pytest.raises(TargetLost, match=r"connection to the Dask scheduler at tcp.* was lost"):
            scorevi.fit(target, seed=3, checkpoint=path, checkpoint_seconds=0.0)
    fit = scorevi.fit(sharded(client), seed=3, checkpoint=path, resume=True)
    assert_same(fit, undisturbed)


def test_a_scheduler_that_cannot_be_reached(monkeypatch):
    monkeypatch.setattr(connecting, "_CONNECT_SECONDS", 0.5)
    with pytest.raises(
        TargetLost, match=r"`client` must be the address .* tcp://127.0.0.1:9 did not answer"
    ):
        scorevi.fit(sharded("tcp://127.0.0.1:9"))


def test_no_workers(monkeypatch):
    monkeypatch.setattr(connecting, "_WORKER_SECONDS", 0.2)
    options = {"n_workers": 0, "dashboard_address": "127.0.0.1:0", "host": "127.0.0.1"}
    with (
        distributed.LocalCluster(**options) as cluster,
        pytest.raises(TargetLost, match=r"has none, and got none within 0.2 s. Start some with"),
    ):
        scorevi.fit(sharded(cluster))


def test_workers_that_never_come_back():
    class Empty:
        status = "running"

        class scheduler:
            address = "tcp://here:1"

        def scheduler_info(self):
            return {"workers": {}}

    moments = iter([0.0, 59.0, 61.0])
    alone = waiting.Alone(Empty(), lambda: next(moments))
    alone.look()
    alone.look()
    with pytest.raises(TargetLost, match=r"All workers of the scheduler at tcp://here:1 were lost"):
        alone.look()


def test_a_builder_that_raises_names_shard_worker_and_last_line(client):
    def broken(number):
        if number == 3:
            raise KeyError("no such column")
        return load(number)

    parts = [functools.partial(broken, number) for number in range(SHARDS)]
    with pytest.raises(
        TargetLost,
        match=r"shard 3 on the worker tcp://.* raised KeyError: 'no such column' \(.*test_shards",
    ):
        scorevi.fit(scorevi.from_shards(parts, DIM, client=client))


def test_a_builder_of_another_dimension(client):
    with pytest.raises(TargetLost, match=r"shard 0 on .* has 3 dimensions, where `dim` is 4"):
        scorevi.from_shards(builders(), 4, client=client).evaluate(np.zeros((1, 4)))


def test_workers_with_another_version(client, tmp_path, monkeypatch):
    monkeypatch.setattr(connecting, "__version__", "9.9")
    with pytest.raises(
        TargetLost, match=rf"scorevi of this process, 9.9; tcp://.* has {scorevi.__version__}"
    ):
        scorevi.fit(sharded(client))
    monkeypatch.undo()
    # A worker that came later is found out by its first shard.
    target = sharded(client)
    changed = dataclasses.replace(target, builders=(_of_version(target.builders[0], "9.9"),))
    with pytest.raises(TargetLost, match=r"which has scorevi .* where this process has 9.9"):
        changed.evaluate(POINTS)


def _of_version(builder, version):
    return builder._replace(recipe=builder.recipe._replace(version=version))


def test_a_client_that_was_closed():
    with distributed.LocalCluster(
        n_workers=0, dashboard_address="127.0.0.1:0", host="127.0.0.1"
    ) as cluster:
        client = distributed.Client(cluster, set_as_default=False)
        target = sharded(client)
        client.close()
        with pytest.raises(TargetLost, match=r"must be connected to its scheduler; this one is"):
            target.evaluate(POINTS)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"builders": []}, "`builders` must be a list of functions, .*; got none"),
        ({"builders": load}, "`builders` must be a list of functions, .*; got function"),
        ({"builders": ["a.csv"]}, "builder 0 is str. functools.partial"),
        ({"builders": [threading.Lock().acquire]}, "pickling builder 0 raised TypeError"),
        ({"dim": 0}, "`dim` must be"),
        ({"prior": scorevi.Gaussian.standard(2)}, "`prior` must have 3 dimensions"),
        (
            {"prior": scorevi.from_function(lambda x: -x, 3)},
            "`prior` must have a log density; say log_density=False",
        ),
        ({"client": 5}, "`client` must be a distributed.Client, the address .*; got int"),
        ({"client": "tcp://a:1", "workers": 2}, "`workers` must be left out with `client`"),
        ({"names": ["a"]}, "`names` must name 3 values"),
    ],
)
def test_what_is_refused_before_anything_starts(change, message):
    arguments = {"builders": builders(), "dim": DIM} | change
    with pytest.raises(ValueError, match=message):
        scorevi.from_shards(arguments.pop("builders"), arguments.pop("dim"), **arguments)


def test_other_processes_for_shards_are_refused(client):
    with pytest.raises(ValueError, match=r"must be left out for a target of shards: its scores"):
        scorevi.fit(sharded(client), isolate=True)
    with pytest.raises(ValueError, match=r"one fit of one target has nothing to hand out"):
        scorevi.fit(whole(), client=client)


SCRIPT = """
import functools, sys
from clusters import DIM, Events, builders
import scorevi

def tell():
    from clusters import children, family
    print(*family(children()), flush=True)
    sys.stdin.read()

target = scorevi.from_shards(builders(), DIM, prior=Events({3: tell}), workers=2)
scorevi.fit(target, progress=False)
"""


def test_a_script_that_is_killed_leaves_no_process_behind(tmp_path):
    (tmp_path / "script.py").write_text(SCRIPT)
    paths = os.pathsep.join(sys.path)
    process = subprocess.Popen(
        [sys.executable, "script.py"],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": paths},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with process:
        begun = {int(pid) for pid in process.stdout.readline().split()}
        assert len(begun) >= 2
        process.kill()
    wait_until(lambda: not any(map(is_alive, begun)), "the cluster to end")
