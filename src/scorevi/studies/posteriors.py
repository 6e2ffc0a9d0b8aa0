"""The paper's study of real posteriors: Stan programs with the data of posteriordb."""

from __future__ import annotations

import math
import warnings
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.evaluate import Evaluator
from scorevi.base.status import FitWarning
from scorevi.base.target import named
from scorevi.families import Gaussian, as_gaussian
from scorevi.fit import fit
from scorevi.starts.climb import Ascent
from scorevi.studies.best_gaussian import BestLine
from scorevi.studies.figures import ABOVE_BEST
from scorevi.studies.metrics import elbo, even_noise, marginal_wasserstein, moment_errors
from scorevi.studies.plan import (
    Budgets,
    Line,
    Measure,
    Options,
    Outcome,
    Problem,
    Study,
    Value,
    fit_lines,
)
from scorevi.studies.posteriordb import EIGHT, Posterior, database, paired
from scorevi.targets.stan import StanTarget
from scorevi.trust.weights import smooth

NEAR_GAUSSIAN = (
    "diamonds-diamonds",
    "hudson_lynx_hare-lotka_volterra",
    "bball_drive_event_0-hmm_drive_0",
    "arK-arK",
)
"""The four of the eight that the paper fits well."""
_FROM_STANDARD_NORMAL = ("hudson_lynx_hare-lotka_volterra",)
_SLOW = (
    "bball_drive_event_0-hmm_drive_0",
    "hudson_lynx_hare-lotka_volterra",
    "low_dim_gauss_mix-low_dim_gauss_mix",
)
"""Programs that take a quarter of a millisecond for a point and more."""
_FEW, _MANY = 400, 2000
"""Draws on which the ELBO of those, and of the others, is measured."""
_NAMED_DRAWS = 1000
_CLIMBS = 16
_AT_MODE = "mode, 0.1·I"
VERDICTS = ("pass", "warn", "fail")
BY_DEFAULT = "auto, by default"


class Posteriors(Study):
    """Real posteriors from the mode, as in the paper, and by ``auto`` from its own start."""

    name = "posteriordb"
    title = "Posteriors of posteriordb"
    metric = "negative ELBO"
    axes = ABOVE_BEST
    grouped = False
    gradient_cost = 50.0

    def targets(self, options: Options) -> list[str]:
        """Return those asked for, or the paper's eight, the near-Gaussian ones first."""
        folder = database(options.database)
        if options.posteriors:
            for name in options.posteriors:
                Posterior(folder, name).has_reference  # noqa: B018  (refused if it is not there)
            return list(options.posteriors)
        if options.quick:
            return ["arK-arK", "eight_schools-eight_schools_noncentered"]
        return [*NEAR_GAUSSIAN, *(name for name in EIGHT if name not in NEAR_GAUSSIAN)]

    def problem(self, target: str, options: Options) -> Problem:
        """Compile the program; find the mode, from which the paper starts."""
        posterior = Posterior(database(options.database), target)
        model = posterior.target()
        draws = _FEW if target in _SLOW else _MANY
        z = even_noise(draws, model.dim)
        measures: dict[str, Measure] = {"negative ELBO": lambda q: -elbo(q, model, z)}
        at_end: dict[str, Measure] = {"k-hat": lambda q: _khat(q, model, z)}
        if posterior.has_reference:
            reference = posterior.reference()
            noise = even_noise(_NAMED_DRAWS, model.dim, seed=1)
            measures |= _moments(model, noise, reference)
            at_end["Wasserstein"] = lambda q: _distance(model, q, noise, reference)
        start = None if target in _FROM_STANDARD_NORMAL else at_mode(model)
        return Problem(
            model,
            measures,
            at_end,
            starts={_AT_MODE: start or Gaussian.standard(model.dim)},
            per_decade=8,
            marks=(1_000,),
        )

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones from the mode, the best Gaussian, and ``auto`` with its verdict."""
        del target
        budgets = Budgets(
            gsm=(10_000, 1_000), bbvi=(30_000, 2_000), bam=(5_000, 500), auto=(3_000, 1_000)
        )
        lines = fit_lines(options, budgets, _AT_MODE, own_start=True)
        lines.append(BestLine("best", draws=2_000 if options.quick else 8_000))
        if "auto" in options.solvers:
            lines.append(VerdictLine())
        return lines


def at_mode(target: StanTarget) -> Gaussian | None:
    """Return 0.1·I at the highest mode of several climbs; None where no climb finds one.

    A posterior such as that of the centered eight schools has no mode: its density grows for ever.
    """
    rng = np.random.default_rng(0)
    found: list[Ascent] = []
    for point in [np.zeros(target.dim), *rng.uniform(-2.0, 2.0, (_CLIMBS - 1, target.dim))]:
        ascent = Ascent(Evaluator(target))
        ascent.climb(point, at_most=500)
        if ascent.converged and ascent.path and np.linalg.norm(ascent.path[-1].score) < 1.0:
            found.append(ascent)
    if len(found) < _CLIMBS // 4:
        return None
    mode = max(found, key=lambda ascent: ascent.highest).path[-1].theta
    scale = math.sqrt(0.1)
    return Gaussian(mode, scale * np.eye(target.dim), target.dim * math.log(scale))


def _moments(model: StanTarget, noise: Array, reference: Mapping[str, Array]) -> dict[str, Measure]:
    """Return measures of the worst error of a mean and of a standard deviation, with one memory."""
    last: list[tuple[Gaussian, float, float]] = []

    def errors(q: Gaussian) -> tuple[Gaussian, float, float]:
        if not last or last[0][0] is not q:
            draws, theirs = paired(named(model, np.asarray(q.unwhiten(noise))), reference)
            worst = math.inf, math.inf
            if len(draws):
                worst = moment_errors(
                    draws.mean(axis=0), draws.std(axis=0), theirs.mean(axis=0), theirs.std(axis=0)
                )
            last[:] = [(q, *worst)]
        return last[0]

    return {"mean error": lambda q: errors(q)[1], "log sd error": lambda q: errors(q)[2]}


def _distance(
    model: StanTarget, q: Gaussian, noise: Array, reference: Mapping[str, Array]
) -> float:
    draws, theirs = paired(named(model, np.asarray(q.unwhiten(noise))), reference)
    return marginal_wasserstein(draws, theirs) if len(draws) else math.inf


def _khat(q: Gaussian, model: StanTarget, z: Array) -> float:
    theta = np.asarray(q.unwhiten(z))
    log_density = model.evaluate(theta).log_density
    assert log_density is not None
    return smooth(log_density - q.log_density(theta)).khat


@dataclass(frozen=True)
class VerdictLine:
    """What a user gets who asks for one Gaussian and nothing else, and its verdict."""

    label: str = BY_DEFAULT
    max_gradients: int = 10_000

    def seeds(self, runs: int) -> Sequence[int]:
        """Return the first seeds."""
        return range(runs)

    def run(self, problem: Problem, seeds: Sequence[int]) -> Iterator[Outcome]:
        """Fit, check and measure once."""
        for seed in seeds:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FitWarning)  # the verdict says it
                result = fit(problem.target, family="gaussian", seed=seed)
                verdict = result.check(seed=seed)
            found = {
                name: measure(as_gaussian(result.q)) for name, measure in problem.measures.items()
            }
            found["verdict"] = float(VERDICTS.index(str(verdict)))
            found["settled"] = float(result.status == "converged")
            spent, seconds = result.num_gradients, result.seconds
            values = [Value(spent, seconds, name, value) for name, value in found.items()]
            yield Outcome(seed, str(result.status), values)
