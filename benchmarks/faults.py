"""What happens when scores fail: the table of faults, as Markdown."""

from __future__ import annotations

import tempfile
import warnings
from collections import Counter
from pathlib import Path

import scorevi
from scorevi.examples import gaussian, random_gaussian
from scorevi.studies.faults import (
    FAULTS,
    ISOLATED_CAUSES,
    LOG_DENSITY_FAULTS,
    deadly,
    inject,
)
from scorevi.studies.trust import write

DIM = 10
RATES = (0.3, 0.6)
BUDGETS = {"replay": 1_000, "gsm": 4_000, "bam": 4_000, "bbvi": 20_000}


def _row(fault: str, kinds: tuple[str, ...], rate: float, solver: str, batched: bool) -> str:
    p = random_gaussian(DIM, 40.0, seed=3)
    clean = gaussian(p.mean, p.covariance)
    target, ledger = inject(clean, rate, kinds, seed=0, batched=batched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scorevi.FitWarning)
        fit = scorevi.fit(
            target, solver, max_gradients=BUDGETS[solver], seed=1, stop=False, progress=False
        )
    differ = "" if dict(fit.bad_scores.counts) == ledger.causes else ", causes differ"
    how = "batch" if batched else "point"
    return _cells(fault, how, rate, solver, fit, p, f"{ledger.total:,}{differ}")


def _isolated_row(fault: str, causes: tuple[str, ...]) -> str:
    p = random_gaussian(DIM, 40.0, seed=3)
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "ledger"
        target = deadly(p, 0.3, path, causes)
        fit = scorevi.fit(
            target, max_gradients=120, seed=1, stop=False, progress=False, score_timeout=0.5
        )
        injected = Counter(path.read_text().split())
    differ = "" if fit.bad_scores.counts == injected else ", causes differ"
    how = "point, isolated"
    return _cells(fault, how, 0.3, "replay", fit, p, f"{injected.total():,}{differ}")


def _cells(
    fault: str,
    how: str,
    rate: float,
    solver: str,
    fit: scorevi.Fit,
    p: scorevi.Gaussian,
    injected: str,
) -> str:
    divergence = fit.q.kl(p)
    reached = f"{divergence:.1g}" if divergence > 1e-12 else "< 1e-12"
    counts = f"{fit.bad_scores.total:,} / {injected}"
    return (
        "| " + " | ".join((fault, how, f"{rate:.0%}", solver, fit.status, reached, counts)) + " |"
    )


def table() -> None:
    """Write the table of faults into docs/trust.md, and print it.

    Fault, rate, how the fit ended, the divergence reached, and the two counts.
    """
    kinds = FAULTS | LOG_DENSITY_FAULTS
    columns = "fault", "function of a", "rate", "solver", "status", "KL", "counted / injected"
    rows = ["| " + " | ".join(columns) + " |", "|---" * len(columns) + "|"]
    for name in kinds:
        rows += [_row(name, (name,), 0.3, "replay", batched) for batched in (False, True)]
    rows.append(_isolated_row("hang", ("timeout",)))
    rows.append(_isolated_row("death of the process", ("died",)))
    rows.append(_isolated_row("all, with hangs and deaths", ISOLATED_CAUSES))
    for solver in BUDGETS:
        for rate in RATES:
            rows.append(_row("all but hangs and deaths", tuple(kinds), rate, solver, False))
    write(Path("docs/trust.md"), {"faults": "\n".join(rows)})
    print("\n".join(rows) + "\n")
