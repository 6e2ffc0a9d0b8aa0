"""The same accuracy in seconds, of which the paper says nothing."""

from __future__ import annotations

import dataclasses

from scorevi.studies.best_gaussian import BestLine
from scorevi.studies.figures import ABOVE_BEST
from scorevi.studies.models_by_name import MODEL_DIMENSIONS, model_by_name, model_in_jax
from scorevi.studies.plan import Budgets, Line, Options, Problem, Study, fit_lines
from scorevi.studies.synthetic import SHAPES, NonGaussian, negative_elbo


class Clock(Study):
    """The same accuracy in seconds."""

    name = "clock"
    title = "The same accuracy in seconds (without the time to compile)"
    metric = "negative ELBO"
    axes = dataclasses.replace(ABOVE_BEST, by="seconds")
    alone = True

    def targets(self, options: Options) -> list[str]:
        """Return four targets, from easy and large to skewed."""
        targets = ["Gaussian, D = 64", "logistic regression, D = 50", "s = 0.5", "t = 0.5"]
        return targets[2:3] if options.quick else targets

    def dim(self, target: str) -> int:
        """Return the dimension of a name; the skewed ones have ten."""
        return MODEL_DIMENSIONS.get(target, 10)

    def problem(self, target: str, options: Options) -> Problem:
        """Return the target in NumPy and in JAX."""
        if target in SHAPES:
            bent = NonGaussian().problem(target, options)
            model, compiled = bent.target, bent.compiled
        else:
            model, compiled = model_by_name(target), model_in_jax(target)
        measures = {"negative ELBO": negative_elbo(model)}
        return Problem(model, measures, compiled=compiled, per_decade=12)

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones, each run by itself."""
        del target
        budgets = Budgets(
            gsm=(20_000, 1_000), bbvi=(100_000, 2_000), bam=(10_000, 500), auto=(2_000, 300)
        )
        lines = fit_lines(options, budgets, together=False, chunked=True)
        return [*lines, BestLine("best", draws=8_000)]
