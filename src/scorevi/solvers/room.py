"""Whether a fit has room in memory, before anything is allocated, and what would."""

from __future__ import annotations

from scorevi.base.memory import available_bytes, in_words
from scorevi.solvers.base import Solver
from scorevi.solvers.low_rank import LowRankReplay
from scorevi.solvers.mixing import Mixing
from scorevi.solvers.replay import Replay

_NUMBER = 8
_REPLAY, _OTHERS = 48, 8
"""Numbers over D² that a fit of a Gaussian takes at its peak: with a memory of 4(D + 1) pairs, what
is copied of it on the way, and racers; and without."""
_COPIES = 8
"""Arrays as large as the memory of pairs, at the peak of a step of a diagonal and directions."""


def bytes_needed(solver: Solver, dim: int) -> int:
    """Return about what a fit by a solver takes at its peak, beside the target itself."""
    if isinstance(solver, LowRankReplay):
        return _NUMBER * dim * (_COPIES * solver.most_pairs(dim) + 8 * solver.rank + 200)
    return _NUMBER * dim**2 * (_REPLAY if isinstance(solver, (Replay, Mixing)) else _OTHERS)


def within_memory(solver: Solver, family: str, dim: int) -> tuple[Solver, str]:
    """Return the solver, or where it has no room and the family is open another, and a note.

    Refuses with a ``ValueError`` that says what would fit where the family is not open.
    """
    room = available_bytes()
    needed = bytes_needed(solver, dim)
    if room is None or needed <= room:
        return solver, ""
    size = f"{in_words(needed)} in {dim} dimensions, and {in_words(room)} are free"
    if isinstance(solver, LowRankReplay):
        least = bytes_needed(LowRankReplay(0), dim)
        others = f"; family='diagonal' takes {in_words(least)}" if least <= room else ""
        raise ValueError(f"`rank` {solver.rank} would take about {size}{others}.")
    other = LowRankReplay()
    instead = f"family='low-rank' takes {in_words(bytes_needed(other, dim))} with rank={other.rank}"
    if family == "auto" and isinstance(solver, (Replay, Mixing)):
        other = LowRankReplay(batch_size=solver.batch_size)
        return other, f"a full Gaussian would take about {size}; {instead}, and was taken"
    raise ValueError(
        f"`family` must be 'low-rank' or 'diagonal' here: {family!r} with the solver "
        f"{solver.name!r} would take about {size}; {instead}."
    )
