"""Two more studies: where to start, which the paper mentions, and the clock, which it does not."""

from __future__ import annotations

import dataclasses
from pathlib import Path
from typing import Any

from scorevi.base.extras import require
from scorevi.base.target import Target
from scorevi.families import Gaussian
from scorevi.studies.best import BestLine
from scorevi.studies.figures import ABOVE_BEST, draw_panels
from scorevi.studies.plan import Budgets, Line, Options, Problem, Study, fit_lines
from scorevi.studies.synthetic import SHAPES, NonGaussian, bent_in_jax, negative_elbo
from scorevi.studies.table import Table
from scorevi.targets import synthetic as examples
from scorevi.targets.jax import JaxTarget, from_jax

STARTS = {"N(0, I)": None, "mode, 0.1·I": "mode", "Laplace": "laplace", "L-BFGS": "lbfgs"}
"""What the paper suggests, by name."""
_GAUSSIANS = {f"Gaussian, D = {dim}": dim for dim in (16, 64)}
_LOGISTIC = {f"logistic regression, D = {dim}": dim for dim in (20, 50)}
_DIMENSIONS = {**_GAUSSIANS, **_LOGISTIC, "eight schools": 10}
_STARTED = ("Gaussian, D = 16", "logistic regression, D = 20", "eight schools")
_CASES = {f"{model}; {start}": (model, start) for model in _STARTED for start in STARTS}
"""The model and the start that a name of the study of starts stands for."""


class Initialization(Study):
    """The same fits from different starts, with what the start costs counted."""

    name = "initialization"
    title = "Where to start (a panel's gradients include those of the start)"
    metric = "negative ELBO"
    grouped = False

    def targets(self, options: Options) -> list[str]:
        """Return every target with every start."""
        if options.quick:
            return [f"{_STARTED[1]}; {start}" for start in ("N(0, I)", "Laplace")]
        return list(_CASES)

    def dim(self, target: str) -> int:
        """Return the dimension of the target before the semicolon."""
        return _DIMENSIONS[_CASES[target][0]]

    def problem(self, target: str, options: Options) -> Problem:
        """Return the target before the semicolon."""
        del options
        model = _model(_CASES[target][0])
        return Problem(model, {"negative ELBO": negative_elbo(model)}, per_decade=12)

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones from the start after the semicolon.

        In the place of N(0, I), ``auto`` begins where it chooses to.
        """
        budgets = Budgets(
            gsm=(5_000, 1_000), bbvi=(40_000, 2_000), bam=(5_000, 500), auto=(2_000, 300)
        )
        start = STARTS[_CASES[target][1]]
        lines = fit_lines(options, budgets, start, own_start=start is None)
        return [*lines, BestLine("best", draws=2_000 if options.quick else 20_000)]

    def draw(self, table: Table, folder: Path) -> None:
        """Draw a row for each target and a column for each start."""
        draw_panels(table, self, folder, ABOVE_BEST)


class Clock(Study):
    """The same accuracy in seconds."""

    name = "clock"
    title = "The same accuracy in seconds (without the time to compile)"
    metric = "negative ELBO"
    alone = True

    def targets(self, options: Options) -> list[str]:
        """Return four targets, from easy and large to skewed."""
        targets = ["Gaussian, D = 64", "logistic regression, D = 50", "s = 0.5", "t = 0.5"]
        return targets[2:3] if options.quick else targets

    def dim(self, target: str) -> int:
        """Return the dimension of a name; the skewed ones have ten."""
        return _DIMENSIONS.get(target, 10)

    def problem(self, target: str, options: Options) -> Problem:
        """Return the target in NumPy and in JAX."""
        if target in SHAPES:
            bent = NonGaussian().problem(target, options)
            model, compiled = bent.target, bent.compiled
        else:
            model, compiled = _model(target), _in_jax(target)
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

    def draw(self, table: Table, folder: Path) -> None:
        """Draw a panel for each target."""
        draw_panels(table, self, folder, dataclasses.replace(ABOVE_BEST, by="seconds"))


def _gaussian(dim: int) -> Gaussian:
    return examples.random_gaussian(dim, condition=40.0, seed=dim)


def _model(name: str) -> Target:
    if name in _GAUSSIANS:
        p = _gaussian(_GAUSSIANS[name])
        return examples.gaussian(p.mean, p.covariance)
    if name in _LOGISTIC:
        return examples.logistic_regression(_LOGISTIC[name])
    return examples.eight_schools()


def _in_jax(name: str) -> JaxTarget:
    if name in _GAUSSIANS:
        return bent_in_jax(_gaussian(_GAUSSIANS[name]), 0.0, 1.0)
    dim, jax = _LOGISTIC[name], require("jax")
    x, y = examples.logistic_data(dim)

    def log_density(beta: Any) -> Any:
        eta = jax.numpy.asarray(x) @ beta
        likelihood = eta @ jax.numpy.asarray(y) - jax.numpy.logaddexp(0.0, eta).sum()
        return likelihood - 0.5 * (beta @ beta)

    return from_jax(log_density, dim)
