"""The algorithms, one a file, and the table they are chosen from by name."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable
from typing import Any

from scorevi.base.arrays import as_count
from scorevi.families import Mixture, Nested
from scorevi.families.given import Given
from scorevi.solvers.bam import BaM
from scorevi.solvers.base import Batch, HasVariants, Solver, State
from scorevi.solvers.bbvi import BBVI
from scorevi.solvers.growth import MixingState
from scorevi.solvers.gsm import GSM
from scorevi.solvers.low_rank import RANK, LowRankReplay
from scorevi.solvers.mixing import Mixing
from scorevi.solvers.nesting_state import NestingState
from scorevi.solvers.replay import Replay, ReplayState
from scorevi.solvers.scouts import Scout

__all__ = [
    "BBVI",
    "GSM",
    "SOLVERS",
    "BaM",
    "Batch",
    "HasVariants",
    "LowRankReplay",
    "Mixing",
    "Replay",
    "Solver",
    "State",
    "make_solver",
    "of_family",
]

SOLVERS: dict[str, Callable[[], Solver]] = {
    "replay": Replay,
    "gsm": GSM,
    "bam": BaM,
    "bbvi": BBVI,
    "low-rank": LowRankReplay,
}
"""Name → a function that makes the solver with its default settings."""

RECORDS: tuple[type, ...] = (Mixture, MixingState, Scout, Nested, Given, NestingState, ReplayState)
"""What states may come to be made of, beside what they begin with."""

FAMILIES = ("gaussian", "auto", "mixture", "low-rank", "diagonal")
"""What a fit may be asked for."""

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


def of_family(
    solver: Solver, family: str, components: int | None = None, rank: int | None = None
) -> Solver:
    """Return the solver that fits a family, given the one that fits a Gaussian.

    Examples
    --------
    >>> of_family(Replay(), "mixture", 8)
    Mixing(components=8, searches=True)
    >>> of_family(Replay(), "low-rank", rank=4)
    LowRankReplay(rank=4, batch_size=None)
    """
    if family not in FAMILIES:
        known = ", ".join(map(repr, FAMILIES))
        raise ValueError(f"`family` must be one of {known}; got {family!r}.")
    if rank is not None and family != "low-rank":
        raise ValueError(f"`rank` is that of family='low-rank'; got {rank!r} with {family!r}.")
    if family in ("low-rank", "diagonal"):
        return _of_large_family(solver, family, components, rank)
    if isinstance(solver, LowRankReplay):
        return solver
    if family == "gaussian":
        if components is not None and as_count("components", components) > 1:
            raise ValueError(
                f"`components` must be left out with family='gaussian', which has one; got "
                f"{components}. Pass family='mixture'."
            )
        return solver
    if isinstance(solver, Mixing):
        return solver if components is None else dataclasses.replace(solver, components=components)
    if not isinstance(solver, Replay):
        if family == "auto" and components is None:
            return solver
        raise ValueError(
            f"`family` must be 'gaussian' for the solver {solver.name!r}; got {family!r}. The "
            "solvers 'auto' and 'replay' fit mixtures."
        )
    return Mixing(solver.batch_size, components, searches=family == "mixture")


def _of_large_family(
    solver: Solver, family: str, components: int | None, rank: int | None
) -> Solver:
    """Return the solver of a diagonal and directions."""
    if components is not None and as_count("components", components) > 1:
        raise ValueError(
            f"`components` must be left out with family={family!r}, which has one; got "
            f"{components}. Pass family='mixture'."
        )
    if isinstance(solver, LowRankReplay):
        return solver if rank is None else dataclasses.replace(solver, rank=rank)
    if not isinstance(solver, Replay):
        raise ValueError(
            f"`family` must be 'gaussian' for the solver {solver.name!r}; got {family!r}. The "
            "solvers 'auto' and 'replay' fit it."
        )
    directions = RANK if rank is None else rank
    return LowRankReplay(0 if family == "diagonal" else directions, solver.batch_size)
