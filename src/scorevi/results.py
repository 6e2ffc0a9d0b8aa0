"""What a fit gives back: the approximation, how it was reached, and draws by name."""

from __future__ import annotations

import contextlib
import copy
import math
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import scipy.special
from numpy.typing import NDArray

from scorevi._arrays import Array, Seed, as_count, seed_entropy
from scorevi._version import __version__
from scorevi.check import check
from scorevi.evaluate import BadScores, Evaluator
from scorevi.fresh import DRAWS, ErrorBars, Fresh, draw, error_bars
from scorevi.gaussian import Gaussian
from scorevi.noise import RESAMPLE, stream
from scorevi.protected import protected
from scorevi.psis import FEWEST, RELIABLE, smooth
from scorevi.recent import Quality
from scorevi.status import FitError, Status
from scorevi.targets.base import Parameter, Target, all_labels, named, split
from scorevi.targets.isolated import Isolation
from scorevi.targets.labels import labels_of, theta_labels
from scorevi.targets.variables import Include, check_include
from scorevi.verdict import Verdict

_SUMMARY_DRAWS = 10_000
_SUMMARY_ENTRIES = 20_000_000
_INTERVAL = (0.05, 0.95)
_LONG = 20
"""Derived variables with more entries come last in the table."""


class Trace(NamedTuple):
    """The course of a fit, one entry per update.

    ``elbo`` and ``fisher`` are estimates, from the batch of that update alone, for the q that the
    batch was drawn from; they cost nothing extra. ``elbo`` is NaN where the target has no
    log density.
    """

    num_gradients: NDArray[np.int64]
    """Gradients spent when the update was done, those of the start included."""
    seconds: Array
    """Seconds since the fit began; within a compiled chunk, interpolated."""
    elbo: Array
    """Estimates of E_q[log p − log q]."""
    fisher: Array
    """|h + z|²/D, averaged over the batch: zero if and only if q = p."""
    drift: Array
    """h₁·h₂/D of two draws: on average |E_q h|²/D, zero once the mean has arrived."""


class Restart(NamedTuple):
    """What is kept of a fit from another start."""

    seed: int
    status: str
    elbo: float
    mean: Array
    sd: Array


class Resample(NamedTuple):
    """Draws corrected by importance weights."""

    draws: dict[str, Array]
    """By name, as :meth:`Fit.draws` gives them."""
    theta: Array
    """The same, unconstrained, shape (size, D)."""
    khat: float
    """The tail of the weights."""
    ess: float
    """The effective number of independent draws that they were chosen from."""


class Summary(NamedTuple):
    """A line of the table of parameters."""

    name: str
    mean: float
    sd: float
    lower: float
    """The 5 % quantile."""
    upper: float
    """The 95 % quantile."""


@dataclass(frozen=True, eq=False, repr=False)
class Fit:
    """A fitted Gaussian and the story of the fit.

    Made by :func:`scorevi.fit` and :func:`scorevi.load`. A fit of which no update was ever made
    has no moments and no draws to give: asking for them raises :class:`scorevi.FitError`.

    A fit can be pickled, whatever it was fitted to, so that processes may hand it to each other.
    As in a file, it is then without its target, whose functions often cannot be sent; verdict and
    summary go along. ``dataclasses.replace(fit, target=target)`` gives the target back.
    """

    q: Gaussian
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
    saved_verdict: Verdict | None = field(default=None, repr=False)
    """The verdict that was saved with the fit."""
    saved_summary: tuple[Summary, ...] = field(default=(), repr=False)
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
        if self.saved_labels:
            return self.saved_labels
        return (
            tuple(all_labels(self.parameters)) if self.target is None else theta_labels(self.target)
        )

    @property
    def elbo(self) -> float:
        """The ELBO of q, estimated from the last draws of the fit; see :mod:`scorevi.recent`.

        ``fit.quality.elbo_error`` is its standard error. NaN where the target has no log density,
        or where too few draws came from near q to tell.
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
            likelihoods of single observations (Stan's ``log_lik``) or draws of data (what was
            named ``predictive``). It means the same in all that gives draws.

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
        if self.target is None:
            if self.constrained:
                raise ValueError(
                    "The fit was pickled or loaded without its model, so draws cannot be put on "
                    "the constrained scale. Use scorevi.load(path, target=...) or "
                    "dataclasses.replace(fit, target=...), or `sample` for unconstrained draws."
                )
            return split(theta, self.parameters)
        return named(self.target, theta, include, seed)

    @cached_property
    def summary(self) -> tuple[Summary, ...]:
        """Mean, sd and 90 % interval of each variable on the constrained scale, by name.

        Exact where the parameters are unconstrained; else from 10,000 draws of a fixed seed, or
        fewer where there are very many variables. Pointwise log likelihoods and what the model
        predicts are left out. The parameters come first, then what is derived from them, arrays
        of more than 20 entries last.
        """
        if self.saved_summary:
            return self.saved_summary
        if not self.constrained:
            return tuple(self._exact_summary())
        self._fitted  # noqa: B018  (refuses a fit without an update)
        if self.target is None:
            raise ValueError(
                "The summary could not be computed when the fit was saved, and needs its model. "
                "Use scorevi.load(path, target=...)."
            )
        variables = self.target.variables
        one = self.named(self._fitted.mean[None])
        first = self.named(self._fitted.mean[None], "parameters")
        order = sorted(one, key=lambda name: name not in first and 1 + (one[name].size > _LONG))
        entries = sum(value.size for value in one.values())
        size = min(_SUMMARY_DRAWS, max(500, _SUMMARY_ENTRIES // max(entries, 1)))
        draws = self.draws(size, seed=0)
        rows = []
        for name in order:
            values = draws[name]
            flat = values.reshape(len(values), -1)
            lower, upper = np.quantile(flat, _INTERVAL, axis=0)
            columns = (flat.mean(axis=0), flat.std(axis=0), lower, upper)
            texts = labels_of(variables, name, values.shape[1:])
            for label, *row in zip(texts, *columns, strict=True):
                rows.append(Summary(label, *map(float, row)))
        return tuple(rows)

    @property
    def verdict(self) -> Verdict | None:
        """The last verdict of :meth:`check`, or the one that was saved; None if there is none."""
        return self.__dict__.get("_verdict", self.saved_verdict)

    def check(self, *, draws: int = DRAWS, modes: bool = True, seed: int = 0) -> Verdict:
        """Say whether to believe the fit: ``pass``, ``warn`` or ``fail``, with reasons and advice.

        See :mod:`scorevi.check` for what is looked at, and docs/trust.md for how often it is right.

        Parameters
        ----------
        draws
            Fresh draws from q at which the target is evaluated; four times as many more where
            these do not decide.
        modes
            Whether to look for other modes too, for at most 300 more evaluations.
        seed
            For the draws and the places where the search for modes begins.

        Examples
        --------
        >>> import scorevi
        >>> verdict = scorevi.fit(scorevi.examples.random_gaussian(5)).check()
        >>> verdict == "pass", verdict.reasons
        (True, ())
        """
        with protected(self) as fit:
            verdict = check(
                fit, draws=as_count("draws", draws, least=FEWEST), modes=modes, seed=seed
            )
        self.__dict__["_verdict"] = verdict
        return verdict

    def error_bars(self, draws: int = DRAWS, seed: int = 0) -> ErrorBars:
        """Return the Monte-Carlo error of the fitted means and sds, unconstrained, shape (D,) each.

        From the scores at fresh draws: how far q may be from the Gaussian of highest ELBO. It does
        not tell how far that is from the posterior; :meth:`check` does.
        """
        return error_bars(self, self._fresh(draws, seed))

    def resample(
        self,
        size: int = 1000,
        seed: Seed = None,
        include: Include = "all",
        *,
        replace: bool = True,
        proposals: int | None = None,
    ) -> Resample:
        """Draw from q and choose among the draws by their importance weights, smoothed.

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
            Draws from q to choose from, each an evaluation of the target; four times ``size`` if
            left out, but at least 400, and never fewer than 25, which do not show what tail the
            weights have.
        """
        check_include(include)
        size = as_count("size", size)
        if proposals is None:
            proposals = max(4 * size, DRAWS)
        proposals = as_count("proposals", proposals, least=FEWEST)
        seed = seed_entropy(seed)
        if not replace and proposals < size:
            raise ValueError(
                f"`proposals` must be at least `size`, {size}, without replacement; "
                f"got {proposals}."
            )
        fresh = self._fresh(proposals, seed)
        if fresh.log_ratio is None:
            raise ValueError("Importance weights need the log density, which the target has not.")
        weights = smooth(fresh.log_ratio)
        count = int(fresh.good.sum())
        if count < FEWEST:
            raise FitError(
                f"{count} of {proposals} draws have a usable score, fewer than the {FEWEST} that "
                "importance weights need. fit.check() says what is wrong.",
                self,
            )
        if not weights.reliable:
            raise FitError(
                f"k-hat is {weights.khat:.2f}, above {RELIABLE}: importance weights cannot correct "
                "this fit. fit.check() says what is wrong.",
                self,
            )
        rng = stream(seed, RESAMPLE)
        if not replace and int((weights.weights > 0).sum()) < size:
            raise ValueError("`size` must be at most the number of proposals with a good score.")
        chosen = rng.choice(proposals, size, replace=replace, p=weights.weights)
        theta = fresh.theta[chosen]
        return Resample(self.named(theta, include, seed), theta, weights.khat, weights.ess)

    def raise_for_status(self) -> Fit:
        """Return the fit itself, or raise :class:`scorevi.FitError` if it failed."""
        if not self.status.ok or self.num_updates == 0:
            raise FitError(self.status.explain(), self)
        return self

    def to_arviz(self, size: int = 1000, seed: Seed = None, include: Include = "all") -> Any:
        """Return draws as ArviZ takes them: InferenceData (0.x) or DataTree (1.x).

        The arguments are those of :meth:`draws`; see :func:`scorevi.export.to_arviz`.
        """
        from scorevi.export import to_arviz

        with protected(self) as fit:
            return to_arviz(fit, size, seed, include)

    def to_pandas(self, size: int = 1000, seed: Seed = None, include: Include = "all") -> Any:
        """Return draws as a pandas data frame: a row per draw, a column per entry.

        The arguments are those of :meth:`draws`.
        """
        from scorevi.export import to_pandas

        return to_pandas(self, size, seed, include)

    def save(self, path: str | Path) -> Path:
        """Write everything but the model's functions to a ``.npz`` file; returns its path."""
        from scorevi.storage import save

        with protected(self) as fit:
            return save(fit, path)

    @property
    def constrained(self) -> bool:
        """Whether the parameters have a scale of their own, apart from the unconstrained one."""
        if self.target is None:
            return self.saved_constrained
        variables = self.target.variables
        return variables.constrain is not None or variables.derive is not None

    def __repr__(self) -> str:
        elbo = "" if math.isnan(self.elbo) else f", ELBO {self.elbo:.4g}"
        fisher = f", Fisher residual {self.fisher:.3g}" if self.quality.known else ""
        return (
            f"<Fit of {self.dim} dimensions by {self.solver}: {self.num_gradients} gradients, "
            f"{self.seconds:.2g} s{elbo}{fisher}; {self.status}>"
        )

    def _fresh(self, draws: int, seed: int) -> Fresh:
        if self.target is None:
            raise ValueError(
                "The fit was pickled or loaded without its model. Use "
                "scorevi.load(path, target=...) or dataclasses.replace(fit, target=...)."
            )
        self._fitted  # noqa: B018  (refuses a fit without an update)
        with protected(self) as fit:
            assert fit.target is not None
            return draw(fit, as_count("draws", draws, least=2), seed, Evaluator(fit.target))

    def __getstate__(self) -> dict[str, Any]:
        known = {
            name: value
            for name, value in self.__dict__.items()
            if name not in ("summary", "labels", "_verdict")
        }
        summary: tuple[Summary, ...] = ()
        if self.constrained and self.num_updates:
            with contextlib.suppress(ValueError):  # a faulty `constrain` must not stand in the way
                summary = self.summary
        return known | {
            "target": None,
            "saved_summary": summary,
            "saved_verdict": self.verdict,
            "saved_constrained": self.constrained,
            "saved_labels": self.labels,
        }

    def __copy__(self) -> Fit:
        return self.__deepcopy__(None)

    def __deepcopy__(self, memo: dict[int, Any] | None) -> Fit:
        """Copy all but the target, which is shared: within a process it need not be left out."""
        twin = object.__new__(type(self))
        for name, value in self.__dict__.items():
            shared = memo is None or name == "target"
            twin.__dict__[name] = value if shared else copy.deepcopy(value, memo)
        return twin

    @property
    def _fitted(self) -> Gaussian:
        if self.num_updates == 0:
            raise FitError(
                "No update was made, so there is nothing fitted to return "
                f"(fit.q holds the start). {self.status.explain()}",
                self,
            )
        return self.q

    @property
    def _rank(self) -> tuple[bool, float, float]:
        """How this fit compares with others of the same target: sound ones first, then by ELBO.

        Without a log density, by Fisher residual.
        """
        known = [-math.inf if math.isnan(x) else x for x in (self.elbo, -self.fisher)]
        return self.status.ok and self.num_updates > 0, known[0], known[1]

    def _exact_summary(self) -> list[Summary]:
        q = self._fitted
        low, high = scipy.special.ndtri(_INTERVAL)
        return [
            Summary(name, float(m), float(s), float(m + low * s), float(m + high * s))
            for name, m, s in zip(self.labels, q.mean, q.sd, strict=True)
        ]
