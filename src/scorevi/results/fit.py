"""What a fit gives back: the approximation, how it was reached, and draws by name."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any

from scorevi._version import __version__
from scorevi.base.arrays import Array, Seed, as_count, seed_entropy
from scorevi.base.evaluate import BadScores
from scorevi.base.status import FitError, Status
from scorevi.base.target import Parameter, Target, named, split
from scorevi.base.variables import Include, check_include
from scorevi.engine.quality import Quality
from scorevi.families import Approximation
from scorevi.results.examining import examine, kept
from scorevi.results.giving import Giving
from scorevi.results.hand_over import HandOver, Metric, Tool, hand_over
from scorevi.results.naming import is_constrained, labels_of
from scorevi.results.origin import Origin
from scorevi.results.parts import Resample, Trace
from scorevi.results.pickling import state_of, twin_of
from scorevi.results.protected import fresh_draws
from scorevi.results.resample import resample
from scorevi.results.summary import summary_of
from scorevi.results.table import SummaryTable
from scorevi.results.target_of import target_of
from scorevi.targets.isolated import Isolation
from scorevi.trust.error_bars import ErrorBars, error_bars
from scorevi.trust.examination import Restart
from scorevi.trust.fresh_draws import DRAWS, Fresh
from scorevi.trust.verdict import Verdict


@dataclass(eq=False, repr=False)
class Fit(Giving):
    """A fitted Gaussian, or mixture of them, and the story of the fit.

    Made by :func:`scorevi.fit` and :func:`scorevi.load`. A fit of which no update was ever made
    has no moments and no draws to give: asking for them raises :class:`scorevi.FitError`.

    A fit can be pickled, whatever it was fitted to, so that processes may hand it to each other.
    As in a file, it is then without its target, whose functions often cannot be sent; verdict and
    summary go along. ``dataclasses.replace(fit, target=target)`` gives the target back.
    """

    q: Approximation
    """The approximation; the start, if no update was made."""
    status: Status
    """How the fit ended."""
    quality: Quality
    """What is known of how good q is."""
    trace: Trace
    """Gradients, seconds, ELBO and Fisher residual of each update."""
    num_gradients: int
    """Gradient evaluations spent, those of the start included."""
    num_updates: int
    """Updates made."""
    seconds: float
    """Wall time."""
    solver: str
    """The solver with its settings, as text."""
    seed: int
    """The seed, also where none was given."""
    parameters: tuple[Parameter, ...]
    """Names and shapes of the unconstrained parameters."""
    bad_scores: BadScores = field(default_factory=BadScores)
    """Points at which there was no usable score."""
    notes: tuple[str, ...] = ()
    """What else the user should know."""
    version: str = __version__
    """The version of scorevi that made the fit."""
    target: Target | None = field(default=None, repr=False)
    """What was fitted; None for a fit that was loaded without it."""
    restarts: tuple[Restart, ...] = ()
    """Fits from other starts, where they were asked for."""
    verdict: Verdict | None = field(default=None, repr=False)
    """The last verdict of :meth:`check`, or the one that was saved; None if there is none."""
    log_ratio: Array | None = field(default=None, repr=False)
    """log p − log q at the fresh draws of that check; None where there is no log density."""
    origin: Origin = field(default=Origin(), repr=False)
    """What was asked, with what versions, of what model: by which the fit can be made again."""
    fresh: Fresh | None = field(default=None, repr=False)
    """The draws of the last check, while the fit is in memory."""
    saved_summary: SummaryTable = field(default=SummaryTable(), repr=False)
    """The table as it was when the fit was saved; empty for a fit fresh from ``fit``."""
    saved_constrained: bool = field(default=False, repr=False)
    """Whether the parameters of a fit that was loaded have a scale of their own."""
    isolation: Isolation = field(default=Isolation(), repr=False)
    """Where its scores were computed; :meth:`check` and others compute theirs in the same way."""
    saved_labels: tuple[str, ...] = field(default=(), repr=False)
    """The labels as they were when the fit was saved."""

    @property
    def dim(self) -> int:
        """The number of unconstrained dimensions."""
        return self.q.dim

    @property
    def mean(self) -> Array:
        """The mean of the approximation, shape (D,)."""
        return self._fitted.mean

    @property
    def covariance(self) -> Array:
        """The covariance of the approximation, shape (D, D)."""
        return self._fitted.covariance

    @cached_property
    def labels(self) -> tuple[str, ...]:
        """A name for each entry of theta, such as ``beta[north]``, in the order of ``mean``.

        The entries of a variable whose unconstrained form has another shape are called after
        those that they move: the three of a 3×3 correlation ``L[1,0]``, ``L[2,0]``, ``L[2,1]``.
        """
        return labels_of(self)

    @property
    def elbo(self) -> float:
        """The ELBO of q, estimated from the last draws of the fit.

        ``fit.quality.elbo_error`` is its standard error. NaN where the target has no log density,
        or where too few draws came from near q to tell; see :mod:`scorevi.engine.quality`.
        """
        return self.quality.elbo

    @property
    def fisher(self) -> float:
        """The Fisher residual |h + z|²/D of q, from the same draws; NaN where they cannot tell."""
        return self.quality.fisher

    def sample(self, size: int = 1000, seed: Seed = None) -> Array:
        """Draw from the approximation, on the unconstrained space, shape (size, D).

        As in all that draws, the same seed gives the same draws, and None new ones.
        """
        return self._fitted.sample(size, seed)

    def draws(
        self, size: int = 1000, seed: Seed = None, include: Include = "all"
    ) -> dict[str, Array]:
        """Draw named, constrained variables: a dict from name to array (size, *shape).

        Parameters
        ----------
        size
            The number of draws.
        seed
            The same seed, the same draws; None for new ones.
        include
            ``"parameters"`` for those alone; ``"all"`` also for what the model derives from them:
            Stan's transformed parameters and generated quantities, Deterministics of PyMC,
            deterministic sites of NumPyro; ``"everything"`` also for those of them that are log
            likelihoods of single observations (Stan's ``log_lik``), and for draws of data (what was
            named ``predictive``; observed variables of PyMC and NumPyro). It means the same in all
            that gives draws.

        Examples
        --------
        >>> import scorevi
        >>> fit = scorevi.fit(scorevi.examples.eight_schools())
        >>> {name: values.shape for name, values in fit.draws(5, seed=1).items()}
        {'mu': (5,), 'tau': (5,), 'theta': (5, 8)}
        """
        check_include(include)
        entropy = seed_entropy(seed)
        return self.named(self.sample(as_count("size", size), entropy), include, entropy)

    def named(self, theta: Array, include: Include = "all", seed: int = 0) -> dict[str, Array]:
        """Return the named, constrained variables at the rows of theta (n, D)."""
        if self.target is None and not self.constrained:
            return split(theta, self.parameters)
        target = target_of(
            self, "so it has no constrained draws", "`fit.sample(n)` gives unconstrained ones"
        )
        return named(target, theta, include, seed)

    @cached_property
    def summary(self) -> SummaryTable:
        """Mean, its error, sd and quantiles of each variable on the constrained scale, by name.

        A tuple of rows that can be printed, shown in a notebook, asked by name and made a pandas
        data frame; the errors are known once :meth:`check` was asked.

        Exact where the parameters are unconstrained; else from 10,000 draws of a fixed seed, or
        fewer where there are very many variables. Pointwise log likelihoods and what the model
        predicts are left out. The parameters come first, then what is derived from them, arrays
        of more than 20 entries last.
        """
        return self.saved_summary or summary_of(self)

    def check(self, *, draws: int = DRAWS, modes: bool = True, seed: int = 0) -> Verdict:
        """Say whether to believe the fit: ``pass``, ``warn`` or ``fail``, with reasons and advice.

        See :mod:`scorevi.trust.check` for what is looked at, docs/trust.md for how often it errs.

        Parameters
        ----------
        draws
            Fresh draws from q at which the target is evaluated; four times as many more where
            these do not decide.
        modes
            Whether to look elsewhere too: for other modes (at most 300 evaluations), and where the
            posterior is not near Gaussian, by a second fit (as many as the fit took, or 2,500).
        seed
            For the draws and the places where the search for modes begins.

        Examples
        --------
        >>> import scorevi
        >>> verdict = scorevi.fit(scorevi.examples.random_gaussian(5)).check()
        >>> verdict == "pass", verdict.reasons
        (True, ())
        """
        self.verdict, fresh = examine(self, draws, modes, seed)
        self.fresh, self.log_ratio = kept(fresh), None if fresh is None else fresh.log_ratio
        if self.target is not None and self.fresh is not None:
            self.saved_summary = SummaryTable()
            self.__dict__.pop("summary", None)  # now the errors of the means are known
        return self.verdict

    def error_bars(self, draws: int = DRAWS, seed: int = 0) -> ErrorBars:
        """Return the Monte-Carlo error of the fitted means and sds, unconstrained, shape (D,) each.

        From the scores at fresh draws: how far q may be from the Gaussian of highest ELBO. It does
        not tell how far that is from the posterior; :meth:`check` does.
        """
        return error_bars(self._fitted, fresh_draws(self, draws, seed))

    def resample(
        self,
        size: int = 1000,
        seed: Seed = None,
        include: Include = "all",
        *,
        replace: bool = True,
        proposals: int | None = None,
    ) -> Resample:
        """Draw around q and choose among the draws by their importance weights, smoothed.

        Two thirds of the draws are from q and one third from wider than q, so that what q lacks is
        there to be chosen; weights are against the mixture of both.

        Where the verdict says that q is somewhat off, this corrects it. Refuses with
        :class:`scorevi.FitError` where k-hat says that it would not.

        Parameters
        ----------
        size
            The number of draws to return.
        seed, include
            As for :meth:`draws`.
        replace
            Whether a draw may be chosen more than once. Without, the draws are distinct, and the
            correction is somewhat weaker.
        proposals
            Draws to choose from, each an evaluation of the target; four times ``size`` if
            left out, but at least 400, and never fewer than 25, which do not show what tail the
            weights have.
        """
        return resample(self, size, seed, include, replace=replace, proposals=proposals)

    def raise_for_status(self) -> Fit:
        """Return the fit itself, or raise :class:`scorevi.FitError` if it failed."""
        if not self.status.ok or self.num_updates == 0:
            raise FitError(self.status.explain(), self)
        return self

    def to_mcmc(
        self,
        tool: Tool,
        *,
        chains: int = 4,
        metric: Metric = "dense",
        folder: str | Path | None = None,
        seed: Seed = 0,
    ) -> HandOver:
        """Return distinct starts and an inverse metric for a sampler, so that it need not warm up.

        ``.form`` has both as ``"cmdstan"`` (files in ``folder``), ``"nutpie"``, ``"pymc"``,
        ``"numpyro"`` or ``"blackjax"`` take them: docs/sampling.md has a line of code for each.
        """
        return hand_over(self, tool, chains, metric, folder, seed)

    @property
    def constrained(self) -> bool:
        """Whether the parameters have a scale of their own, apart from the unconstrained one."""
        return is_constrained(self)

    def __getstate__(self) -> dict[str, Any]:
        return state_of(self)

    def __copy__(self) -> Fit:
        return twin_of(self, None)

    def __deepcopy__(self, memo: dict[int, Any]) -> Fit:
        return twin_of(self, memo)

    @property
    def _fitted(self) -> Approximation:
        if self.num_updates == 0:
            nothing = (
                "No update was made, so there is nothing fitted to return (fit.q holds the start)."
            )
            raise FitError(f"{nothing} {self.status.explain()}", self)
        return self.q
