"""The front door: ``fit`` and ``iterate``."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple, cast

import numpy as np

from scorevi.base.arrays import Seed, as_count, as_seconds, is_positive, seed_entropy
from scorevi.base.fitting import Limits, fitting_bar
from scorevi.base.status import FitError, warn_each_time
from scorevi.base.target import opened
from scorevi.engine.checkpoint import Keeping, open_checkpoint
from scorevi.engine.run import Run
from scorevi.engine.settings import Settings
from scorevi.engine.showing import Showing
from scorevi.engine.stopping import TOLERANCE, StopRule, stop_rules
from scorevi.families import Approximation, Gaussian, LowRank
from scorevi.results.best_of import best_of
from scorevi.results.best_of import rank as rank_of
from scorevi.results.fit import Fit
from scorevi.results.of_run import of_run
from scorevi.results.origin import origin_of
from scorevi.results.restarting import placed, restarts_of
from scorevi.solvers import HasVariants, Solver, make_solver, of_family
from scorevi.solvers.room import within_memory
from scorevi.starts.start import Initial, Near
from scorevi.targets import Target, as_target
from scorevi.targets.isolated import Isolation, evaluating


class Step(NamedTuple):
    """One update, as :func:`iterate` yields it."""

    q: Approximation
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
    max_gradients: int | None = 10_000,
    max_seconds: float | None = None,
    batch_size: int | None = None,
    seed: Seed = 0,
    initial: Initial = None,
    family: str = "auto",
    components: int | None = None,
    rank: int | None = None,
    stop: bool = True,
    tolerance: float = TOLERANCE,
    restarts: int = 0,
    progress: bool | None = None,
    raise_on_failure: bool = False,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 10.0,
    isolate: bool = False,
    score_timeout: float | None = None,
    workers: int | None = None,
    client: Any = None,
) -> Fit:
    """Fit a Gaussian, or as many as it takes, to a target.

    Parameters
    ----------
    target
        A target, from :func:`scorevi.from_function`, ``from_jax``, ``from_numpyro``, ``from_pymc``,
        ``from_stan`` or ``from_shards``; a PyMC model; or an object with ``dim`` and ``score``.
    solver
        ``"auto"``, a name, ``"replay"``, ``"gsm"``, ``"bam"``, ``"bbvi"`` or ``"low-rank"``, or a
        solver such as ``scorevi.GSM(batch_size=2)``.
    max_gradients
        The most points at which the score is asked for, the start's included: a ceiling, which is
        never exceeded. None where max_seconds, or the stop rule alone, decides.
    max_seconds
        The most wall time; a step under way is finished, and for JAX targets a chunk of steps of
        about a tenth of a second. The time to compile a JAX target is not counted.
    batch_size
        Draws per update; the solver's default if left out.
    seed
        A whole number; the same seed gives the same bits on the same machine. None draws one.
    initial
        Where to start: None for ``"auto"`` where the solver is ``"auto"``, else N(0, I);
        ``"auto"``, the best of several candidates (:mod:`scorevi.starts.chosen`); a Gaussian; a
        point, with identity covariance around it, which for the solver ``"auto"`` is where the
        choice begins: a vector on the unconstrained scale, or a dict with the values of all
        parameters on the model's own scale, ``{"mu": 0.0, "sigma": 2.0}``, and for a target by
        ``from_jax`` what its log density takes; ``"mode"``, 0.1·I at the mode; ``"laplace"``;
        ``"lbfgs"``, the mode with the optimiser's inverse Hessian.
    family
        ``"auto"``, one Gaussian first, and where its draws say that it is not the posterior,
        more: a Gaussian given a few parameters, where the scores say that there are such
        (:mod:`scorevi.solvers.nesting`), else as many Gaussians as they ask for
        (:mod:`scorevi.solvers.mixing`), up to 256 dimensions; ``"gaussian"``, one Gaussian;
        ``"mixture"``, a mixture, and other modes are looked for in any case. More than one takes
        the solver ``"auto"``, or ``"replay"`` and ``"mixture"``, and a target with a log density;
        the solvers of the paper fit one Gaussian. For dimensions in which no matrix fits:
        ``"low-rank"``, a diagonal and ``rank`` directions, and ``"diagonal"`` (mean field), in
        memory O(D·rank). ``"auto"`` takes the first where one Gaussian would not fit into memory;
        the others then refuse.
    components
        The most components of a mixture; as many as the dimension allows if left out.
    rank
        The most directions of ``family="low-rank"``; 16 if left out.
    stop
        Whether to stop when nothing is left to gain (:mod:`scorevi.engine.stopping`). False goes on
        to the limit.
    tolerance
        How near the best Gaussian is near enough: of means in posterior standard deviations, and of
        the standard deviations themselves as a share. Smaller asks for more gradients.
    restarts
        How many more fits to make from starts of their own, each with the same limits, its clock
        running from its own beginning. They run side by side in threads where the target takes more
        than two milliseconds a call and may be evaluated by several at once: JAX and NumPyro, Stan,
        ``from_function(thread_safe=True)``, and with ``isolate`` or ``workers`` all; others one
        after another. The best is returned, by ELBO or, without a log density, by Fisher residual;
        ``fit.restarts`` has the others, and ``fit.check()`` says whether they agree.
    progress
        Whether to show a progress bar on standard error; None for only in a terminal or notebook.
    raise_on_failure
        Raise :class:`scorevi.FitError`, which carries the fit, instead of warning with
        :class:`scorevi.FitWarning` when the fit fails.
    checkpoint
        A file to keep the fit in while it runs, so that one that was killed can go on from there.
        One evaluation of the target, beside the budget, tells it from others.
    resume
        Go on from the checkpoint, to the same bits as if the fit had never stopped; with wider
        limits than before, on from where it ended. The file of another fit, or a damaged one, is
        refused. Where there is none, the fit begins at the beginning.
    checkpoint_seconds
        The time between two writings of the checkpoint.
    isolate
        Compute the scores in another process. Where it crashes the point counts as a bad score,
        and another process goes on. Points are evaluated one by one. What evaluates the target
        after the fit, such as ``fit.check()``, does so in the same way.
    score_timeout
        The most seconds that a point may take, after which it counts as a bad score. Implies
        ``isolate``.
    workers
        In how many processes to compute the scores of a batch; the result does not depend on it.
        Implies ``isolate``.
    client
        A ``distributed.Client``, or the address of a Dask scheduler, ``"tcp://10.0.0.1:8786"``:
        where the shards of a target by ``from_shards`` lie, and for others where the restarts run.

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
    arguments = dict(locals())
    if max_gradients is None and max_seconds is None:
        raise ValueError(
            "`max_gradients` must be a whole number >= 1, or None only with max_seconds; got None."
        )
    max_gradients, max_seconds = _limits(max_gradients, max_seconds)
    restarts = as_count("restarts", restarts, least=0)
    solver, initial = resolve(solver, batch_size, initial, family, components, rank)
    target = as_target(target)
    if client is not None:
        target, client = placed(target, client, restarts)
    solver, note = within_memory(solver, family, target.dim)
    variants = solver.variants() if isinstance(solver, HasVariants) else (solver,)
    keeper = open_checkpoint(checkpoint, resume, checkpoint_seconds)
    if keeper is not None and restarts:
        raise ValueError(
            f"`restarts` must be 0 with `checkpoint`, which holds one run; got {restarts}. Make "
            "the fits one by one, each with its own seed and checkpoint."
        )
    if not is_positive(tolerance):
        raise ValueError(f"`tolerance` must be a positive number; got {tolerance!r}.")
    rule = partial(stop_rules, target.dim, float(tolerance), solver, ends=stop)
    entropy = seed_entropy(seed) if keeper is None else keeper.entropy(seed)
    isolation = Isolation(isolate, score_timeout, workers)
    limits = Limits(max_gradients, max_seconds, float(tolerance) if stop else None)
    made: list[tuple[Fit, str]] = []
    with (
        evaluating(target, *isolation) as evaluated,
        fitting_bar(limits, progress) as show,
    ):
        if keeper is not None:
            keeper.bind(evaluated, solver, variants, entropy, initial)
        settings = Settings(
            entropy,
            initial,
            None if max_gradients is None else max_gradients // len(variants),
            None if max_seconds is None else max_seconds / len(variants),
            chunked=True,
        )
        for number, variant in enumerate(variants):
            run = make_run(evaluated, variant, settings)
            keeping = [] if keeper is None else [Keeping(keeper, number)]
            others = restarts_of(run, restarts, rule, client)
            with others.beside() as watching:
                before = sum(fit.num_gradients for fit, _ in made)
                run.complete(*keeping, Showing(show, before), *watching, *rule())
                rest = others.made()
                made += [of_run(run), *rest]
            if run.status == "interrupted" or others.interrupted:
                break
    result, warning = max(made, key=lambda one: rank_of(one[0]))
    asked = len(variants) * (1 + restarts)
    if asked > 1:
        result = best_of([fit for fit, _ in made], result, asked)
    # Not its workers, which are gone.
    origin = origin_of(fit, arguments, entropy, target)
    result = dataclasses.replace(result, target=target, isolation=isolation, origin=origin)
    if note:
        result = dataclasses.replace(result, notes=(note, *result.notes))
    if raise_on_failure:
        return result.raise_for_status()
    if not result.status.ok or result.num_updates == 0:
        warning = result.status.explain()
    if warning:
        warn_each_time(warning)
    return result


def iterate(
    target: Any,
    solver: str | Solver = "auto",
    *,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    batch_size: int | None = None,
    seed: Seed = 0,
    initial: Initial = None,
    family: str = "auto",
    components: int | None = None,
    rank: int | None = None,
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
    solver, initial = resolve(solver, batch_size, initial, family, components, rank)
    target = as_target(target)
    solver, _ = within_memory(solver, family, target.dim)
    settings = Settings(seed_entropy(seed), initial, max_gradients, max_seconds)
    run = make_run(target, solver, settings)
    return _steps(run, *stop_rules(target.dim, TOLERANCE, solver, ends=False))


def resolve(
    solver: str | Solver,
    batch_size: int | None,
    initial: Initial,
    family: str = "auto",
    components: int | None = None,
    rank: int | None = None,
) -> tuple[Solver, Initial]:
    """Return the solver, and what the start means with it."""
    is_auto = isinstance(solver, str) and solver == "auto"
    if family == "auto" and not is_auto and components is None:
        family = "gaussian"  # who names a solver has what that one fits
    if is_auto:
        if initial is None:
            initial = "auto"
        elif not isinstance(initial, (str, Gaussian, LowRank, Near)):
            initial = Near(initial)
    return of_family(make_solver(solver, batch_size), family, components, rank), initial


def _steps(run: Run, *rules: StopRule) -> Iterator[Step]:
    with opened(run.evaluator.target):
        for updates in run.updates(*rules):
            for record in zip(*updates, strict=True):
                yield Step(cast("Approximation", run.q), *record, info=run.info)
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
    return max_gradients, as_seconds("max_seconds", max_seconds)


def make_run(target: Target, solver: Solver, settings: Settings) -> Run:
    """Return a run that is ready to begin, its limits checked; see :class:`Run`."""
    size, most = solver.batch_size_for(target.dim), settings.max_gradients
    if most is not None and most < size and solver.compilable:
        raise ValueError(f"`max_gradients` must be at least the batch size, {size}; got {most}.")
    # Better now than after the work; not at zero, where a unit vector, for one, does not exist.
    target.variables.constrained(np.random.default_rng(0).uniform(-1, 1, (2, target.dim)))
    return Run(target, solver, settings)
