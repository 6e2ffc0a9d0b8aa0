"""Default fits with their verdicts, and the truth beside: zoo, held-out targets, eight, suite."""

from __future__ import annotations

import math
import multiprocessing
import os
import warnings
from collections.abc import Callable, Collection, Iterator
from concurrent.futures import ProcessPoolExecutor, as_completed
from functools import partial
from typing import NamedTuple

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.status import FitError, FitWarning
from scorevi.base.target import Target, named
from scorevi.fit import fit
from scorevi.results.fit import Fit
from scorevi.studies.held_out import held_out
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.best import noise_for
from scorevi.studies.hierarchies.truth import load_truth
from scorevi.studies.metrics import elbo, moment_errors
from scorevi.studies.posteriordb import EIGHT, Posterior, database, paired
from scorevi.studies.zoo import Animal, Moments, zoo

MEAN_OFF, SD_OFF = 0.3, 1.5
SUITES = ("zoo", "the eight", "held out", "hierarchies")
_DRAWS, _CHOSEN = 20_000, 4000
"""By which errors are taken: of q, and of draws that are resampled out of twice as many."""
_NOT_KNOWN = (math.nan, math.nan)

Errors = Callable[[Fit], tuple[float, float]]


class Trial(NamedTuple):
    """One fit, its verdict, and the truth."""

    suite: str
    target: str
    seed: int
    status: str
    gradients: int
    start: int
    """Gradients that were spent when the first update was made."""
    verdict: str
    evaluations: int
    """What the verdict took."""
    mean_off: float
    """The largest error of a mean, in standard deviations; NaN where there is no right answer."""
    sd_off: float
    """The largest factor by which a standard deviation is off."""
    below: float
    """Nats of ELBO below the best Gaussian; NaN where that is not known."""
    is_judged: bool
    """Whether the moments of the posterior, or that it has none, are known."""
    dim: int
    kind: str
    """The class of q."""
    resampled: tuple[float, float]
    """The same errors of draws that are corrected by weights; infinite where these are refused."""
    gaussian: tuple[float, float]
    """The same of one Gaussian, fitted with the same seed, of the first one; NaN for others."""
    reason: str
    """The first reason of the verdict."""

    @property
    def wrong(self) -> bool:
        """Whether the fit is wrong; one of what has no answer always is."""
        return not (self.mean_off <= MEAN_OFF and self.sd_off <= SD_OFF)


class Case(NamedTuple):
    """A target with its truth."""

    target: Target
    errors: Errors | None
    """Returns the largest errors of a fit; None where there is nothing to judge by."""
    best_elbo: float = math.nan
    errors_of_draws: Callable[[Array], tuple[float, float]] | None = None
    """The same of draws on the unconstrained scale, (n, D)."""


def cases(suite: str) -> dict[str, Callable[[], Case]]:
    """Return ways to make the targets of a suite, by name; the eight need PDB_PATH."""
    if suite == "hierarchies":
        return {name: partial(_hierarchy, name) for name in hierarchies()}
    if suite == "the eight":
        there = EIGHT if "PDB_PATH" in os.environ else ()
        return {name: partial(_posterior, name) for name in there}
    animals = zoo() if suite == "zoo" else held_out()
    return {name: partial(_animal, make) for name, make in animals.items()}


def trials(
    suites: tuple[str, ...],
    seeds: int,
    names: str = "",
    processes: int = 1,
    done: Collection[tuple[str, str]] = (),
) -> Iterator[Trial]:
    """Fit and check every target of which the name contains ``names``, in order of completion.

    Those that are ``done``, by suite and name, are left out.
    """
    # What takes longest begins first, so that no process waits for another at the end.
    order = sorted(suites, key=lambda suite: -SUITES.index(suite))
    jobs = [(suite, name) for suite in order for name in cases(suite) if names in name]
    jobs = [job for job in jobs if job not in done]
    if processes == 1:
        for job in jobs:
            yield from _trials(*job, seeds)
        return
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(processes, mp_context=context) as pool:
        for ended in as_completed([pool.submit(_trials, *job, seeds) for job in jobs]):
            yield from ended.result()


def _trials(suite: str, name: str, seeds: int) -> list[Trial]:
    case = cases(suite)[name]()
    return [_trial(suite, name, case, seed) for seed in range(seeds)]


def _trial(suite: str, name: str, case: Case, seed: int) -> Trial:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", FitWarning)  # the verdict says it
        result = fit(case.target, seed=seed)
        verdict = result.check(seed=seed)
        mean_off, sd_off, below = math.nan, math.nan, math.nan
        if result.num_updates and case.errors is not None:
            mean_off, sd_off = case.errors(result)
        if result.num_updates and not math.isnan(case.best_elbo):
            noise = noise_for(result.q.noise_width)
            below = case.best_elbo - elbo(result.q, case.target, noise)
        resampled = _resampled(result, case)
        gaussian = _NOT_KNOWN
        if seed == 0 and case.errors_of_draws is not None:
            one = fit(case.target, family="gaussian", seed=seed)
            gaussian = case.errors_of_draws(one.sample(_DRAWS, seed=0))
    spent = result.trace.num_gradients
    return Trial(
        suite=suite,
        target=name,
        seed=seed,
        status=str(result.status),
        gradients=result.num_gradients,
        start=int(spent[0]) if len(spent) else result.num_gradients,
        verdict=str(verdict),
        evaluations=verdict.num_evaluations,
        mean_off=mean_off,
        sd_off=sd_off,
        below=below,
        is_judged=case.errors is not None,
        dim=case.target.dim,
        kind=type(result.q).__name__,
        resampled=resampled,
        gaussian=gaussian,
        reason=verdict.reasons[0].text if verdict.reasons else "",
    )


def _resampled(fitted: Fit, case: Case) -> tuple[float, float]:
    """Return the errors of draws that are corrected by weights."""
    if case.errors_of_draws is None or not fitted.num_updates:
        return _NOT_KNOWN
    try:
        return case.errors_of_draws(fitted.resample(_CHOSEN, seed=1, proposals=2 * _CHOSEN).theta)
    except FitError:
        return math.inf, math.inf


def _animal(make: Callable[[], Animal]) -> Case:
    animal = make()
    of_draws = None if animal.truth is None else partial(_of_draws, truth=animal.truth)
    return Case(animal.target, partial(_errors, truth=animal.truth), errors_of_draws=of_draws)


def _posterior(name: str) -> Case:
    posterior = Posterior(database(), name)
    target, reference = posterior.target(), posterior.reference()
    of_draws = partial(_of_draws_by_name, target=target, reference=reference)
    return Case(target, partial(_errors_by_name, reference=reference), errors_of_draws=of_draws)


def _hierarchy(name: str) -> Case:
    truth = load_truth(name)
    if not truth.converged:
        return Case(hierarchies()[name](), None, truth.best_elbo)
    moments = Moments(truth.mean, truth.sd)
    errors, of_draws = partial(_errors, truth=moments), partial(_of_draws, truth=moments)
    return Case(hierarchies()[name](), errors, truth.best_elbo, of_draws)


def _errors(fit: Fit, truth: Moments | None) -> tuple[float, float]:
    if truth is None:
        return math.nan, math.nan
    return _worst(fit.q.mean, fit.q.sd, truth.mean, truth.sd)


def _errors_by_name(fit: Fit, reference: dict[str, np.ndarray]) -> tuple[float, float]:
    """Compare constrained draws with reference draws."""
    draws, theirs = paired(fit.draws(_DRAWS, seed=0), reference)
    return _worst(draws.mean(axis=0), draws.std(axis=0), theirs.mean(axis=0), theirs.std(axis=0))


def _of_draws(theta: Array, truth: Moments) -> tuple[float, float]:
    return _worst(theta.mean(axis=0), theta.std(axis=0), truth.mean, truth.sd)


def _of_draws_by_name(
    theta: Array, target: Target, reference: dict[str, np.ndarray]
) -> tuple[float, float]:
    draws, theirs = paired(named(target, theta, "parameters", 0), reference)
    return _worst(draws.mean(axis=0), draws.std(axis=0), theirs.mean(axis=0), theirs.std(axis=0))


def _worst(*moments: np.ndarray) -> tuple[float, float]:
    errors = moment_errors(*moments)
    return errors.mean, math.exp(errors.sd)
