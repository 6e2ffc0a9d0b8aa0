"""Reports: how long they take to write and, in a real browser, to open, sort and search."""

from __future__ import annotations

import dataclasses
import shutil
import tempfile
import time
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

import scorevi
from scorevi.base.target import Parameter

SIZES = 5, 500, 5000
TIMES = 5
SORT = "document.querySelectorAll('#table th button')[1].click()"
SEARCH = (
    "(() => { const box = document.querySelector('#table input'); box.value = 'effect[3';"
    " box.dispatchEvent(new Event('input')); })()"
)


def opening() -> None:
    """Print seconds for reports of few and of many parameters, and ratios to the smallest."""
    print(f"Reports in headless Chromium, median of {TIMES}: seconds, and times those of 5\n")
    chromium = shutil.which("chromium")
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        chromium = None
    if chromium is None:
        print("not measured: needs Chromium, and pip install playwright\n")
        return
    print("| parameters | write | size, kB | open | sort | search |\n|---|---|---|---|---|---|")
    first: list[float] = []
    with sync_playwright() as driver, tempfile.TemporaryDirectory() as folder:
        browser = driver.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for dim in SIZES:
            fit, path = _fit(dim), Path(folder) / f"{dim}.html"
            begin = time.perf_counter()
            fit.report(path)
            spent = [time.perf_counter() - begin]
            spent += map(median, zip(*(_visit(browser, path) for _ in range(TIMES)), strict=True))
            first = first or spent
            write, *others = (
                f"{own:.3f} ({own / least:.1f}×)" for own, least in zip(spent, first, strict=True)
            )
            size = path.stat().st_size / 1000
            print(f"| {dim} | {write} | {size:.0f} | {' | '.join(others)} |", flush=True)
        browser.close()
    print()


def _visit(browser: Any, path: Path) -> tuple[float, float, float]:
    page = browser.new_page()
    marks = [time.perf_counter()]
    page.goto(path.as_uri())
    page.wait_for_selector("html[data-ready=yes]")
    marks.append(time.perf_counter())
    for action in (SORT, SEARCH):
        page.evaluate(action)
        marks.append(time.perf_counter())
    page.close()
    opened, sorted_, searched = np.diff(marks)
    return float(opened), float(sorted_), float(searched)


def _fit(dim: int) -> scorevi.Fit:
    """Return a fit of so many parameters, with correlations, which nobody had to make."""
    rng = np.random.default_rng(0)
    factor = np.diag(np.exp(rng.standard_normal(dim)))
    factor[:, :3] += 0.5 * rng.standard_normal((dim, 3))
    q = scorevi.Gaussian(rng.standard_normal(dim), factor, 0.0)
    small = scorevi.fit(scorevi.examples.random_gaussian(3), "gsm", max_gradients=2000, stop=False)
    parameters = (Parameter("alpha"), Parameter("effect", (dim - 1,)))
    return dataclasses.replace(small, q=q, parameters=parameters, target=None)
