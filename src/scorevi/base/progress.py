"""Who is told of progress, and of what takes long beside fits."""

from __future__ import annotations

import importlib.util
import math
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console


@contextmanager
def runs_bar(
    wanted: bool | None, doing: str = "studying", what: str = "runs"
) -> Iterator[Callable[[int, int], None]]:
    """Open a bar on standard error that counts runs; yields what to call with done and all."""
    console = console_for(wanted)
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
        TextColumn(doing),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn(what),
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
    console = console_for(wanted)
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
    console = console_for(wanted)
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


def console_for(wanted: bool | None, *, bare_notebook: bool = False) -> Console | None:
    """Return where to show progress, or None if it is not wanted.

    ``bare_notebook`` says that a notebook will do without ipywidgets.
    """
    if wanted is False:
        return None
    from rich.console import Console

    console = Console(stderr=True)
    # In a notebook rich draws with ipywidgets, and complains where they are missing.
    has_widgets = bare_notebook or importlib.util.find_spec("ipywidgets") is not None
    notebook = console.is_jupyter and has_widgets
    return console if wanted or console.is_terminal or notebook else None
