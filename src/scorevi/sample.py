"""The front door to exact draws: ``sample``."""

from __future__ import annotations

import math
import time
from pathlib import Path
from typing import Any

from scorevi.base.arrays import Seed, as_count, as_seconds, is_positive, seed_entropy
from scorevi.base.progress import sampling_bar
from scorevi.base.status import FitError, warn_each_time
from scorevi.engine.checkpoint import open_checkpoint
from scorevi.making import Making
from scorevi.results.fit import Fit
from scorevi.results.sample import Sample
from scorevi.results.target_of import target_of
from scorevi.sampling.asked import CHAINS, Asked
from scorevi.sampling.drawing import METHODS, Method
from scorevi.sampling.keeping import Keeper
from scorevi.targets import as_target
from scorevi.targets.isolated import Isolation, evaluating

MOST = 200_000
"""Gradients, where no limit is given."""
_DRAWS_PER_EFFECTIVE = 1.25
"""Fewer draws than that can hardly be worth what was asked for."""


def sample(
    target: Any,
    draws: int = 1000,
    *,
    ess: float = 400.0,
    max_gradients: int | None = None,
    max_seconds: float | None = None,
    seed: Seed = 0,
    method: Method | None = None,
    chains: int = CHAINS,
    family: str = "auto",
    progress: bool | None = None,
    raise_on_failure: bool = False,
    checkpoint: str | Path | None = None,
    resume: bool = False,
    checkpoint_seconds: float = 10.0,
    isolate: bool = False,
    score_timeout: float | None = None,
    workers: int | None = None,
) -> Sample:
    """Draw from a posterior itself, by the cheapest way that is sound.

    A fit comes first. Where its importance weights are reliable, and nothing says that it lacks a
    part of the posterior, its draws are corrected by them: one evaluation each. Otherwise NUTS
    samples in the coordinates of the fit, in which it has nothing to learn but its step size.
    Where neither gets there within the limits, the verdict fails and says why.

    Parameters
    ----------
    target
        What :func:`scorevi.fit` takes, or a :class:`scorevi.Fit`. The target needs a log density.
    draws
        How many at least, of all chains together.
    ess
        How large the effective sample of every parameter is to be; there are at least 1.25 times
        as many draws.
    max_gradients
        The most gradients, those of a fit that is made here included; None for 200,000.
    max_seconds
        The most wall time, after which what is under way is ended.
    seed
        A whole number; the same seed gives the same bits on the same machine. None draws one.
    method
        ``"importance"`` or ``"nuts"`` to have that; None for what is cheapest.
    chains
        How many, at least four.
    family
        Of the fit; see :func:`scorevi.fit`. Where other modes are found beside a Gaussian, a
        mixture is fitted in any case.
    progress
        Whether to show a progress bar on standard error; None for only in a terminal or notebook.
    raise_on_failure
        Raise :class:`scorevi.FitError` instead of warning with :class:`scorevi.FitWarning` where
        the verdict is ``fail``.
    checkpoint, resume, checkpoint_seconds
        A file to keep the sample in while it is made, so that one that was killed goes on from
        there, to the same bits; see :func:`scorevi.fit`. The fit keeps itself in a file beside it,
        with ``.fit`` at the end of its name.
    isolate, score_timeout, workers
        Scores in processes of their own, as for :func:`scorevi.fit`; for a fit, as it was made,
        unless something else is said. Workers compute the points of all chains side by side.
        Without them, chains of a target in JAX run in compiled code where BlackJAX is installed.

    Returns
    -------
    Sample
        Whatever happens. ``sample.check()`` says whether to believe it.

    Examples
    --------
    >>> import scorevi
    >>> sample = scorevi.sample(scorevi.examples.eight_schools(), seed=0)
    >>> sample.method, sample.size, bool(sample.ess.min() >= 400)
    ('importance', 1000, True)
    """
    began = time.perf_counter()
    asked = _asked(draws, ess, seed, chains)
    most = MOST if max_gradients is None else as_count("max_gradients", max_gradients)
    seconds = as_seconds("max_seconds", max_seconds)
    if method is not None and method not in METHODS:
        known = ", ".join(f'"{one}"' for one in METHODS)
        raise ValueError(f"`method` must be one of {known}, or None; got {method!r}.")
    open_checkpoint(None, False, checkpoint_seconds)  # which refuses what is no time
    if resume and checkpoint is None:
        raise ValueError("`resume` needs `checkpoint`, the file to go on from; got None.")
    keeper = None if checkpoint is None else Keeper(checkpoint, checkpoint_seconds, resume)
    fit = target if isinstance(target, Fit) else None
    isolation = Isolation(isolate, score_timeout, workers)
    if fit is not None:
        target = target_of(fit, "so it cannot be sampled")
        isolation = fit.isolation if isolation == Isolation() else isolation
    target = as_target(target)
    if not target.has_log_density:
        raise ValueError(
            "`target` must have a log density to be sampled; this one has a score alone. Pass "
            "log_density= when making it."
        )
    with (
        evaluating(target, *isolation) as evaluated,
        sampling_bar(most, progress) as show,
    ):
        making = Making(evaluated, asked, method, most, began, seconds, keeper, show)
        result = making.run(fit, family, resume)
    # Not their workers, which are gone.
    result.target, result.isolation = target, isolation
    if result.fit is not None and result.fit is not fit:
        result.fit.target, result.fit.isolation = target, isolation
    verdict = result.check()
    if verdict == "fail":
        if raise_on_failure:
            raise FitError(verdict.explain(), result.fit)
        warn_each_time(f"{verdict.reasons[0].text}. {verdict.reasons[0].advice}".rstrip())
    return result


def _asked(draws: int, ess: float, seed: Seed, chains: int) -> Asked:
    """Check what a user asks for."""
    if not is_positive(ess):
        raise ValueError(f"`ess` must be a positive number; got {ess!r}.")
    return Asked(
        max(as_count("draws", draws), math.ceil(_DRAWS_PER_EFFECTIVE * ess)),
        float(ess),
        seed_entropy(seed),
        as_count("chains", chains, least=CHAINS),
    )
