"""Many fits, handed out to workers and taken in as they are finished."""

from __future__ import annotations

import inspect
import time
from collections import deque
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorevi.base.arrays import as_count
from scorevi.base.cluster import check_client, connected, first_of
from scorevi.base.progress import runs_bar
from scorevi.base.sending import Sent, same, sent
from scorevi.fit import fit
from scorevi.many.fits import Fits
from scorevi.many.folder import Folder
from scorevi.many.tasks import Job, fit_one
from scorevi.results.fit import Fit
from scorevi.targets import as_target

if TYPE_CHECKING:
    from distributed import Client

_AHEAD = 8
"""Tasks for each thread of the cluster that are handed out before others have ended."""
_TOGETHER = 0.1
"""Seconds in which what is finished is taken in together: each time costs as much as ten tasks."""
_NOT_FOR_MANY = ("target", "seed", "progress", "raise_on_failure", "checkpoint", "resume", "client")
_OPTIONS = [name for name in inspect.signature(fit).parameters if name not in _NOT_FOR_MANY]


def fit_many(
    targets: Sequence[Any] | Callable[[int], Any],
    *,
    seeds: int | Sequence[int] | None = None,
    out: str | Path | None = None,
    client: Any = None,
    processes: int | None = None,
    check: bool = False,
    progress: bool | None = None,
    **options: Any,
) -> Fits:
    """Make many fits side by side, as tasks on a Dask cluster.

    A fit that fails does not touch the others. With ``out`` each is on disk as soon as it is
    finished: the same call goes on after whatever ended it, and computes nothing again.

    Parameters
    ----------
    targets
        A list of targets; or a function that makes one of a seed, on the worker that fits it, such
        as a model with data that were simulated by that seed.
    seeds
        The seed of each fit, and of its target where a function makes it: a list, or a number for
        the first so many. For a list of targets 0, 1, 2, ... if left out.
    out
        A folder for the fits, each of which is a file that :func:`scorevi.load` reads. None keeps
        them in memory.
    client
        A ``distributed.Client``, the address of a Dask scheduler, or None for processes on this
        machine, which end with the call.
    processes
        How many, where there is no client; one for each core if left out.
    check
        Whether to give each fit its verdict, ``fit.verdict``, on the worker.
    progress
        Whether to show a progress bar; None for only in a terminal or notebook.
    **options
        As for :func:`scorevi.fit`.

    Returns
    -------
    Fits
        ``fits[i]``, and ``fits.failures`` by place. They are without their targets where a function
        made those, as fits that were loaded are.

    Notes
    -----
    The function is sent to a process once. A JAX target is compiled once in each where its log
    density is defined outside of the function and takes its data as an argument:
    ``scorevi.from_jax(log_density, dim, data=...)``.

    Examples
    --------
    >>> import scorevi
    >>> def factory(seed):
    ...     return scorevi.Gaussian.from_moments([float(seed)], [[2.0]])
    >>> fits = scorevi.fit_many(factory, seeds=[1, 2, 3], processes=1)
    >>> fits, [fit.mean.round(6).tolist() for _, fit in fits.made()]
    (<3 fits: 3 made>, [[1.0], [2.0], [3.0]])
    """
    unknown = sorted(set(options) - set(_OPTIONS))
    if unknown:
        raise ValueError(f"`{unknown[0]}` is no option of many fits; there are {_OPTIONS}.")
    if processes is not None:
        processes = as_count("processes", processes, optional=True)
        if client is not None:
            raise ValueError("`processes` must be left out with `client`, which has its own.")
    client = check_client(client)
    factory = callable(targets)
    if not factory:
        targets = [as_target(target) for target in targets]  # type: ignore[union-attr]
    wanted = _seeds(seeds, None if factory else len(targets))  # type: ignore[arg-type]
    job = Job(factory, bool(check), options)
    folder = None if out is None else Folder(out, targets, job)
    places: dict[int, Fit | Path] = {}
    if folder is not None:
        files = {place: folder.file(place, seed) for place, seed in enumerate(wanted)}
        places = {place: file for place, file in files.items() if file.exists()}
    left = [place for place in range(len(wanted)) if place not in places]
    failures: dict[int, str] = {}
    if left:
        _sent(targets if factory else targets[left[0]], "it")  # type: ignore[index]
        with runs_bar(progress, "fitting", "fits") as show, connected(client, processes) as workers:
            show(len(places), len(wanted))
            for place, found in _made(workers, targets, job, {p: wanted[p] for p in left}):
                if isinstance(found, str):
                    failures[place] = found
                elif folder is None:
                    places[place] = found
                else:
                    places[place] = folder.write(place, wanted[place], found)
                show(len(places) + len(failures), len(wanted))
    given = None if factory else targets
    computed = len(left) - len(failures)
    return Fits(wanted, failures, computed, given, places)  # type: ignore[arg-type]


def _made(
    client: Client, targets: Any, job: Job, seeds: dict[int, int]
) -> Iterator[tuple[int, Fit | str]]:
    """Yield place and fit, or the reason why there is none, as they are finished."""
    waiting = deque(seeds)
    most = _AHEAD * max(1, sum(client.nthreads().values()))
    # A function goes to each worker once, as the result of a task that all others need.
    shared = client.submit(same, _sent(targets, "it"), pure=False) if job.factory else None
    work: dict[Any, int] = {}
    suspects: deque[int] = deque()
    alone: set[int] = set()
    try:
        while waiting or work or suspects:
            next_ = [waiting.popleft() for _ in range(min(most - len(work), len(waiting)))]
            if not (next_ or work):
                next_ = [suspects.popleft()]
                alone.update(next_)
            if next_:
                things = [shared or _sent(targets[one], f"target {one}") for one in next_]
                arguments = [job] * len(next_), [seeds[one] for one in next_]
                work |= dict(
                    zip(client.map(fit_one, things, *arguments, pure=False), next_, strict=True)
                )
            first_of(client, list(work))
            time.sleep(_TOGETHER)
            ended = [future for future in work if future.done()]
            made = [future for future in ended if future.status == "finished"]
            for future, found in zip(made, client.gather(made), strict=True):
                yield work.pop(future), found
            for future in set(ended) - set(made):
                # Its worker died again and again, perhaps of another task: what a task does when
                # it is the only one is its own.
                place = work.pop(future)
                if place in alone:
                    error = future.exception()
                    yield place, f"{type(error).__name__}: {error}"
                else:
                    suspects.append(place)
    finally:
        client.cancel(list(work))


def _sent(thing: Any, what: str) -> Sent:
    try:
        return sent(thing)
    except Exception as error:
        raise ValueError(
            f"`targets` must be what can be sent to a worker; pickling {what} raised "
            f"{type(error).__name__}: {error}. Open files and connections inside a function."
        ) from error


def _seeds(seeds: Any, count: int | None) -> tuple[int, ...]:
    if seeds is None:
        if count is None:
            raise ValueError("`seeds` must say how many fits to make where a function makes them.")
        return tuple(range(count))
    if isinstance(seeds, int):
        seeds = range(as_count("seeds", seeds))
    found = tuple(as_count("seeds", seed, least=0) for seed in seeds)
    if count is not None and len(found) != count:
        raise ValueError(f"`seeds` must have one for each of {count} targets; got {len(found)}.")
    if count is None and len(set(found)) < len(found):
        raise ValueError("`seeds` must be distinct where a function makes a target of each.")
    return found
