"""Studies, run: in processes side by side, what is finished already left as it is."""

from __future__ import annotations

import json
import os
import threading
import time
import warnings
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from multiprocessing import get_context, parent_process
from pathlib import Path
from typing import Any, NamedTuple

from scorevi._version import __version__
from scorevi.base.cluster import check_client, connected, first_of
from scorevi.base.status import FitWarning
from scorevi.studies import STUDY_NAMES
from scorevi.studies.clock import Clock
from scorevi.studies.hierarchies.study import Hierarchies
from scorevi.studies.initialization import Initialization
from scorevi.studies.intuition import Intuition
from scorevi.studies.plan import Line, Options, Problem, Study
from scorevi.studies.posteriors import Posteriors
from scorevi.studies.synthetic import BatchSize, Condition, Dimensions, NonGaussian
from scorevi.studies.table import (
    Row,
    Table,
    is_finished,
    read_rows,
    run_file,
    write_rows,
    write_run,
)
from scorevi.studies.versions import versions

_ALL: tuple[Study, ...] = (
    Intuition(),
    Dimensions(),
    Condition(),
    NonGaussian(),
    Posteriors(),
    BatchSize(),
    Initialization(),
    Clock(),
    Hierarchies(),
)
STUDIES = dict(zip(STUDY_NAMES, _ALL, strict=True))
"""All studies, by name."""
_ONE_THREAD = {
    "OMP_NUM_THREADS": "1",
    "OPENBLAS_NUM_THREADS": "1",
    "MKL_NUM_THREADS": "1",
    "XLA_FLAGS": "--xla_cpu_multi_thread_eigen=false",
}
"""Processes that use all cores are in each other's way."""


class Job(NamedTuple):
    """One line on one target, from seeds that are not finished yet."""

    study: str
    target: str
    label: str
    seeds: tuple[int, ...]
    folder: Path
    options: Options


def run_studies(
    names: Sequence[str],
    options: Options,
    folder: Path,
    *,
    workers: int,
    client: Any = None,
    show: Callable[[int, int], object] = print,
) -> None:
    """Run what is not finished of some studies, then write their tables and figures.

    Parameters
    ----------
    names
        Out of :data:`STUDIES`.
    options
        What to run of each.
    folder
        Where the results go: a folder for each study.
    workers
        How many processes to use.
    client
        A Dask client or the address of a scheduler, whose workers then do the work; all but runs
        that are timed, which are made here.
    show
        Called with the number of runs that are finished, and of all.
    """
    jobs, total = [], 0
    for name in names:
        wanted, left = _jobs(STUDIES[name], options, folder / name)
        total += wanted
        jobs += left
    done = total - sum(len(job.seeds) for job in jobs)
    show(done, total)
    failures: list[str] = []
    for alone in (False, True):
        some = [job for job in jobs if STUDIES[job.study].alone is alone]
        there = client is not None and not alone
        for job, error in (
            _carried_out_there(some, client)
            if there
            else _carried_out(some, 1 if alone else workers)
        ):
            done += len(job.seeds)
            show(done, total)
            if error is not None:
                told = " ".join(str(error).split())
                failures.append(f"{job.study}, {job.target}, {job.label}: {told}")
    for name in names:
        gather(STUDIES[name], options, folder / name)
    if failures:
        raise RuntimeError(
            f"{len(failures)} of {len(jobs)} jobs failed; what is finished is kept, and the same "
            f"command goes on from there. The first: {failures[0]}"
        )


def gather(study: Study, options: Options, folder: Path) -> Table:
    """Put the runs of a study into one table, and draw its figure."""
    rows = [
        row
        for target in study.targets(options)
        for line in study.lines(target, options)
        for seed in line.seeds(options.runs)
        if is_finished(path := run_file(folder, target, line.label, seed), _about(line))
        for row in read_rows(path)
    ]
    table = Table(tuple(rows))
    if rows:
        folder.mkdir(parents=True, exist_ok=True)
        write_rows(folder / "results.csv", rows)
        about = {"runs": options.runs, "quick": options.quick, **versions()}
        (folder / "about.json").write_text(json.dumps(about, indent=2) + "\n", encoding="utf-8")
        study.draw(table, folder)
    return table


def _jobs(study: Study, options: Options, folder: Path) -> tuple[int, list[Job]]:
    """Return how many runs a study has in all, and what is left to do."""
    total, jobs = 0, []
    for target in study.targets(options):
        for line in study.lines(target, options):
            seeds = line.seeds(options.runs)
            total += len(seeds)
            left = tuple(
                seed
                for seed in seeds
                if not is_finished(run_file(folder, target, line.label, seed), _about(line))
            )
            groups = [left] if study.grouped and left else [(seed,) for seed in left]
            jobs += [
                Job(study.name, target, line.label, group, folder, options) for group in groups
            ]
    return total, jobs


def _about(line: Line) -> dict[str, Any]:
    """Return what tells a run from others of the same name."""
    return {"line": repr(line), "scorevi": __version__}


def _carried_out(jobs: Sequence[Job], workers: int) -> Iterator[tuple[Job, BaseException | None]]:
    """Carry jobs out in processes, those with most to do first."""
    if not jobs:
        return
    jobs = sorted(jobs, key=_size, reverse=True)
    with _environment(_ONE_THREAD):
        pool = ProcessPoolExecutor(workers, mp_context=get_context("spawn"), initializer=_begin)
        try:
            work: dict[Future[None], Job] = {pool.submit(_carry_out, job): job for job in jobs}
            for future in as_completed(work):
                error = future.exception()
                if isinstance(error, BrokenProcessPool):
                    raise RuntimeError(
                        "a process of the study died, perhaps for want of memory; what is finished "
                        "is kept, and the same command goes on from there"
                    ) from error
                yield work[future], error
        finally:
            # On Ctrl-C the processes get it too, and end.
            pool.shutdown(wait=True, cancel_futures=True)


def _carried_out_there(
    jobs: Sequence[Job], client: Any
) -> Iterator[tuple[Job, BaseException | None]]:
    """Carry jobs out on the workers of a cluster, and write here what they found."""
    if not jobs:
        return
    with connected(check_client(client)) as there:
        jobs = sorted(jobs, key=_size, reverse=True)
        work = {there.submit(_found, job, pure=False): job for job in jobs}
        while work:
            for future in first_of(there, list(work)):
                job, error = work.pop(future), future.exception()
                for file, about, rows in [] if error else future.result():
                    write_run(file, about, rows)
                yield job, error


def _begin() -> None:
    """Let this process end when the one that began it does, however that came to pass."""
    warnings.simplefilter("ignore", FitWarning)  # of fits under way; how they end is recorded
    parent = parent_process()

    def wait() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=wait, daemon=True).start()


def _size(job: Job) -> float:
    line = _line(job.study, job.target, job.label, job.options)
    study = STUDIES[job.study]
    of_one = study.gradient_cost * (1 + (study.dim(job.target) / 16) ** 2)
    return line.max_gradients * len(job.seeds) * of_one


def _line(study: str, target: str, label: str, options: Options) -> Line:
    lines = STUDIES[study].lines(target, options)
    return next(line for line in lines if line.label == label)


@cache
def _problem(study: str, target: str, options: Options) -> Problem:
    """Return a problem, made once in each process."""
    return STUDIES[study].problem(target, options)


def _carry_out(job: Job) -> None:
    for file, about, rows in _outcomes(job):
        write_run(file, about, rows)


def _found(job: Job) -> list[tuple[Path, dict[str, Any], list[Row]]]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)
        return list(_outcomes(job))


def _outcomes(job: Job) -> Iterator[tuple[Path, dict[str, Any], list[Row]]]:
    """Run, and say for each run where it belongs, what it was and what it found."""
    line = _line(job.study, job.target, job.label, job.options)
    problem = _problem(job.study, job.target, job.options)
    began = time.time()
    for outcome in line.run(problem, job.seeds):
        about = _about(line) | {
            "status": outcome.status,
            "began": round(began),
            **versions(),
        }
        rows = [
            Row(job.study, job.target, line.label, outcome.seed, *value) for value in outcome.values
        ]
        yield run_file(job.folder, job.target, line.label, outcome.seed), about, rows


@contextmanager
def _environment(variables: dict[str, str]) -> Iterator[None]:
    """Set variables of the environment for processes that begin in the meantime."""
    before = {name: os.environ.get(name) for name in variables}
    os.environ.update({name: value for name, value in variables.items() if not before[name]})
    try:
        yield
    finally:
        for name, value in before.items():
            if value is None:
                os.environ.pop(name, None)
