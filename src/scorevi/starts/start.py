"""Every way to start: each returns a Gaussian and the pairs it paid for.

The optimiser is SciPy's L-BFGS-B. Its evaluations are counted like all others, and it may spend at
most half of what the budget has left, so that something remains for the fit.
"""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, NamedTuple, TypeAlias

import numpy as np
from numpy.typing import ArrayLike

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.pairs import Pair
from scorevi.families import Gaussian, LowRank
from scorevi.solvers.base import Solver
from scorevi.solvers.low_rank import LowRankReplay
from scorevi.starts.chosen import choose
from scorevi.starts.climb import Ascent, curvature_gaussian, curvature_low_rank
from scorevi.starts.large import at_point, choose_large
from scorevi.targets.points import as_point

Initial: TypeAlias = "Gaussian | LowRank | str | ArrayLike | Mapping[str, Any] | Near | None"
WAYS = ("auto", "mode", "laplace", "lbfgs")

_MODE_SCALE = math.sqrt(0.1)
"""The paper starts with covariance 0.1·I at the mode."""
_MAX_SEARCH = 200
_ROUND = 30.0
"""The condition number of a whitened Hessian beyond which its small eigenvalues are uncertain."""


class Near(NamedTuple):
    """The start is to be chosen by trying, and a point is where to begin."""

    point: ArrayLike | Mapping[str, Any]


class Start(NamedTuple):
    """Where a fit begins."""

    q: Gaussian | LowRank
    pairs: tuple[Pair, ...] = ()
    """Those that tell of q, for a solver with a memory."""
    notes: tuple[str, ...] = ()
    seen: tuple[Pair, ...] = ()
    """Those, one after another, that score and log density may be compared by."""
    state: Any = None
    """That of the solver, where it has already begun from there."""
    elsewhere: tuple[Array, ...] = ()
    """Points that other modes are at."""


class NoFinitePoint(Exception):
    """No point with a finite score was found."""


def start(
    initial: Initial,
    evaluator: Evaluator,
    rng: np.random.Generator,
    solver: Solver | None = None,
) -> Start:
    """Return the start that ``initial`` asks for.

    Parameters
    ----------
    initial
        None for N(0, I); a Gaussian; a point (:mod:`scorevi.targets.points`), for an identity
        covariance around it; or
        ``"auto"`` (the best of several candidates, see :mod:`scorevi.starts.chosen`),
        ``"mode"`` (0.1·I at the mode), ``"lbfgs"`` (the mode and the optimiser's inverse Hessian),
        ``"laplace"`` (the mode and the inverse Hessian by differences of the score).
    evaluator
        The target with its budget.
    rng
        Used only if there is no finite score at the start and a point must be searched for.
    solver
        Where it is that of a diagonal and directions, so is the start, and no D × D array is made.
    """
    dim = evaluator.target.dim
    large = solver if isinstance(solver, LowRankReplay) else None
    if initial is None:
        return Start(Gaussian.standard(dim) if large is None else LowRank.standard(dim))
    if isinstance(initial, (Gaussian, LowRank)):
        if initial.dim != dim:
            raise ValueError(
                f"`initial` must have the target's dimension, {dim}; got {initial.dim}."
            )
        return Start(_as_family(initial, large))
    if isinstance(initial, Near):
        return _automatic(evaluator, rng, as_point(initial.point, evaluator.target), solver)
    if not isinstance(initial, str):
        point = as_point(initial, evaluator.target)
        return Start(at_point(point) if large else Gaussian(point, np.eye(dim), 0.0))
    if initial not in WAYS:
        raise ValueError(
            f"`initial` must be None, a Gaussian, a point, or one of {', '.join(WAYS)}; "
            f"got {initial!r}."
        )
    if initial == "auto":
        return _automatic(evaluator, rng, np.zeros(dim), solver)
    if not evaluator.target.has_log_density:
        raise ValueError(
            f"`initial={initial!r}` looks for the mode, which needs the log density. Pass "
            "log_density= when making the target, or give `initial` a point or a Gaussian."
        )
    return _at_mode(initial, evaluator, rng, large)


def _as_family(q: Gaussian | LowRank, large: LowRankReplay | None) -> Gaussian | LowRank:
    """Return a Gaussian as the family of the solver has it; of a dense one, the diagonal."""
    if large is None:
        return q if isinstance(q, Gaussian) else q.dense()
    return q if isinstance(q, LowRank) else LowRank(q.mean, q.sd)


def search(
    evaluator: Evaluator, q: Gaussian | LowRank | None, rng: np.random.Generator
) -> tuple[Gaussian | LowRank, str]:
    """Look for a place where the score is finite, around q.

    Tries the mean, then draws on scales from a thousandth to a thousand times that of q. Returns a
    Gaussian around the first point found, narrow enough that most of a few draws are finite too,
    and a note. Raises :class:`NoFinitePoint`.
    """
    if q is None:
        raise NoFinitePoint
    before = evaluator.spent
    limit = min(_MAX_SEARCH, evaluator.remaining // 2)
    exponents = [0.0, -1.0, 1.0, -2.0, 2.0, -3.0, 3.0]
    point, attempt = q.mean, 0
    while evaluator.point(point) is None:
        if evaluator.spent - before >= limit:
            raise NoFinitePoint
        scale = 10.0 ** exponents[attempt % len(exponents)]
        point = q.mean + scale * np.asarray(q.image(rng.standard_normal((1, q.dim)))[0])
        attempt += 1
    found = dataclasses.replace(q, mean=point)
    for _ in range(12):
        tried = [evaluator.point(theta) is not None for theta in found.sample(4, rng)]
        if sum(tried) >= 2:
            break
        found = found.scaled(0.3)
    spent = evaluator.spent - before
    return found, (
        f"the score was not finite at the start; moved to a point where it is, "
        f"found after {spent} evaluations"
    )


def _automatic(
    evaluator: Evaluator, rng: np.random.Generator, point: Array, solver: Solver | None
) -> Start:
    with _half_budget(evaluator):
        if isinstance(solver, LowRankReplay):
            state, note = choose_large(evaluator, rng, point, solver)
            return Start(state.q, notes=(note,), state=state)
        chosen = choose(evaluator, rng, point, solver)
    return Start(
        chosen.q,
        tuple(chosen.pairs),
        (chosen.note,),
        tuple(chosen.seen),
        chosen.state,
        tuple(chosen.elsewhere),
    )


def _at_mode(
    way: str, evaluator: Evaluator, rng: np.random.Generator, large: LowRankReplay | None
) -> Start:
    dim = evaluator.target.dim
    notes: list[str] = []
    with _half_budget(evaluator):
        ascent = Ascent(evaluator)
        point = np.zeros(dim)
        if not ascent.visit(point):
            moved, note = search(evaluator, at_point(point), rng)
            notes.append(note)
            point = moved.mean
        ascent.climb(point)
        if not ascent.converged:
            notes.append(
                f"the search for the mode ended before it converged, after "
                f"{evaluator.spent} gradients"
            )
        mode = ascent.path[-1].theta if ascent.path else point
        if large is not None:
            narrow = at_point(mode).scaled(_MODE_SCALE)
            curved = curvature_low_rank(ascent.path) if way != "mode" else None
            if way == "laplace":
                notes.append("no Hessian is formed for this family; L-BFGS's is used instead")
            return Start(curved or narrow, (), tuple(notes), tuple(ascent.pairs))
        q = Gaussian(mode, _MODE_SCALE * np.eye(dim), dim * math.log(_MODE_SCALE))
        if way != "mode":
            q = curvature_gaussian(ascent.path) or q
        if way == "laplace":
            q, note = _laplace(q, evaluator)
            notes += [note] if note else []
    pairs = tuple(ascent.pairs)
    return Start(q, pairs, tuple(notes), pairs)


@contextmanager
def _half_budget(evaluator: Evaluator) -> Iterator[None]:
    """Keep at least half of what is left back for the fit itself."""
    whole = evaluator.max_gradients
    half = None if whole is None else int(evaluator.remaining // 2)
    evaluator.max_gradients = None if half is None else evaluator.spent + half
    try:
        yield
    finally:
        evaluator.max_gradients = whole


def _laplace(q: Gaussian, evaluator: Evaluator, passes: int = 3) -> tuple[Gaussian, str]:
    """Refine q by central differences of the score along its own axes: 2·D gradients a pass.

    In whitened coordinates the Hessian is near −I whatever the scales, so one step size serves.
    Where it turns out not to be, because the optimiser had not seen the widest directions, the
    differences are taken once more along the better axes.
    """
    step = float(np.finfo(np.float64).eps) ** (1 / 3)
    offsets = step * np.concatenate([np.eye(q.dim), -np.eye(q.dim)])
    if evaluator.remaining < len(offsets):
        return q, (
            f"the Laplace approximation needs {len(offsets)} more gradients than the half of the "
            "budget that a start may spend; the L-BFGS inverse Hessian is used instead"
        )
    theta = q.unwhiten(offsets)
    evaluation, good = evaluator.noted(theta)
    if not good.all():
        return q, "the Hessian could not be computed: some scores near the mode are not finite"
    white = q.whiten_score(evaluation.score)
    curvature = (white[q.dim :] - white[: q.dim]) / (2.0 * step)
    values, vectors = np.linalg.eigh((curvature + curvature.T) / 2)
    flat = values <= 1e-10 * max(float(values[-1]), 0.0)
    note = ""
    if flat.any():
        note = f"the Hessian at the mode is not negative definite in {int(flat.sum())} directions"
        values = np.where(flat, 1.0, values)
    # The score at the middle says how far the optimiser stopped short of the mode.
    shift = vectors @ ((vectors.T @ white.mean(axis=0)) / values)
    shift *= min(1.0, 1.0 / max(float(np.linalg.norm(shift)), 1e-300))
    moved = q.moved(shift, vectors / np.sqrt(values), -0.5 * float(np.log(values).sum()))
    if note or values[-1] < _ROUND * values[0] or passes == 1:
        return moved, note
    if evaluator.remaining < len(offsets):
        return moved, note
    return _laplace(moved, evaluator, passes - 1)
