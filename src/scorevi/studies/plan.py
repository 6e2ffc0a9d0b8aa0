"""What a study is made of: problems, and the lines that are drawn for each."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, NamedTuple, Protocol

from scorevi.base.target import Target
from scorevi.families import Gaussian
from scorevi.solvers import BBVI, GSM, BaM, Replay, Solver
from scorevi.studies import SOLVER_NAMES
from scorevi.studies.course import Moment, checkpoints, follow, follow_together
from scorevi.studies.figures import Axes, draw_panels
from scorevi.studies.table import Table
from scorevi.targets.jax import JaxTarget

RATES = (1e-1, 1e-2, 1e-3)
"""The learning rates that the paper chooses from."""
_LARGEST_LANE = 32
"""Larger batches do enough work in a step by themselves."""


@dataclass(frozen=True)
class Options:
    """What was asked for."""

    runs: int = 10
    quick: bool = False
    solvers: tuple[str, ...] = SOLVER_NAMES
    database: Path | None = None
    posteriors: tuple[str, ...] = ()
    """Names of posteriors in the database, in place of the paper's eight."""


Measure = Callable[[Gaussian], float]


@dataclass(frozen=True)
class Problem:
    """A target, and how fits of it are measured."""

    target: Target
    measures: Mapping[str, Measure]
    """Metrics at every checkpoint, by name."""
    at_end: Mapping[str, Measure] = field(default_factory=dict)
    """Metrics at the end."""
    compiled: JaxTarget | None = None
    """The same target in JAX, for solvers that take many small steps."""
    starts: Mapping[str, Gaussian] = field(default_factory=dict)
    """Starts that lines may ask for by name."""
    per_decade: int = 16
    marks: tuple[int, ...] = ()
    """Numbers of gradients that must be among the checkpoints."""

    def grid(self, most: int) -> list[int]:
        """Return the checkpoints up to a number of gradients."""
        return checkpoints(most, self.per_decade, self.marks)


class Value(NamedTuple):
    """What a run found, at one checkpoint and for one metric."""

    gradients: int
    seconds: float
    metric: str
    value: float


class Outcome(NamedTuple):
    """A finished run."""

    seed: int
    status: str
    values: list[Value]


class Line(Protocol):
    """What is run from each seed: a solver with its budget and start, as a rule."""

    @property
    def label(self) -> str:
        """The name that its rows have."""
        ...

    @property
    def max_gradients(self) -> int:
        """Its budget."""
        ...

    def seeds(self, runs: int) -> Sequence[int]:
        """Return the seeds to run, of so many that are asked for."""
        ...

    def run(self, problem: Problem, seeds: Sequence[int]) -> Iterator[Outcome]:
        """Run from these seeds."""
        ...


@dataclass(frozen=True)
class FitLine:
    """Fits by one solver."""

    label: str
    solver: Solver
    max_gradients: int
    initial: str | None = None
    together: bool = True
    """Whether seeds may run in one compiled loop, where that is possible."""
    chunked: bool = False
    """Whether a single run may go through the engine's compiled loop."""

    def seeds(self, runs: int) -> Sequence[int]:
        """Return the first seeds."""
        return range(runs)

    def run(self, problem: Problem, seeds: Sequence[int]) -> Iterator[Outcome]:
        """Run together what can be, and the others one by one."""
        left = list(seeds)
        size = self.solver.batch_size_for(problem.target.dim)
        if (
            self.together
            and self.solver.compilable
            and problem.compiled is not None
            and self.initial is None
            and size <= _LARGEST_LANE
        ):
            for outcome in self._together(problem, problem.compiled, left):
                left.remove(outcome.seed)
                yield outcome
        for seed in left:
            yield self._alone(problem, seed)

    def _together(
        self, problem: Problem, target: JaxTarget, seeds: Sequence[int]
    ) -> Iterator[Outcome]:
        grid = problem.grid(self.max_gradients)
        start = Gaussian.standard(target.dim)
        values: dict[int, list[Value]] = {seed: [] for seed in seeds}
        last: dict[int, Moment] = {}
        for last in follow_together(target, self.solver, grid, seeds, start):
            for seed, moment in last.items():
                values[seed] += measured(moment, problem.measures)
        for seed, moment in last.items():
            values[seed] += measured(moment, problem.at_end)
            yield Outcome(seed, "budget", values[seed])

    def _alone(self, problem: Problem, seed: int) -> Outcome:
        grid = problem.grid(self.max_gradients)
        initial: Any = problem.starts.get(self.initial or "", self.initial)
        many = self.chunked and problem.compiled is not None and self.solver.compilable
        target = problem.compiled if many else problem.target
        assert target is not None
        course = follow(target, self.solver, grid, seed=seed, initial=initial, chunked=many)
        values: list[Value] = []
        moment = None
        while True:
            try:
                moment = next(course)
            except StopIteration as end:
                status = end.value
                break
            values += measured(moment, problem.measures)
        if status in ("diverged", "bad-scores"):
            # Not where it was last seen, but nowhere: no level may count as held to the end.
            seconds = 0.0 if moment is None else moment.seconds
            lost = [*problem.measures, *problem.at_end]
            values += [Value(self.max_gradients, seconds, name, math.inf) for name in lost]
        elif moment is not None:
            values += measured(moment, problem.at_end)
        return Outcome(seed, status, values)


def measured(moment: Moment, measures: Mapping[str, Measure]) -> list[Value]:
    """Apply measures to a moment."""
    return [
        Value(moment.gradients, moment.seconds, name, measure(moment.q))
        for name, measure in measures.items()
    ]


class Budgets(NamedTuple):
    """The most gradients that each solver may spend: in full, and in a quick look."""

    gsm: tuple[int, int]
    bbvi: tuple[int, int]
    bam: tuple[int, int]
    auto: tuple[int, int]

    def most(self, solver: str, quick: bool) -> int:
        """Return the budget of a solver, by its name."""
        full, few = self._asdict()[solver]
        return int(few if quick else full)


def fit_lines(
    options: Options,
    budgets: Budgets,
    initial: str | None = None,
    *,
    own_start: bool = False,
    **more: Any,
) -> list[Line]:
    """Return the usual lines, BBVI with each learning rate.

    Parameters
    ----------
    options
        Which solvers take part, and whether in a quick look.
    budgets
        The most gradients of each.
    initial
        The start; N(0, I) if left out, as in the paper.
    own_start
        Whether ``auto`` begins where it chooses to, as it does for users, and pays for it.
    more
        Handed on to :class:`FitLine`.
    """
    lines: list[Line] = []
    for name in options.solvers:
        most = budgets.most(name, options.quick)
        if name == "bbvi":
            lines += [
                FitLine(f"bbvi {rate:g}", BBVI(learning_rate=rate), most, initial, **more)
                for rate in RATES
            ]
        elif name == "auto":
            start = "auto" if own_start else initial
            lines.append(FitLine("auto", Replay(), most, start, **more))
        else:
            solver = GSM() if name == "gsm" else BaM()
            lines.append(FitLine(name, solver, most, initial, **more))
    return lines


class Study(ABC):
    """An experiment: its targets, the problem of each, the lines for it, and the figure."""

    name: ClassVar[str]
    title: ClassVar[str]
    metric: ClassVar[str]
    """The metric that its figure shows."""
    grouped: ClassVar[bool] = True
    """Whether the seeds of a line are one job, because they can run in one compiled loop."""
    alone: ClassVar[bool] = False
    """Whether its runs are timed, so that nothing else may run beside them."""
    axes: ClassVar[Axes] = Axes(lowest=1e-9)
    """What the panels of its figure have in common."""
    gradient_cost: ClassVar[float] = 1.0
    """What a gradient of its targets costs, compared with those of other studies."""

    @abstractmethod
    def targets(self, options: Options) -> list[str]:
        """Return the names of its targets, one for each panel."""

    @abstractmethod
    def problem(self, target: str, options: Options) -> Problem:
        """Make the problem of a target."""

    @abstractmethod
    def lines(self, target: str, options: Options) -> list[Line]:
        """Return what is run on a target."""

    def dim(self, target: str) -> int:
        """Return about how many dimensions a target has, without making it."""
        del target
        return 10

    def draw(self, table: Table, folder: Path) -> None:
        """Draw the figure into a folder: a panel for each target."""
        draw_panels(table, self, folder, self.axes)
