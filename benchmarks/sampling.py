"""Gradients to exact draws: ``scorevi.sample`` beside nutpie, with its defaults and low rank.

Each run is brought to an effective sample of 400 in the worst parameter: what was fixed, as the
fit, what was looked at, and warm-up, counts whole, and of the rest as much as it takes. nutpie runs
as it does by default, once, with the first seed. Accuracy is against long reference runs, by every
parameter of every run: means within 0.1 sd, sds within 10 %, 5 and 95 % quantiles within 0.1 sd.

``python -m benchmarks sampling`` takes all targets and five seeds, which is hours;
``sampling-quick`` some, where nutpie draws 200 a chain after its whole warm-up. Names in
SCOREVI_TARGETS, with commas between them, are taken alone.
"""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator
from statistics import median
from typing import Any, NamedTuple

import jax
import numpy as np

import scorevi
from benchmarks.nuts import EFFECTIVE, Sampled, nutpie_to_effective
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.hierarchies.truth import LEVELS, load_truth
from scorevi.studies.posteriordb import EIGHT, Posterior, database, paired
from scorevi.studies.raw_units import regressions
from scorevi.studies.zoo import zoo
from scorevi.targets import Target

QUICK = (
    "meta-8-centered",
    "meta-8-noncentered",
    "hospitals-centered",
    "hospitals-noncentered",
    "plates-centered",
    "plates-noncentered",
    "schools-stan",
    "seeds-stan",
    "two-normals",
    "crossed-noncentered",
)
"""Hierarchies of up to 40 dimensions, both forms."""
HARD = ("Neal's funnel", "two modes, 50 : 50", "two modes, 90 : 10", "hard boundary", "ring")

Array = np.ndarray[tuple[int, ...], np.dtype[np.float64]]


Errors = tuple[Array, Array, Array]
"""Of means and of quantiles in sds, and in between of log sds, of each quantity."""
Reference = Callable[[Any], Errors]
"""From a sample to its errors."""


class Case(NamedTuple):
    """A target with what is true of it, if that is known."""

    name: str
    make: Callable[[], Target]
    reference: Callable[[], Reference | None]


class Run(NamedTuple):
    """What a sample came to."""

    gradients: float
    """To the effective sample."""
    seconds: float
    verdict: str
    method: str
    r_hat: float
    off: Errors | None


def sampling(seeds: int = 5, quick: bool = False) -> None:
    """Print a line for each target, and what it all comes to."""
    jax.config.update("jax_enable_x64", True)  # of which a switch for each call would cost
    print(f"Gradients to an effective sample of {EFFECTIVE} in the worst parameter (median of")
    print(f"{seeds} seeds), the fit's own included; seconds; ✗: R-hat above 1.01\n")
    print(
        "| target | D | sample | by | verdicts | nutpie | nutpie, low rank | / nutpie | "
        "/ low rank | worst mean, sd, quantile |\n" + "|---" * 10 + "|"
    )
    first, second, runs = [], [], []
    for case in _cases(quick):
        if not _is_chosen(case):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target, reference = case.make(), case.reference()
            target.evaluate(np.zeros((16, target.dim)))  # what is compiled is compiled before
            made = [_sample(target, seed, reference) for seed in range(seeds)]
            options: dict[str, Any] = {"draws": 200} if quick else {}
            plain, low_rank = _nutpie(target, options)
        ours = median(run.gradients for run in made)
        ratios = [ours / one.gradients for one in (plain, low_rank)]
        if np.isfinite(ours):
            first.append(ratios[0])
            second.append(ratios[1])
        runs += made
        row = [
            case.name,
            str(target.dim),
            f"{ours:.0f}, {median(run.seconds for run in made):.1f} s",
            " ".join(run.method or "–" for run in made),
            " ".join(run.verdict for run in made),
            str(plain),
            str(low_rank),
            *(f"{ratio:.2f}" for ratio in ratios),
            _worst(made),
        ]
        print("| " + " | ".join(row) + " |", flush=True)
    _conclude(first, second, runs)


def sampling_quick() -> None:
    """Print the same of some targets."""
    sampling(quick=True)


def sampling_accuracy() -> None:
    """Print how near larger samples come, of which errors of 0.1 are not those of chance.

    Of 400 effective draws the 95 % quantile has an error of 0.1 sd, of 2,000 one of 0.05.
    """
    print("Errors of samples with an effective size of 2,000, of quick targets, two seeds\n")
    print(
        "| target | by | verdicts | gradients | worst mean, sd, quantile |\n|---|---|---|---|---|"
    )
    runs = []
    for case in _cases(quick=True):
        reference = case.reference()
        if reference is None or not _is_chosen(case):
            continue
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            target = case.make()
            made = [_sample(target, seed, reference, 4000, 2000.0) for seed in range(2)]
        runs += made
        methods, verdicts = ([run[k] for run in made] for k in (3, 2))
        gradients = median(run.gradients for run in made)
        row = [case.name, " ".join(methods), " ".join(verdicts), f"{gradients:.0f}", _worst(made)]
        print("| " + " | ".join(row) + " |", flush=True)
    print()
    _accuracy(runs)


def sampling_hard() -> None:
    """Print what becomes of posteriors that cannot be sampled by either way, or only by one."""
    print("| target | seed | by | verdict | worst error of a mean, sds | of a log sd |")
    print("|---|---|---|---|---|---|")
    for name in HARD:
        animal = zoo()[name]()
        assert animal.truth is not None
        for seed in range(5):
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                sample = scorevi.sample(animal.target, seed=seed)
            if sample.size:
                mean = np.abs(sample.flat.mean(axis=0) - animal.truth.mean) / animal.truth.sd
                sd = np.abs(np.log(sample.flat.std(axis=0) / animal.truth.sd))
                errors = f"{mean.max():.2f} | {sd.max():.2f}"
            else:
                errors = "– | –"
            print(
                f"| {name} | {seed} | {sample.method} | {sample.check()} | {errors} |", flush=True
            )
    print()


def _cases(quick: bool) -> Iterator[Case]:
    if "PDB_PATH" in os.environ:
        folder = database()
        for name in EIGHT:
            posterior = Posterior(folder, name)
            yield Case(name, posterior.target, lambda one=posterior: _of_database(one))
    # Stan programs first, which are quick.
    for name, make in sorted(hierarchies().items(), key=lambda one: "-stan" not in one[0]):
        if name in QUICK or not quick:
            yield Case(name, make, lambda one=name: _of_hierarchy(one))
    for name, regression in regressions().items():
        yield Case(name, lambda one=regression: one.target, lambda: None)


def _is_chosen(case: Case) -> bool:
    chosen = os.environ.get("SCOREVI_TARGETS", "")
    return not chosen or case.name in chosen.split(",")


def _of_hierarchy(name: str) -> Reference | None:
    truth = load_truth(name)
    if not truth.converged:
        return None
    known = truth.quantiles[[LEVELS.index(0.05), LEVELS.index(0.95)]]
    return lambda sample: _errors(sample.flat, truth.mean, truth.sd, known)


def _of_database(posterior: Posterior) -> Reference | None:
    if not posterior.has_reference:
        return None
    reference = posterior.reference()

    def errors(sample: Any) -> Errors:
        draws, theirs = paired(sample.draws(), reference)
        known = np.quantile(theirs, [0.05, 0.95], axis=0)
        return _errors(draws, theirs.mean(axis=0), theirs.std(axis=0), known)

    return errors


def _errors(draws: Array, mean: Array, sd: Array, quantiles: Array) -> Errors:
    return (
        np.abs(draws.mean(axis=0) - mean) / sd,
        np.abs(np.log(draws.std(axis=0) / sd)),
        np.abs(np.quantile(draws, [0.05, 0.95], axis=0) - quantiles).max(axis=0) / sd,
    )


def _sample(
    target: Target,
    seed: int,
    reference: Reference | None,
    draws: int = 1000,
    effective: float = EFFECTIVE,
) -> Run:
    begin = time.perf_counter()
    sample = scorevi.sample(target, draws, ess=effective, seed=seed)
    seconds = time.perf_counter() - begin
    verdict = str(sample.check())
    if not sample.size:
        return Run(np.inf, seconds, verdict, sample.method, np.nan, None)
    drawn = sample.gradients["weights"] + sample.gradients.get("draws", 0)
    if sample.method == "nuts":
        drawn -= sample.gradients["weights"]
    needed = sample.num_gradients - drawn + drawn * min(1.0, effective / sample.ess.min())
    off = None if reference is None else reference(sample)
    r_hat = float(np.max(sample.rhat))
    enough = sample.status == "converged"
    return Run(needed if enough else np.inf, seconds, verdict, sample.method, r_hat, off)


def _nutpie(target: Target, options: dict[str, Any]) -> tuple[Sampled, Sampled]:
    low_rank = options | {"low_rank_modified_mass_matrix": True}
    return nutpie_to_effective(target, **options), nutpie_to_effective(target, **low_rank)


def _worst(made: list[Run]) -> str:
    known = [run.off for run in made if run.off is not None]
    if not known:
        return "–"
    return ", ".join(f"{max(off[k].max() for off in known):.2f}" for k in range(3))


def _conclude(first: list[float], second: list[float], runs: list[Run]) -> None:
    print(
        f"\nof nutpie's: median {median(first):.2f}, most {max(first):.2f}; of low rank's: median"
    )
    print(f"{median(second):.2f}, most {max(second):.2f}; {len(first)} targets with enough draws")
    _accuracy(runs)


def _accuracy(runs: list[Run]) -> None:
    passed = [run for run in runs if run.verdict == "pass"]
    print(f"{len(passed)} of {len(runs)} runs pass; R-hat of these at most", end=" ")
    print(f"{max(run.r_hat for run in passed):.4f}")
    for what, limit, place in (("means", 0.1, 0), ("sds", 0.1, 1), ("quantiles", 0.1, 2)):
        within = [run.off[place] <= limit for run in passed if run.off is not None]
        share = float(np.mean(np.concatenate(within)))
        whole = float(np.mean([one.all() for one in within]))
        print(f"{what} within {limit}: {share:.1%} of the parameters, all of them in {whole:.0%}")
    print()
