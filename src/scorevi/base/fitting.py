"""How far a fit has come, while it runs: a bar in a terminal, a line in a notebook."""

from __future__ import annotations

import importlib
import math
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from html import escape
from typing import Any, NamedTuple

from scorevi.base.progress import console_for

_REFRESH_SECONDS = 0.1
_REFRESH_NOTEBOOK = 0.3
_WIDE, _WIDE_BAR, _NARROW_BAR = 120, 24, 8
"""Columns of a terminal, and of the bar in it."""
_WINDOW = 20
"""Refreshes over which the rate is taken."""


class Limits(NamedTuple):
    """What ends a fit."""

    gradients: int | None = None
    seconds: float | None = None
    tolerance: float | None = None
    """How near is near enough; None where the fit goes on to its limit."""


class Look(NamedTuple):
    """One look at a fit under way."""

    spent: int
    """Gradients."""
    elbo: float = math.nan
    fisher: float = math.nan
    distance: float = math.inf
    """How far the best Gaussian may be, in standard deviations; infinite where none can tell."""
    components: int = 1
    done: bool = False
    """Whether the fit has come to an end of its own."""


Show = Callable[[Look], None]


class Progress(NamedTuple):
    """What there is to show."""

    share: float
    """How much of the way is behind, as far as that can be told."""
    text: str


def progress_of(look: Look, limits: Limits, elapsed: float, rate: float) -> Progress:
    """Say how far a fit has come.

    The distance from the best Gaussian is mostly noise, which falls with the root of the effort; so
    the effort that is left goes with the square of the distance over the tolerance. Where that is
    not known, only the limits say how long it takes at most.

    Parameters
    ----------
    look
        What is known now.
    limits
        What ends the fit.
    elapsed, rate
        Seconds so far, and gradients a second.

    Examples
    --------
    >>> look = Look(spent=1000, elbo=-12.3, distance=0.2)
    >>> progress_of(look, Limits(10_000, None, 0.1), elapsed=0.5, rate=2000.0).text
    '1,000 gradients  2,000/s  about 1.5 s left  ELBO -12.30  within 0.2 sd, 0.1 wanted'
    """
    shares = [0.0]
    if limits.gradients is not None:
        shares.append(look.spent / limits.gradients)
    if limits.seconds is not None:
        shares.append(elapsed / limits.seconds)
    far = [_quality(look)]
    known = limits.tolerance is not None and 0.0 < look.distance < math.inf
    if look.components > 1:
        far.append(f"{look.components} components")
        known = False
    if limits.tolerance is not None and known:
        far.append(f"within {look.distance:.2g} sd, {limits.tolerance:g} wanted")
        shares.append((limits.tolerance / look.distance) ** 2)
    share = 1.0 if look.done else min(1.0, max(shares))
    # What a narrow terminal cuts off comes last.
    parts = [f"{look.spent:,} gradients", f"{rate:,.0f}/s" if rate > 0.0 else ""]
    left = _left(look.spent, limits, elapsed, rate, share if known else None)
    if math.isfinite(left) and not look.done:
        parts.append(f"{'about' if known else 'at most'} {_seconds(left)} left")
    return Progress(share, "  ".join(part for part in parts + far if part))


def _left(spent: int, limits: Limits, elapsed: float, rate: float, share: float | None) -> float:
    """Return the seconds that are left, at most or about."""
    left = math.inf
    if limits.seconds is not None:
        left = max(0.0, limits.seconds - elapsed)
    if rate > 0.0 and limits.gradients is not None:
        left = min(left, (limits.gradients - spent) / rate)
    if rate > 0.0 and share is not None and share > 0.0:
        left = min(left, spent * (1.0 / share - 1.0) / rate)
    return left


def _quality(look: Look) -> str:
    if math.isfinite(look.elbo):
        return f"ELBO {look.elbo:.2f}"
    return f"Fisher residual {look.fisher:.2g}" if math.isfinite(look.fisher) else ""


def _seconds(left: float) -> str:
    if left < 10.0:
        return f"{left:.1f} s"
    if left < 100.0:
        return f"{left:.0f} s"
    minutes, seconds = divmod(round(left), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min {seconds:02} s"


@contextmanager
def fitting_bar(limits: Limits, wanted: bool | None) -> Iterator[Show]:
    """Open a bar on standard error, or a line in a notebook; a no-op if it is not wanted.

    Parameters
    ----------
    limits
        What ends the fit.
    wanted
        True, False, or None for only where a person is watching: a terminal or a notebook.
    """
    console = console_for(wanted, bare_notebook=True)
    if console is None:
        yield lambda _: None
        return
    if console.is_jupyter:
        meter = _Meter(limits, _in_notebook(), _REFRESH_NOTEBOOK)
        yield meter.show
        meter.draw()
        return
    from rich.progress import BarColumn, TextColumn, TimeElapsedColumn
    from rich.progress import Progress as Bar

    width = _WIDE_BAR if console.width >= _WIDE else _NARROW_BAR
    told = TextColumn("{task.fields[text]}", markup=False)
    drawn = BarColumn(width, finished_style="green")
    with Bar(TextColumn("fitting"), drawn, TimeElapsedColumn(), told, console=console) as bar:
        task = bar.add_task("fit", total=1.0, text="")

        def draw(progress: Progress) -> None:
            room = console.width - width - len("fitting  0:00:00  ")
            bar.update(task, completed=progress.share, text=_cut(progress.text, room))

        meter = _Meter(limits, draw, _REFRESH_SECONDS)
        yield meter.show
        meter.draw()


def _cut(text: str, room: int) -> str:
    """Leave out what a terminal has no room for, from the end."""
    while len(text) > room and "  " in text:
        text = text.rpartition("  ")[0]
    return text


class _Meter:
    """Takes looks as often as they come, and draws now and then."""

    def __init__(self, limits: Limits, draw: Callable[[Progress], None], every: float) -> None:
        self._limits, self._draw, self._every = limits, draw, every
        self._began = self._drawn = time.perf_counter()
        self._seen: deque[tuple[float, int]] = deque([(self._began, 0)], maxlen=_WINDOW)
        self._look = Look(0)
        self._share = 0.0

    def show(self, look: Look) -> None:
        """Take a look; its figures, where it has none, are those of the one before."""
        if not math.isfinite(look.fisher):
            look = look._replace(elbo=self._look.elbo, fisher=self._look.fisher)
        self._look = look
        if time.perf_counter() - self._drawn >= self._every:
            self.draw()

    def draw(self) -> None:
        """Draw what is known now; the bar never goes back."""
        now = self._drawn = time.perf_counter()
        before, spent = self._seen[0]
        self._seen.append((now, self._look.spent))
        rate = (self._look.spent - spent) / max(now - before, 1e-9)
        progress = progress_of(self._look, self._limits, now - self._began, rate)
        self._share = max(self._share, progress.share)
        self._draw(progress._replace(share=self._share))


def _in_notebook() -> Callable[[Progress], None]:
    """Return what draws in a notebook, by nothing but what every notebook has."""
    shown: Any = importlib.import_module("IPython.display")
    handle = shown.display(shown.HTML(""), display_id=True)

    def draw(progress: Progress) -> None:
        bar = f'<progress max="1" value="{progress.share:.3f}"></progress>'
        text = escape(" · ".join(progress.text.split("  ")))
        handle.update(shown.HTML(f"<div>fitting {bar} {text}</div>"))

    return draw
