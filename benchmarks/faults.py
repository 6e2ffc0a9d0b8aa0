"""What happens when scores fail: the table of faults, as Markdown."""

from __future__ import annotations

import warnings

import scorevi
from scorevi.examples import gaussian, random_gaussian
from scorevi.studies.faults import FAULTS, LOG_DENSITY_FAULTS, inject

DIM = 10
RATES = (0.3, 0.6)
BUDGETS = {"replay": 1_000, "gsm": 4_000, "bam": 4_000, "bbvi": 20_000}
ISOLATED = ("hang", "death of the process")
"""Faults that only an isolated target survives; their rows are added where that is measured."""


def _row(fault: str, kinds: tuple[str, ...], rate: float, solver: str, batched: bool) -> str:
    p = random_gaussian(DIM, 40.0, seed=3)
    clean = gaussian(p.mean, p.covariance)
    target, ledger = inject(clean, rate, kinds, seed=0, batched=batched)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", scorevi.FitWarning)
        fit = scorevi.fit(
            target, solver, max_gradients=BUDGETS[solver], seed=1, stop=False, progress=False
        )
    divergence = fit.q.kl(p)
    by_cause = "" if dict(fit.bad_scores.counts) == ledger.causes else ", causes differ"
    cells = (
        fault,
        "batch" if batched else "point",
        f"{rate:.0%}",
        solver,
        fit.status,
        f"{divergence:.1g}" if divergence > 1e-12 else "< 1e-12",
        f"{fit.bad_scores.total:,} / {ledger.total:,}{by_cause}",
    )
    return "| " + " | ".join(cells) + " |"


def table() -> None:
    """Print fault, rate, how the fit ended, the divergence reached, and the two counts."""
    kinds = FAULTS | LOG_DENSITY_FAULTS
    print(f"A Gaussian of {DIM} dimensions; KL is from q to it, in nats.")
    print(f"Not in this table: {' and '.join(ISOLATED)}, which need an isolated target.\n")
    columns = "fault", "function of a", "rate", "solver", "status", "KL", "counted / injected"
    print("| " + " | ".join(columns) + " |")
    print("|---" * len(columns) + "|")
    for name in kinds:
        for batched in (False, True):
            print(_row(name, (name,), 0.3, "replay", batched), flush=True)
    for solver in BUDGETS:
        for rate in RATES:
            print(_row("all of them", tuple(kinds), rate, solver, False), flush=True)
    print()
