"""The study of hierarchies: the library's own, on targets of the shapes that people bring."""

from __future__ import annotations

import math
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from scorevi.studies.figures import ABOVE_BEST
from scorevi.studies.hierarchies.suite import hierarchies
from scorevi.studies.hierarchies.truth import load_truth
from scorevi.studies.metrics import elbo, even_noise, moment_errors
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
from scorevi.studies.posteriors import VerdictLine
from scorevi.targets.jax import JaxTarget

_DRAWS = 1000
"""On which the ELBO is measured."""
_QUICK = ("meta-8-centered", "plates-centered")


class Hierarchies(Study):
    """Hierarchies with simulated data: all solvers from N(0, I), ``auto`` from its own start."""

    name = "hierarchies"
    title = "Hierarchies"
    metric = "negative ELBO"
    axes = ABOVE_BEST
    grouped = False
    gradient_cost = 20.0

    def targets(self, options: Options) -> list[str]:
        """Return all of the suite, or two of them for a quick look."""
        return list(_QUICK if options.quick else hierarchies())

    def problem(self, target: str, options: Options) -> Problem:
        """Make the target; its moments are measured where NUTS has converged."""
        del options
        model, truth = hierarchies()[target](), load_truth(target)
        z = even_noise(_DRAWS, model.dim)
        measures: dict[str, Measure] = {"negative ELBO": lambda q: -elbo(q, model, z)}
        if truth.converged:
            measures |= {
                "mean error": lambda q: moment_errors(q.mean, q.sd, truth.mean, truth.sd).mean,
                "log sd error": lambda q: moment_errors(q.mean, q.sd, truth.mean, truth.sd).sd,
            }
        compiled = model if isinstance(model, JaxTarget) else None
        return Problem(model, measures, compiled=compiled, per_decade=4, marks=(1_000,))

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones, the best Gaussian, and ``auto`` as users have it."""
        budgets = Budgets(
            gsm=(10_000, 1_000), bbvi=(30_000, 2_000), bam=(10_000, 500), auto=(10_000, 1_000)
        )
        lines = fit_lines(options, budgets, own_start=True, together=False, chunked=True)
        lines.append(KnownBest("best", target))
        if "auto" in options.solvers:
            lines.append(VerdictLine())
        return lines

    def dim(self, target: str) -> int:
        """Return how many dimensions a target has."""
        return len(load_truth(target).labels)


@dataclass(frozen=True)
class KnownBest:
    """The best Gaussian, found once and for all by :mod:`scorevi.studies.hierarchies.best`."""

    label: str
    target: str
    max_gradients: int = 0

    def seeds(self, runs: int) -> Sequence[int]:
        """Return one seed: nothing is left to chance."""
        del runs
        return (0,)

    def run(self, problem: Problem, seeds: Sequence[int]) -> Iterator[Outcome]:
        """Return what is known."""
        del problem
        best = load_truth(self.target).best_elbo
        for seed in seeds:
            value = math.inf if math.isnan(best) else -best
            yield Outcome(seed, "done", [Value(0, 0.0, "negative ELBO", value)])
