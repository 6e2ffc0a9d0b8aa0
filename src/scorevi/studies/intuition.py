"""The first figure of the paper: what an update does, in one dimension."""

from __future__ import annotations

import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.noise import Noise
from scorevi.base.target import Target
from scorevi.families import Gaussian
from scorevi.solvers import GSM
from scorevi.solvers.base import Batch
from scorevi.studies.figures import COLOURS, new_figure, save, tidy
from scorevi.studies.plan import Line, Options, Outcome, Problem, Study, Value
from scorevi.studies.table import Table
from scorevi.targets import synthetic as examples

_UPDATES, _FIELD = "two updates", "vector field"
_START = -2.0, 2.0
_AVERAGED = 5
_TARGET = 1.0, 1.5
"""Mean and standard deviation of the target of the two updates."""
_BLUE, _GREEN, _RED = COLOURS["gsm"], COLOURS["bam"], "#c0392b"
_GREYS = ("#bdbdbd", "#7d7d7d", "#222222")


class Intuition(Study):
    """Two updates with their tangents, and the vector field of the update for N(0, 1)."""

    name = "intuition"
    title = "Gaussian score matching in one dimension"
    metric = "mean"

    def targets(self, options: Options) -> list[str]:
        """Return the two panels."""
        del options
        return [_UPDATES, _FIELD]

    def problem(self, target: str, options: Options) -> Problem:
        """Return the Gaussian of a panel, in one dimension."""
        del options
        mean, sd = _TARGET if target == _UPDATES else (0.0, 1.0)
        return Problem(examples.gaussian([mean], [[sd**2]]), {})

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return GSM with one draw, and with five from each point of a grid."""
        points = 11 if options.quick else 15
        return [UpdateLine() if target == _UPDATES else FieldLine(points=points)]

    def draw(self, table: Table, folder: Path) -> None:
        """Draw both panels."""
        figure = new_figure(10.5, 4.4)
        left, right = figure.subplots(1, 2, width_ratios=[1.15, 1])
        _draw_updates(left, table)
        _draw_field(right, table)
        figure.suptitle(self.title, fontsize=11)
        save(figure, folder, self.name)


@dataclass(frozen=True)
class UpdateLine:
    """Two updates from one draw each."""

    label: str = "gsm"
    max_gradients: int = 2

    def seeds(self, runs: int) -> Sequence[int]:
        """Return one seed."""
        del runs
        return (1,)

    def run(self, problem: Problem, seeds: Sequence[int]) -> Iterator[Outcome]:
        """Record q before each update and after the last, the draws, and the scores there."""
        for seed in seeds:
            noise = Noise(seed, 1)
            q = Gaussian(np.array(_START[:1]), np.array([[_START[1]]]))
            values: list[Value] = []
            began = time.perf_counter()
            for step in range(3):
                found = {"mean": float(q.mean[0]), "sd": float(q.sd[0])}
                if step < 2:
                    z = noise.take(1)
                    found |= {
                        "draw": float(q.unwhiten(z)[0, 0]),
                        "score": float(problem.target.evaluate(q.unwhiten(z)).score[0, 0]),
                    }
                    q = updated(q, problem.target, z)
                seconds = time.perf_counter() - began
                values += [Value(step, seconds, name, value) for name, value in found.items()]
            yield Outcome(seed, "done", values)


@dataclass(frozen=True)
class FieldLine:
    """The update from every point of a grid; the seed counts the points."""

    points: int
    label: str = "gsm"
    max_gradients: int = _AVERAGED

    def seeds(self, runs: int) -> Sequence[int]:
        """Return a number for each point."""
        del runs
        return range(self.points**2)

    def run(self, problem: Problem, seeds: Sequence[int]) -> Iterator[Outcome]:
        """Record where q was, and where five draws, averaged, would move it."""
        for seed in seeds:
            row, column = divmod(seed, self.points)
            mean = -2.0 + 4.0 * column / (self.points - 1)
            sd = 0.25 + 2.0 * row / (self.points - 1)
            began = time.perf_counter()
            q = Gaussian(np.array([mean]), np.array([[sd]]))
            moved = updated(q, problem.target, Noise(seed, 1).take(_AVERAGED))
            seconds = time.perf_counter() - began
            found = {
                "mean": mean,
                "sd": sd,
                "new mean": float(moved.mean[0]),
                "new sd": float(moved.sd[0]),
            }
            values = [Value(_AVERAGED, seconds, name, value) for name, value in found.items()]
            yield Outcome(seed, "done", values)


def updated(q: Gaussian, target: Target, z: Array) -> Gaussian:
    """Return q after one step of GSM on the noise z."""
    solver = GSM(batch_size=len(z))
    points = q.points(z)
    evaluation = target.evaluate(points.theta)
    batch = Batch.of(q, points, evaluation.score, evaluation.log_density)
    return solver.step(solver.init(q), batch)[0].q


def _draw_updates(place: Any, table: Table) -> None:
    """Draw log densities, and where they are made to have the same slope."""
    found = {
        name: table.curves(_UPDATES, "gsm", name)[0].values
        for name in ("mean", "sd", "draw", "score")
    }
    x = np.linspace(-4.5, 6.0, 400)
    place.fill_between(
        x, -8, _log_normal(x, *_TARGET), color=_BLUE, alpha=0.25, lw=0, label="log p"
    )
    for step, (mean, sd) in enumerate(zip(found["mean"], found["sd"], strict=True)):
        place.plot(x, _log_normal(x, mean, sd), color=_GREYS[step], lw=1.8, label=f"log q{step}")
    for step, (draw, score) in enumerate(zip(found["draw"], found["score"], strict=True)):
        for mean, sd in (_TARGET, (found["mean"][step + 1], found["sd"][step + 1])):
            height = _log_normal(np.array([draw]), mean, sd)[0]
            near = np.array([draw - 0.8, draw + 0.8])
            place.plot(near, height + score * (near - draw), color=_RED, lw=1.6, ls=":")
            place.plot([draw], [height], "o", color=_RED, ms=4)
        place.axvline(draw, color=_RED, lw=0.7, alpha=0.4)
        place.annotate(f"θ{step}", (draw + 0.12, -7.7), color=_RED, fontsize=9)
    place.set_ylim(-8, 1.2)
    place.set_xlabel("θ", fontsize=9)
    place.set_title("each update makes the slope at the draw that of log p", fontsize=9)
    place.legend(fontsize=8, frameon=False, loc="upper right")
    tidy(place)


def _draw_field(place: Any, table: Table) -> None:
    """Draw where the update goes from each (μ, σ)."""
    mean, sd, new_mean, new_sd = (
        np.array([curve.last for curve in table.curves(_FIELD, "gsm", name)])
        for name in ("mean", "sd", "new mean", "new sd")
    )
    place.quiver(
        mean,
        sd,
        new_mean - mean,
        new_sd - sd,
        np.hypot(new_mean - mean, new_sd - sd),
        angles="xy",
        scale_units="xy",
        scale=4.0,
        width=0.004,
        cmap="viridis_r",
    )
    place.plot([0.0], [1.0], "*", color=_GREEN, ms=16, label="the solution, (0, 1)", ls="")
    place.set_ylim(0.15, 2.6)
    place.set_xlabel("μ", fontsize=9)
    place.set_ylabel("σ", fontsize=9)
    place.set_title("the update of (μ, σ) for p = N(0, 1), 5 draws averaged", fontsize=9)
    place.legend(fontsize=8, frameon=False, loc="upper right")
    tidy(place)


def _log_normal(x: Array, mean: float, sd: float) -> Array:
    return np.asarray(-0.5 * ((x - mean) / sd) ** 2 - np.log(sd * np.sqrt(2 * np.pi)))
