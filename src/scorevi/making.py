"""One sample in the making: a fit, perhaps another, and the draws by it."""

from __future__ import annotations

import math
import time
import warnings
from collections import Counter
from collections.abc import Callable, Iterator

from scorevi.base.evaluate import BadScores, Evaluator
from scorevi.base.labels import theta_labels
from scorevi.base.status import FitWarning, Status
from scorevi.families import Approximation, Gaussian, Mixture
from scorevi.fit import fit as run_fit
from scorevi.results.examining import course_of
from scorevi.results.fit import Fit
from scorevi.results.sample import Sample
from scorevi.sampling.asked import Asked
from scorevi.sampling.drawing import Drawing, Method
from scorevi.sampling.keeping import Keeper, Kept
from scorevi.targets import Target
from scorevi.trust.examination import Course, Examination
from scorevi.trust.fresh_draws import DRAWS

_MOST_OF_FIT = 10_000


class Making:
    """What :func:`scorevi.sample` does, once it knows what is asked.

    Parameters
    ----------
    target
        What is evaluated, here or by workers.
    asked
        What there is to be in the end.
    method
        ``"importance"`` or ``"nuts"`` alone; None for the cheapest that is sound.
    most
        Gradients that may be spent.
    began, seconds
        When it began, on ``time.perf_counter``, and how long it may take.
    keeper
        The checkpoint, if there is one.
    show
        Called with what is done, the gradients so far and the least effective sample.
    """

    def __init__(
        self,
        target: Target,
        asked: Asked,
        method: Method | None,
        most: int,
        began: float,
        seconds: float | None,
        keeper: Keeper | None,
        show: Callable[[str, int, float], None],
    ) -> None:
        self.target, self.asked, self.method = target, asked, method
        self.keeper, self.show = keeper, show
        self.most, self.began = most, began
        self.deadline = None if seconds is None else began + seconds
        self.seconds_before = 0.0
        self.gradients = {"fit": 0, "looking": 0, "weights": 0}
        """Of fits, and of what was looked at by one that was replaced."""
        self.free = 0
        """Gradients of a fit that was handed over."""
        self.notes: tuple[str, ...] = ()

    def run(self, fit: Fit | None, family: str, resume: bool) -> Sample:
        """Fit, look, and draw."""
        kept = None
        self.free = 0 if fit is None else fit.num_gradients
        if self.keeper is not None:
            kept = self.keeper.bind(self.target, self.asked.seed, self.method)
        if kept is not None:
            self.gradients, self.seconds_before, self.notes = kept[2:]
            drawing = self.drawing(kept.q, None)
            drawing.state = kept.state
            return self.finished(drawing, None, drawing.steps())
        given = fit is not None
        fit = fit or self.fit(family, resume)
        drawing, steps = self.begun(fit)
        if not next(steps, ""):
            return self.finished(drawing, fit, steps)
        if drawing.found and isinstance(fit.q, Gaussian):
            # Modes beside a Gaussian: neither weights nor chains get there, a mixture may.
            self.notes += (f"{drawing.found[0].text}: a mixture was fitted",)
            self.leave(drawing)
            fit = self.fit("mixture", False)
            drawing, steps = self.begun(fit)
        elif isinstance(fit.q, Mixture) and drawing.is_by_chains and not given:
            fit, drawing, steps = self.another(fit, drawing, steps)
        return self.finished(drawing, fit, steps)

    def another(
        self, fit: Fit, drawing: Drawing, steps: Iterator[str]
    ) -> tuple[Fit, Drawing, Iterator[str]]:
        """Try a mixture from another seed, where weights cannot correct this one.

        What a mixture lacks depends on the seed, and a fit costs less than the chains would.
        """
        why = drawing.state.look.against_weights if drawing.state.look is not None else ""
        other = self.fit("mixture", False, self.asked.seed + 1)
        again, others = self.begun(other)
        if next(others, "") and again.state.weighing and not again.found:
            self.notes += (f"{why}: a fit with seed {self.asked.seed + 1} took its place",)
            self.leave(drawing)
            return other, again, others
        self.leave(again)
        drawing.exam.evaluator.max_gradients = self.left
        return fit, drawing, steps

    def leave(self, drawing: Drawing) -> None:
        """Take over the account of draws that are not gone on with."""
        self.gradients["looking"] += drawing.state.looked
        self.gradients["weights"] += drawing.state.weighed

    @property
    def left(self) -> int:
        """Gradients that may still be spent."""
        return max(self.most - sum(self.gradients.values()) + self.free, 0)

    def begun(self, fit: Fit) -> tuple[Drawing, Iterator[str]]:
        """Return draws by a fit, and their steps; none of a fit that failed or was interrupted."""
        self.gradients["fit"] += fit.num_gradients
        drawing = self.drawing(fit.q, fit)
        if fit.status.ok and fit.num_updates and fit.status != "interrupted":
            return drawing, drawing.steps()
        drawing.status = fit.status
        return drawing, iter(())

    def fit(self, family: str, resume: bool, seed: int | None = None) -> Fit:
        """Make a fit within what is left; what is to be said of it the verdict will say."""
        keeper = None if self.gradients["fit"] else self.keeper
        seconds = None if self.deadline is None else self.deadline - time.perf_counter()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            return run_fit(
                self.target,
                family=family,
                max_gradients=max(1, min(self.left, _MOST_OF_FIT)),
                max_seconds=None if seconds is None else max(seconds, 1e-3),
                seed=self.asked.seed if seed is None else seed,
                progress=False,
                checkpoint=None if keeper is None else keeper.of_fit,
                resume=resume and keeper is not None,
            )

    def drawing(self, q: Approximation, fit: Fit | None) -> Drawing:
        """Return draws by q that have not begun."""
        evaluator = Evaluator(self.target, self.left, self.deadline)
        if fit is None:
            course = Course(Status("converged", "it was"), 1, 0, BadScores(), math.nan)
        else:
            course = course_of(fit)
        labels = theta_labels(self.target)
        exam = Examination(q, course, labels, evaluator, DRAWS, self.asked.seed)
        return Drawing(exam, self.asked, self.method)

    def finished(self, drawing: Drawing, fit: Fit | None, steps: Iterator[str]) -> Sample:
        """Go on to the end, and return what there is."""
        for phase in steps:
            self.keep(drawing)
            self.show(phase, sum(self.gradients.values()) + drawing.state.spent, drawing.least)
        self.keep(drawing, now=True)
        drawn = drawing.drawn()
        gradients = Counter(self.gradients)
        gradients.update(drawn.gradients)
        return Sample(
            theta=drawn.theta,
            method=drawn.method,
            sampler=drawn.sampler,
            stats=drawn.stats,
            ess=drawn.ess,
            rhat=drawn.r_hat,
            khat=drawn.khat,
            gradients=dict(gradients),
            status=drawn.status,
            q=drawing.exam.q,
            asked=self.asked.ess,
            seed=self.asked.seed,
            seconds=self.seconds_before + time.perf_counter() - self.began,
            parameters=self.target.parameters,
            against_weights=drawn.against_weights,
            found=drawn.reasons,
            q_is_right=drawn.q_is_right,
            bad_scores=drawn.bad_scores,
            notes=self.notes,
            fit=fit,
        )

    def keep(self, drawing: Drawing, *, now: bool = False) -> None:
        """Write the checkpoint, where there is one and something to keep."""
        if self.keeper is None or drawing.state.look is None:
            return
        seconds = self.seconds_before + time.perf_counter() - self.began
        kept = Kept(drawing.exam.q, drawing.state, self.gradients, seconds, self.notes)
        self.keeper.keep(kept, now=now)
