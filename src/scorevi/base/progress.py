"""The progress bar."""

from __future__ import annotations

import importlib.util
import math
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

Show = Callable[[int, Sequence[float], Sequence[float]], None]

_REFRESH_SECONDS = 0.1


@contextmanager
def progress_bar(total: int | None, wanted: bool | None) -> Iterator[Show]:
    """Open a bar on standard error that counts gradients; a no-op if it is not wanted.

    Parameters
    ----------
    total
        The number of gradients that make the bar full; None if not known.
    wanted
        True, False, or None for only where a person is watching: a terminal or a notebook.
    """
    console = _console(wanted)
    if console is None:
        yield show_nothing
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("fitting"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("gradients"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[quality]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("fit", total=total, quality="")
        shown = 0.0
        latest = (0, "")

        def show(spent: int, elbo: Sequence[float], fisher: Sequence[float]) -> None:
            nonlocal shown, latest
            now = time.perf_counter()
            if fisher:
                latest = (spent, _quality(elbo[-1], fisher[-1]))
            if now - shown >= _REFRESH_SECONDS:
                shown = now
                bar.update(task, completed=latest[0], quality=latest[1])

        yield show
        bar.update(task, completed=latest[0], quality=latest[1])


@contextmanager
def runs_bar(wanted: bool | None) -> Iterator[Callable[[int, int], None]]:
    """Open a bar on standard error that counts runs; yields what to call with done and all."""
    console = _console(wanted)
    if console is None:
        yield lambda *_: None
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        TextColumn,
        TimeElapsedColumn,
        TimeRemainingColumn,
    )

    columns = (
        TextColumn("studying"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("runs"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("runs", total=None)
        yield lambda done, total: bar.update(task, completed=done, total=total)


@contextmanager
def sampling_bar(total: int, wanted: bool | None) -> Iterator[Callable[[str, int, float], None]]:
    """Open a bar on standard error that counts gradients towards the most there may be.

    Yields what to call with what is done, the gradients so far and the least effective sample.
    """
    console = _console(wanted)
    if console is None:
        yield lambda *_: None
        return
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("gradients"),
        TimeElapsedColumn(),
        TextColumn("{task.fields[reached]}"),
    )
    with Progress(*columns, console=console) as bar:
        task = bar.add_task("fitting", total=total, reached="")

        def show(phase: str, spent: int, least: float) -> None:
            reached = "" if math.isnan(least) else f"effective sample {least:.0f}"
            bar.update(task, description=phase, completed=spent, reached=reached)

        yield show


@contextmanager
def activity(text: str, wanted: bool | None) -> Iterator[None]:
    """Say on standard error what is going on, with a spinner and the time, while it lasts."""
    console = _console(wanted)
    if console is None:
        yield
        return
    from rich.progress import Progress, SpinnerColumn, TextColumn, TimeElapsedColumn

    columns = (SpinnerColumn(), TextColumn("{task.description}", markup=False), TimeElapsedColumn())
    # Where nothing can be wiped out, the line stays: else there would be none.
    with Progress(*columns, console=console, transient=not _is_log(console)) as bar:
        bar.add_task(text, total=None)
        yield


def _is_log(console: Console) -> bool:
    return not (console.is_terminal or console.is_jupyter)


def _console(wanted: bool | None) -> Console | None:
    """Return where to show progress, or None if it is not wanted."""
    if wanted is False:
        return None
    from rich.console import Console

    console = Console(stderr=True)
    # In a notebook rich draws with ipywidgets, and complains where they are missing.
    notebook = console.is_jupyter and importlib.util.find_spec("ipywidgets") is not None
    return console if wanted or console.is_terminal or notebook else None


def show_nothing(spent: int, elbo: Sequence[float], fisher: Sequence[float]) -> None:
    """Show no progress."""
    del spent, elbo, fisher


def _quality(elbo: float, fisher: float) -> str:
    text = f"Fisher residual {fisher:.2g}"
    return text if math.isnan(elbo) else f"ELBO {elbo:.2f}  {text}"
