"""What :func:`scorevi.sample` gives back: draws of the posterior, and what they are worth."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np

from scorevi._version import __version__
from scorevi.base.arrays import AnyArray, Array
from scorevi.base.evaluate import BadScores
from scorevi.base.status import FitError, Status
from scorevi.base.target import Parameter, Target, named, split
from scorevi.base.variables import Include, Variables, check_include
from scorevi.families import Approximation
from scorevi.results.fit import Fit
from scorevi.results.naming import is_constrained, labels_of
from scorevi.results.parts import Summary
from scorevi.results.sample_export import to_arviz, to_pandas
from scorevi.results.sample_files import save
from scorevi.results.summary import in_order, table_of
from scorevi.results.target_of import target_of
from scorevi.sampling.judging import Judged, judge
from scorevi.targets.isolated import Isolation
from scorevi.trust.verdict import Reason, Verdict


@dataclass(eq=False, repr=False)
class Sample:
    """Draws of a posterior, in chains, and how they came about.

    Made by :func:`scorevi.sample` and :func:`scorevi.load`. Asked for draws of which there are
    none, it raises :class:`scorevi.FitError`. Like a fit it can be pickled, and is then without
    its target.
    """

    theta: Array
    """Draws on the unconstrained space, shape (chain, draw, D)."""
    method: str
    """How: ``importance``, ``nuts``, or nothing where nothing was drawn."""
    stats: dict[str, AnyArray]
    """What is known of each draw, (chain, draw), by ArviZ's names."""
    ess: Array
    """The effective sample of each unconstrained parameter, (D,).

    Of chains the lesser of bulk and tail, by ArviZ; of weighted draws the lesser of the parameter's
    and of its square's, before some of them were chosen.
    """
    rhat: Array
    """ArviZ's R-hat, rank-normalised, of each unconstrained parameter, (D,)."""
    khat: float
    """The longest tail of the weights, alone or times a parameter or its square; NaN for NUTS."""
    gradients: dict[str, int]
    """Gradient evaluations by phase: ``fit``, ``looking``, ``weights``, ``adaptation``, ``draws``.

    What was looked at is draws from wider than q, and climbs to other modes."""
    status: Status
    """How it ended."""
    q: Approximation
    """The approximation that was sampled by."""
    asked: float
    """The effective sample that was asked for."""
    seed: int
    seconds: float
    """Wall time, that of the fit included."""
    parameters: tuple[Parameter, ...]
    """Names and shapes of the unconstrained parameters."""
    against_weights: str = ""
    """Why weights could not correct q; empty where they could."""
    found: tuple[Reason, ...] = ()
    """What was found beforehand that no draws can mend, such as another mode."""
    q_is_right: bool = False
    """Whether there was next to nothing to correct."""
    bad_scores: BadScores = field(default_factory=BadScores)
    """Points of chains at which there was no usable score."""
    sampler: str = ""
    """By which NUTS ran: ``nutpie``, or ``blackjax`` in compiled code; empty where it did not."""
    notes: tuple[str, ...] = ()
    """What else the user should know."""
    version: str = __version__
    """The version of scorevi that made it."""
    target: Target | None = field(default=None, repr=False)
    """What was sampled; None for a sample that was loaded without it."""
    fit: Fit | None = field(default=None, repr=False)
    """The fit that it began with; None for a sample that was loaded."""
    isolation: Isolation = field(default=Isolation(), repr=False)
    """Where scores were computed."""
    verdict: Verdict | None = field(default=None, repr=False)
    """The verdict of :meth:`check`, or the one that was saved; None if there is none."""
    saved_labels: tuple[str, ...] = field(default=(), repr=False)
    saved_constrained: bool = field(default=False, repr=False)
    saved_summary: tuple[Summary, ...] = field(default=(), repr=False)

    @property
    def dim(self) -> int:
        """The number of unconstrained dimensions."""
        return int(self.theta.shape[2])

    @property
    def size(self) -> int:
        """The number of draws, of all chains together."""
        return int(self.theta.shape[0] * self.theta.shape[1])

    @property
    def num_gradients(self) -> int:
        """Gradient evaluations of all phases."""
        return sum(self.gradients.values())

    @property
    def divergences(self) -> int:
        """How many trajectories diverged; none of draws by weights."""
        return int(self.stats["diverging"].sum()) if "diverging" in self.stats else 0

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each entry of theta, in the order of ``ess`` and ``rhat``."""
        return labels_of(self)

    def draws(self, include: Include = "all", *, chains: bool = False) -> dict[str, Array]:
        """Return named, constrained variables: a dict from name to array (size, *shape).

        Parameters
        ----------
        include
            As for :meth:`scorevi.Fit.draws`.
        chains
            Whether to keep the chains apart: arrays (chain, draw, *shape).

        Examples
        --------
        >>> import scorevi
        >>> sample = scorevi.sample(scorevi.examples.eight_schools())
        >>> {name: values.shape for name, values in sample.draws(chains=True).items()}
        {'mu': (4, 250), 'tau': (4, 250), 'theta': (4, 250, 8)}
        """
        check_include(include)
        values = self.named(self.flat, include, self.seed)
        if not chains:
            return values
        lengths = self.theta.shape[:2]
        return {name: value.reshape(*lengths, *value.shape[1:]) for name, value in values.items()}

    @property
    def flat(self) -> Array:
        """The draws on the unconstrained space, one chain after another, (size, D)."""
        if not self.size:
            raise FitError(f"Nothing was drawn. {self.status.explain()}", self.fit)
        return self.theta.reshape(-1, self.dim)

    def named(self, theta: Array, include: Include = "all", seed: int = 0) -> dict[str, Array]:
        """Return the named, constrained variables at the rows of theta (n, D)."""
        if self.target is None and not self.constrained:
            return split(theta, self.parameters)
        target = target_of(
            self,
            "so it has no constrained draws",
            "`theta` has others",
            first="The sample was pickled or loaded without its model",
        )
        return named(target, theta, include, seed)

    @cached_property
    def summary(self) -> tuple[Summary, ...]:
        """Mean, sd and 90 % interval of each variable on the constrained scale, by name."""
        if self.saved_summary:
            return self.saved_summary
        draws = self.draws()
        first = self.named(self.flat[:1], "parameters")
        variables = Variables() if self.target is None else self.target.variables
        return table_of(variables, in_order(draws, first), draws)

    def check(self) -> Verdict:
        """Say whether to believe the draws: ``pass``, ``warn`` or ``fail``, with reasons.

        Costs no evaluations. See :mod:`scorevi.sampling.judging` for what is looked at.

        Examples
        --------
        >>> import scorevi
        >>> scorevi.sample(scorevi.examples.random_gaussian(5)).check() == "pass"
        True
        """
        self.verdict = judge(
            Judged(
                self.method,
                self.theta,
                self.stats,
                self.ess,
                self.rhat,
                self.khat,
                self.asked,
                self.status,
                self.found,
                self.bad_scores.total,
                self.labels,
                (self.q.mean, self.q.sd) if self.q_is_right else None,
            )
        )
        return self.verdict

    def to_arviz(self, include: Include = "all") -> Any:
        """Return draws as ArviZ takes them: InferenceData (0.x) or DataTree (1.x).

        ``sample_stats`` has, of NUTS, what ArviZ's diagnostics look for: ``diverging``, ``energy``,
        ``tree_depth``, ``n_steps``, ``acceptance_rate``, ``step_size``, ``lp`` and
        ``reached_max_treedepth``; of weighted draws ``lp``. The groups are else those of
        :meth:`scorevi.Fit.to_arviz`.
        """
        return to_arviz(self, include)

    def to_pandas(self, include: Include = "all") -> Any:
        """Return draws as a pandas data frame, a column per entry, indexed by chain and draw."""
        return to_pandas(self, include)

    def save(self, path: str | Path) -> Path:
        """Write everything but the model's functions to a ``.npz`` file; returns its path."""
        return save(self, path)

    def raise_for_status(self) -> Sample:
        """Return the sample, or raise :class:`scorevi.FitError` if its verdict is ``fail``."""
        verdict = self.check()
        if verdict == "fail":
            raise FitError(verdict.explain(), self.fit)
        return self

    @property
    def constrained(self) -> bool:
        """Whether the parameters have a scale of their own, apart from the unconstrained one."""
        return is_constrained(self)

    def __repr__(self) -> str:
        by = f" ({self.sampler})" if self.sampler else ""
        nuts = f" by NUTS in the fit's coordinates{by}"
        how = {"importance": " by importance weights", "nuts": nuts}
        least = f", effective sample {np.min(self.ess):.0f}" if self.size else ""
        return (
            f"<Sample of {self.size} draws in {self.theta.shape[0]} chains, {self.dim} "
            f"dimensions,{how.get(self.method, '')}: {self.num_gradients} gradients, "
            f"{self.seconds:.2g} s{least}; {self.status}>"
        )

    def __getstate__(self) -> dict[str, Any]:
        known = {k: v for k, v in self.__dict__.items() if k not in ("labels", "summary")}
        return known | {
            "target": None,
            "saved_labels": self.labels,
            "saved_constrained": self.constrained,
            "saved_summary": self.summary if self.size else (),
        }
