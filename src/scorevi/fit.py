"""The front door: ``fit`` and ``iterate``."""

from __future__ import annotations

import dataclasses
import math
import warnings
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from scorevi._arrays import Seed, as_count, seed_entropy
from scorevi.driver import Run, Updates
from scorevi.gaussian import Gaussian
from scorevi.initialize import Initial, Near
from scorevi.progress import Show, progress_bar
from scorevi.results import Fit, Trace
from scorevi.solvers import HasVariants, Solver, make_solver
from scorevi.status import FitError, FitWarning
from scorevi.targets import Target, as_target


class Step(NamedTuple):
    """One update, as :func:`iterate` yields it."""

    q: Gaussian
    """The approximation after the update."""
    num_gradients: int
    """Gradients spent so far, those of the start included."""
    seconds: float
    """Seconds since the beginning."""
    elbo: float
    """The batch's ELBO estimate for the q *before* the update, which it was drawn from."""
    fisher: float
    """The batch's Fisher residual |h + z|²/D for that same q."""
    drift: float
    """h₁·h₂/D of the batch's first two draws: on average |E_q h|²/D for that same q."""
    info: Any
    """What the solver has to say of the step."""


def fit(
    target: Any,
    solver: str | Solver = "auto",
    *,
    max_gradients: int | None = 2000,
    max_seconds: float | None = None,
    batch_size: int | None = None,
    seed: Seed = 0,
    initial: Initial = None,
    progress: bool | None = None,
    raise_on_failure: bool = False,
) -> Fit:
    """Fit a Gaussian to a target.

    Parameters
    ----------
    target
        A target, from :func:`scorevi.from_function` or :func:`scorevi.from_jax`, or an object
        with ``dim`` and ``score``.
    solver
        A name, ``"gsm"``, ``"bam"`` or ``"bbvi"``, or a configured solver such as
        ``scorevi.GSM(batch_size=2)``.
    max_gradients
        The most points at which the score is asked for, the start's included. It is never
        exceeded; what is left over is less than a batch. None where max_seconds alone decides.
    max_seconds
        The most wall time; a step under way is finished, and for JAX targets a chunk of steps of
        about a tenth of a second. The time to compile a JAX target is not counted.
    batch_size
        Draws per update; the solver's default if left out.
    seed
        A whole number; the same seed gives the same bits on the same machine. None draws one.
    initial
        Where to start: None for ``"auto"`` where the solver is ``"auto"``, else N(0, I);
        ``"auto"``, the best of several candidates (:mod:`scorevi.autostart`); a Gaussian; a point,
        with identity covariance around it, which for the solver ``"auto"`` is where the choice
        begins; ``"mode"``, 0.1·I at the mode; ``"laplace"``; ``"lbfgs"``, the mode with the
        optimiser's inverse Hessian.
    progress
        Whether to show a progress bar on standard error; None for only in a terminal or notebook.
    raise_on_failure
        Raise :class:`scorevi.FitError`, which carries the fit, instead of warning with
        :class:`scorevi.FitWarning` when the fit fails.

    Returns
    -------
    Fit
        Whatever happens. ``fit.status`` says how it ended.

    Examples
    --------
    >>> import scorevi
    >>> p = scorevi.Gaussian.from_moments([1.0, 2.0], [[2.0, 0.6], [0.6, 1.0]])
    >>> fit = scorevi.fit(p, max_gradients=500, seed=0)
    >>> fit.mean.round(6), fit.covariance.round(6)
    (array([1., 2.]), array([[2. , 0.6], [0.6, 1. ]]))
    """
    if max_gradients is None and max_seconds is None:
        raise ValueError(
            "`max_gradients` must be a whole number >= 1, or None only with max_seconds; got None."
        )
    max_gradients, max_seconds = _limits(max_gradients, max_seconds)
    solver, initial = _resolve(solver, batch_size, initial)
    variants = solver.variants() if isinstance(solver, HasVariants) else (solver,)
    target = as_target(target)
    entropy = seed_entropy(seed)
    outcomes: list[tuple[Fit, str]] = []
    with progress_bar(max_gradients, progress) as show:
        for variant in variants:
            run = _make_run(
                target,
                variant,
                None if max_gradients is None else max_gradients // len(variants),
                None if max_seconds is None else max_seconds / len(variants),
                entropy,
                initial,
                chunked=True,
            )
            before = sum(fit.num_gradients for fit, _ in outcomes)
            outcomes.append(_complete(run, show, before))
            if outcomes[-1][0].status == "interrupted":
                break
    result, warning = max(outcomes, key=lambda outcome: outcome[0]._rank)
    if len(variants) > 1:
        result = dataclasses.replace(
            result,
            num_gradients=sum(fit.num_gradients for fit, _ in outcomes),
            seconds=sum(fit.seconds for fit, _ in outcomes),
            notes=(f"the best of {len(outcomes)} runs by ELBO: {result.solver}", *result.notes),
        )
    if raise_on_failure:
        return result.raise_for_status()
    if not result.status.ok or result.num_updates == 0:
        warning = result.status.explain()
    if warning:
        warnings.warn(warning, FitWarning, stacklevel=2)
    return result


def _complete(run: Run, show: Show, before: int) -> tuple[Fit, str]:
    """Let a run go on to its end; returns the fit and what is worth a warning."""
    records = Updates.none()
    try:
        for updates in run.updates():
            records.extend(updates)
            show(before + run.evaluator.spent, updates.elbo, updates.fisher)
    except KeyboardInterrupt:
        run.interrupt()
    assert run.status is not None
    trace = Trace(
        np.asarray(records.num_gradients, dtype=np.int64),
        *(np.asarray(column, dtype=np.float64) for column in records[1:]),
    )
    warning = run.conclude(trace.drift)
    fit = Fit(
        q=run.q,
        status=run.status,
        trace=trace,
        num_gradients=run.evaluator.spent,
        num_updates=run.num_updates,
        seconds=run.seconds,
        solver=repr(run.solver),
        seed=run.entropy,
        parameters=run.evaluator.target.parameters,
        bad_scores=run.evaluator.bad,
        notes=tuple(run.notes),
        target=run.evaluator.target,
    )
    return fit, warning


def iterate(
    target: Any,
    solver: str | Solver = "auto",
    *,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    batch_size: int | None = None,
    seed: Seed = 0,
    initial: Initial = None,
) -> Iterator[Step]:
    """Yield one :class:`Step` per update, for loops that decide themselves when to stop.

    The parameters are those of :func:`fit`; without a limit it goes on for ever. Raises
    :class:`scorevi.FitError` where :func:`fit` would end with ``diverged`` or ``bad-scores``, or
    without one update.

    Examples
    --------
    >>> import scorevi
    >>> target = scorevi.examples.eight_schools()
    >>> for step in scorevi.iterate(target, seed=0):
    ...     if step.num_gradients >= 100:
    ...         break
    >>> step.q.mean.shape
    (10,)
    """
    max_gradients, max_seconds = _limits(max_gradients, max_seconds)
    solver, initial = _resolve(solver, batch_size, initial)
    entropy = seed_entropy(seed)
    return _steps(
        _make_run(
            as_target(target), solver, max_gradients, max_seconds, entropy, initial, chunked=False
        )
    )


def _resolve(
    solver: str | Solver, batch_size: int | None, initial: Initial
) -> tuple[Solver, Initial]:
    """Return the solver, and what the start means with it."""
    if isinstance(solver, str) and solver == "auto":
        if initial is None:
            initial = "auto"
        elif not isinstance(initial, (str, Gaussian, Near)):
            initial = Near(initial)
    return make_solver(solver, batch_size), initial


def _steps(run: Run) -> Iterator[Step]:
    for updates in run.updates():
        for record in zip(*updates, strict=True):
            yield Step(run.q, *record, info=run.info)
    assert run.status is not None
    if not run.status.ok or (run.num_updates == 0 and run.status != "interrupted"):
        raise FitError(run.status.explain())
    if run.status == "interrupted":
        raise KeyboardInterrupt


def _limits(
    max_gradients: int | None, max_seconds: float | None
) -> tuple[int | None, float | None]:
    """Check the limits that a user gave."""
    if max_gradients is not None:
        max_gradients = as_count("max_gradients", max_gradients)
    if max_seconds is not None:
        is_number = isinstance(max_seconds, (int, float, np.number)) and max_seconds is not True
        if not is_number or math.isnan(max_seconds) or max_seconds <= 0:
            raise ValueError(f"`max_seconds` must be a positive number; got {max_seconds!r}.")
        max_seconds = float(max_seconds)
    return max_gradients, max_seconds


def _make_run(
    target: Target,
    solver: Solver,
    max_gradients: int | None,
    max_seconds: float | None,
    entropy: int,
    initial: Initial,
    *,
    chunked: bool,
) -> Run:
    size = solver.batch_size_for(target.dim)
    if max_gradients is not None and max_gradients < size and solver.compilable:
        raise ValueError(
            f"`max_gradients` must be at least the batch size, {size}; got {max_gradients}."
        )
    # Better now than after the work; not at zero, where a unit vector, for one, does not exist.
    target.variables.constrained(np.random.default_rng(0).uniform(-1, 1, (2, target.dim)))
    return Run(
        target,
        solver,
        entropy=entropy,
        initial=initial,
        max_gradients=max_gradients,
        max_seconds=max_seconds,
        chunked=chunked,
    )
