"""The algorithms, one a file, and the table they are chosen from by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from scorevi.base.arrays import as_count
from scorevi.solvers.bam import BaM
from scorevi.solvers.base import Batch, HasVariants, Solver, State
from scorevi.solvers.bbvi import BBVI
from scorevi.solvers.gsm import GSM
from scorevi.solvers.replay import Replay

__all__ = [
    "BBVI",
    "GSM",
    "SOLVERS",
    "BaM",
    "Batch",
    "HasVariants",
    "Replay",
    "Solver",
    "State",
    "make_solver",
]

SOLVERS: dict[str, Callable[[], Solver]] = {
    "replay": Replay,
    "gsm": GSM,
    "bam": BaM,
    "bbvi": BBVI,
}
"""Name → a function that makes the solver with its default settings."""

DEFAULT = "replay"
"""What "auto" stands for."""


def make_solver(solver: str | Solver, batch_size: int | None = None) -> Solver:
    """Return the solver of a name or a configured object, with the batch size if given.

    Examples
    --------
    >>> make_solver("gsm", batch_size=3)
    GSM(batch_size=3, settle=False)
    """
    if isinstance(solver, str):
        solver = DEFAULT if solver == "auto" else solver
        if solver not in SOLVERS:
            known = ", ".join(repr(name) for name in ("auto", *SOLVERS))
            raise ValueError(f"`solver` must be one of {known}, or an object; got {solver!r}.")
        solver = SOLVERS[solver]()
    elif not isinstance(solver, Solver) or isinstance(solver, type):
        raise ValueError(
            "`solver` must be a name or a configured solver such as scorevi.GSM(batch_size=2); "
            f"got {getattr(solver, '__name__', type(solver).__name__)}."
        )
    if batch_size is None:
        return solver
    settings: Any = solver
    replaced: Solver = dataclasses.replace(
        settings, batch_size=as_count("batch_size", batch_size, optional=True)
    )
    return replaced
