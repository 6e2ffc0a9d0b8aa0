"""Where to start, which the paper mentions: the same fits from different starts."""

from __future__ import annotations

from scorevi.studies.best_gaussian import BestLine
from scorevi.studies.figures import ABOVE_BEST
from scorevi.studies.models_by_name import MODEL_DIMENSIONS, model_by_name
from scorevi.studies.plan import Budgets, Line, Options, Problem, Study, fit_lines
from scorevi.studies.synthetic import negative_elbo

STARTS = {"N(0, I)": None, "mode, 0.1·I": "mode", "Laplace": "laplace", "L-BFGS": "lbfgs"}
"""What the paper suggests, by name."""
_STARTED = ("Gaussian, D = 16", "logistic regression, D = 20", "eight schools")
_CASES = {f"{model}; {start}": (model, start) for model in _STARTED for start in STARTS}
"""The model and the start that a name of the study of starts stands for."""


class Initialization(Study):
    """The same fits from different starts, with what the start costs counted."""

    name = "initialization"
    title = "Where to start (a panel's gradients include those of the start)"
    metric = "negative ELBO"
    axes = ABOVE_BEST
    grouped = False

    def targets(self, options: Options) -> list[str]:
        """Return every target with every start."""
        if options.quick:
            return [f"{_STARTED[1]}; {start}" for start in ("N(0, I)", "Laplace")]
        return list(_CASES)

    def dim(self, target: str) -> int:
        """Return the dimension of the target before the semicolon."""
        return MODEL_DIMENSIONS[_CASES[target][0]]

    def problem(self, target: str, options: Options) -> Problem:
        """Return the target before the semicolon."""
        del options
        model = model_by_name(_CASES[target][0])
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
