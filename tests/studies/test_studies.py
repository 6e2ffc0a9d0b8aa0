"""What studies are made of: courses, lines, tables, resuming."""

import contextlib
import dataclasses
import itertools
import math
import os
import signal
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from pool import Here
from waiting import wait_until, wait_until_gone

import scorevi
from scorevi.solvers import BBVI, GSM, Replay
from scorevi.studies import STUDY_NAMES, execute
from scorevi.studies.best_rate import best_rate
from scorevi.studies.course import checkpoints, follow, follow_together
from scorevi.studies.execute import STUDIES, run_studies
from scorevi.studies.figures import mean_curve
from scorevi.studies.plan import FitLine, Options, Problem
from scorevi.studies.synthetic import NonGaussian, bent_in_jax, gaussian_problem
from scorevi.studies.table import Row, Table, read_rows, run_file

jax = pytest.importorskip("jax")


@pytest.fixture
def in_this_process(monkeypatch):
    monkeypatch.setattr(execute, "ProcessPoolExecutor", Here)


def finish(course):
    """Return the moments of a course and how it ended."""
    moments = []
    while True:
        try:
            moments.append(next(course))
        except StopIteration as end:
            return moments, end.value


@pytest.mark.parametrize("most", [2, 7, 1000, 123_456])
def test_checkpoints_rise_to_the_budget(most):
    grid = checkpoints(most, 8, marks=[1, 500, 10**9])
    assert grid == sorted(set(grid))
    assert grid[-1] == most
    assert (500 in grid) == (most >= 500)


@pytest.mark.parametrize("solver", [GSM(), BBVI(learning_rate=0.05), Replay()])
def test_a_course_ends_as_the_fit_does(solver):
    p = scorevi.examples.random_gaussian(4, seed=3)
    target = scorevi.examples.sinh_arcsinh(p, 0.3)
    moments, status = finish(follow(target, solver, [10, 40, 300], seed=5))
    fit = scorevi.fit(target, solver, seed=5, max_gradients=300, stop=False)
    assert status == "budget"
    assert moments[-1].gradients == fit.num_gradients
    np.testing.assert_array_equal(moments[-1].q.mean, fit.q.mean)
    np.testing.assert_array_equal(moments[-1].q.factor, fit.q.factor)
    assert all(m.gradients >= g for m, g in zip(moments[:-1], [10, 40], strict=False))
    assert all(a.seconds <= b.seconds for a, b in itertools.pairwise(moments))


@pytest.mark.slow
@pytest.mark.parametrize("solver", [GSM(), GSM(batch_size=1), BBVI(learning_rate=0.05)])
@pytest.mark.parametrize("dim", [1, 5, 70])
def test_runs_side_by_side_are_the_runs_alone(solver, dim):
    p = scorevi.examples.random_gaussian(dim, seed=3)
    target = bent_in_jax(p, 0.2, 1.0)
    start = scorevi.Gaussian.standard(dim)
    grid = [16, 48, 160]
    together = list(follow_together(target, solver, grid, [0, 3, 11], start))
    for seed in (0, 3, 11):
        alone, _ = finish(follow(target, solver, grid, seed=seed, chunked=True))
        assert len(alone) == len(together)
        for one, moments in zip(alone, together, strict=True):
            assert moments[seed].gradients == one.gradients
            # The same noise and updates; sums in another order.
            np.testing.assert_allclose(moments[seed].q.mean, one.q.mean, rtol=1e-7, atol=1e-9)
            np.testing.assert_allclose(
                moments[seed].q.covariance, one.q.covariance, rtol=1e-6, atol=1e-9
            )


def walled(limit):
    """A normal whose score does not exist beyond a wall."""

    def log_density(x):
        jnp = jax.numpy
        return jnp.where(x[0] < limit, -0.5 * x @ x, jnp.nan)

    return scorevi.from_jax(log_density, 2)


@pytest.mark.slow
def test_a_run_that_meets_a_bad_score_is_done_over_by_the_driver():
    target = walled(3.0)
    problem = Problem(target, {"mean": lambda q: float(q.mean[0])}, {}, target)
    line = FitLine("gsm", GSM(), 4000)
    last = list(follow_together(target, GSM(), [4000], range(6), scorevi.Gaussian.standard(2)))
    lost = set(range(6)) - set(last[-1])
    assert lost  # each has a chance of 99.5 % to meet the wall
    outcomes = {outcome.seed: outcome for outcome in line.run(problem, range(6))}
    assert sorted(outcomes) == list(range(6))
    assert all(outcomes[seed].values[-1].gradients >= 3990 for seed in lost)


@pytest.mark.parametrize(
    ("sign", "solver", "status"), [(np.nan, GSM(), "bad-scores"), (1.0, Replay(), "diverged")]
)
def test_a_run_that_is_lost_ends_with_infinity(sign, solver, status):
    target = scorevi.from_function(
        lambda x: sign * x, 2, lambda x: 0.5 * sign * (x**2).sum(axis=1), batched=True
    )
    problem = Problem(target, {"size": lambda q: float(q.sd.max())}, {"end": lambda q: 1.0})
    (outcome,) = FitLine("any", solver, 5000).run(problem, [0])
    assert outcome.status == status
    assert [value.value for value in outcome.values[-2:]] == [math.inf, math.inf]


@pytest.mark.parametrize("shape", ["s = 0.5", "s = 1.8", "t = 0.1", "t = 2.0"])
def test_targets_in_jax_are_those_in_numpy(shape):
    problem = NonGaussian().problem(shape, Options())
    x = np.random.default_rng(0).standard_normal((20, 10))
    numpy, compiled = problem.target.evaluate(x), problem.compiled.evaluate(x)
    np.testing.assert_allclose(compiled.log_density, numpy.log_density, rtol=1e-10)
    np.testing.assert_allclose(compiled.score, numpy.score, rtol=1e-8, atol=1e-8)


def test_forward_kl_of_the_target_itself_is_zero():
    p = scorevi.examples.random_gaussian(6)
    assert abs(gaussian_problem(p).measures["forward KL"](p)) < 1e-12


def course_rows(solver, values, target="D = 4", metric="forward KL"):
    """Rows of runs: for each seed, values at 10, 100, 1000 … gradients."""
    return [
        Row("dimensions", target, solver, seed, 10 ** (k + 1), 0.1 * k, metric, value)
        for seed, run in enumerate(values)
        for k, value in enumerate(run)
    ]


def test_the_best_rate_is_the_first_to_arrive_or_else_the_lowest():
    table = Table(
        tuple(
            course_rows("bbvi 0.1", [[1.0, 0.1, 0.1]])
            + course_rows("bbvi 0.01", [[2.0, 1.0, 0.05]])
            + course_rows("gsm", [[0.0, 0.0, 0.0]])
        )
    )
    assert best_rate(table, "D = 4", "forward KL", level=0.2) == "bbvi 0.1"
    assert best_rate(table, "D = 4", "forward KL", level=0.06) == "bbvi 0.01"
    assert best_rate(table, "D = 4", "forward KL") == "bbvi 0.01"
    assert best_rate(table, "D = 8", "forward KL") is None


def test_curves_tell_when_a_level_was_reached():
    rows = course_rows("gsm", [[1.0, 0.5, 0.2], [1.0, 0.2, 0.7]])
    first, second = Table(tuple(rows)).curves("D = 4", "gsm", "forward KL")
    assert (first.first_below(0.5), second.first_below(0.5)) == (100, 100)
    assert first.first_below(0.1) == math.inf
    assert (first.at(99), first.at(100), first.at(5)) == pytest.approx(
        (1.0, 0.5, math.nan), nan_ok=True
    )
    assert (first.last, second.last) == (0.2, 0.7)
    assert first.seconds_below(0.5) == 0.1


def test_every_study_has_its_name():
    assert {name: study.name for name, study in STUDIES.items()} == {n: n for n in STUDY_NAMES}


@pytest.mark.parametrize("name", [n for n in STUDY_NAMES if n != "posteriordb"])
@pytest.mark.parametrize("quick", [True, False])
def test_labels_and_files_are_distinct(name, quick, tmp_path):
    study, options = STUDIES[name], Options(quick=quick)
    files = [
        run_file(tmp_path, target, line.label, seed)
        for target in study.targets(options)
        for line in study.lines(target, options)
        for seed in line.seeds(options.runs)
    ]
    assert len(set(files)) == len(files) > 0


@pytest.mark.slow
def test_what_is_finished_is_not_computed_again(in_this_process, tmp_path):
    options = Options(runs=1, quick=True, solvers=("gsm", "auto"))
    seen = []

    def run(options):
        seen.clear()
        run_studies(["condition"], options, tmp_path, workers=1, show=lambda *n: seen.append(n))

    run(options)
    files = sorted((tmp_path / "condition" / "runs").glob("*.csv"))
    assert len(files) == 4
    before = {file: file.stat().st_mtime_ns for file in files}
    run(options)
    assert seen == [(4, 4)]
    # More runs: the old ones stay. One that is gone, or damaged, is made again.
    files[0].unlink()
    files[1].write_text("# not finished\n")
    run(dataclasses.replace(options, runs=2))
    assert seen[0] == (2, 8)
    after = {file: file.stat().st_mtime_ns for file in files}
    assert [after[file] == before[file] for file in files] == [False, False, True, True]
    rows = list(read_rows(tmp_path / "condition" / "results.csv"))
    assert {row.seed for row in rows} == {0, 1}
    # Other settings under the same name are other runs.
    run(dataclasses.replace(options, quick=False, solvers=("auto",)))
    assert seen[0][0] == 0


@pytest.mark.slow
def test_results_do_not_depend_on_the_company(tmp_path, monkeypatch):
    """Two runs side by side in this process, and one of them alone, in processes."""
    options = Options(runs=2, quick=True, solvers=("gsm",))
    with monkeypatch.context() as patch:
        patch.setattr(execute, "ProcessPoolExecutor", Here)
        run_studies(["condition"], options, tmp_path / "a", workers=1, show=lambda *_: None)
    run_studies(
        ["condition"],
        dataclasses.replace(options, runs=1),
        tmp_path / "b",
        workers=2,
        show=lambda *_: None,
    )
    whole = {
        (r.target, r.seed, r.gradients): r.value
        for r in read_rows(tmp_path / "a" / "condition" / "results.csv")
    }
    for row in read_rows(tmp_path / "b" / "condition" / "results.csv"):
        found = whole[row.target, row.seed, row.gradients]
        assert found == pytest.approx(row.value, rel=1e-6, abs=1e-9)


@pytest.mark.slow
def test_a_line_that_fails_is_reported_and_the_others_are_kept(in_this_process, tmp_path):
    options = Options(runs=1, quick=True, solvers=("gsm",))
    runs = tmp_path / "condition" / "runs"
    runs.parent.mkdir()
    blocked = run_file(tmp_path / "condition", "c = 1", "gsm", 0)
    blocked.mkdir(parents=True)  # where a file is to go
    with pytest.raises(RuntimeError, match=r"1 of 2 jobs.*what is finished is kept.*c = 1, gsm"):
        run_studies(["condition"], options, tmp_path, workers=1, show=lambda *_: None)
    assert run_file(tmp_path / "condition", "c = 1000", "gsm", 0).is_file()


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc").is_dir(), reason="asks /proc for processes")
def test_a_killed_study_leaves_no_process_behind_and_goes_on(tmp_path):
    script = tmp_path / "killed.py"
    script.write_text(
        "from pathlib import Path\n"
        "from scorevi.studies.execute import run_studies\n"
        "from scorevi.studies.plan import Options\n"
        "if __name__ == '__main__':\n"
        "    options = Options(runs=3, quick=True, solvers=('gsm',))\n"
        "    run_studies(['initialization'], options, Path('r'), workers=2)\n"
    )
    runs = tmp_path / "r" / "initialization" / "runs"
    # What is killed must not leave half a file in JAX's cache.
    read_only = os.environ | {"JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS": "1e9"}
    command = [sys.executable, script.name]
    with subprocess.Popen(command, cwd=tmp_path, stdout=-3, env=read_only) as process:
        wait_until(lambda: list(runs.glob("*.csv")), "the first run", process)
        workers = children_of(process.pid)
        process.send_signal(signal.SIGKILL)
    assert process.returncode == -signal.SIGKILL
    assert len(workers) >= 2
    wait_until_gone(workers)
    finished = {path: path.read_bytes() for path in runs.glob("*.csv")}
    assert finished
    subprocess.run(command, cwd=tmp_path, stdout=-3, check=True)
    assert all(path.read_bytes() == content for path, content in finished.items())
    assert len(list(runs.glob("*.csv"))) > len(finished)


def children_of(pid):
    """Return the processes that a process has begun."""
    found = []
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):
            if int(path.read_text().rpartition(")")[2].split()[1]) == pid:
                found.append(int(path.parent.name))
    return found


def test_the_mean_of_runs_with_different_checkpoints():
    rows = [
        Row("condition", "c = 1", "auto", 0, gradients, 0.0, "forward KL", value)
        for gradients, value in ((2, 8.0), (10, 4.0), (30, 2.0))
    ]
    rows += [
        Row("condition", "c = 1", "auto", 1, gradients, 0.0, "forward KL", value)
        for gradients, value in ((6, 6.0), (20, 0.0))
    ]
    grid, mean = mean_curve(Table(tuple(rows)).curves("c = 1", "auto", "forward KL"))
    np.testing.assert_array_equal(grid, [6, 10, 20])
    np.testing.assert_array_equal(mean, [7.0, 5.0, 2.0])
