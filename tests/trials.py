"""Random fits, and what must hold of every one of them."""

import dataclasses
import functools
import warnings

import numpy as np
import pytest
from conftest import root_of

import scorevi
from scorevi.solvers import SOLVERS, make_solver
from scorevi.studies.faults import FAULTS, LOG_DENSITY_FAULTS, inject

INITIALS = (None, "auto", "mode", "laplace", "lbfgs", "point", "gaussian")
SOLVER_NAMES = ("auto", *SOLVERS)
KINDS = tuple(FAULTS | LOG_DENSITY_FAULTS)


def gaussian(rng, dim, scale, condition):
    p = scorevi.examples.random_gaussian(dim, condition, rng)
    return scorevi.examples.gaussian(scale * p.mean, scale**2 * p.covariance)


def sinh_arcsinh(rng, dim, scale, condition):
    base = scorevi.examples.random_gaussian(dim, min(condition, 100.0), rng)
    return scorevi.examples.sinh_arcsinh(base, rng.uniform(-1.5, 1.5), rng.uniform(0.3, 2.0))


def heavy_tailed(rng, dim, scale, condition):
    """A Student t, of as little as one degree of freedom."""
    p = scorevi.examples.random_gaussian(dim, condition, rng)
    inverse = np.linalg.inv(scale * p.factor)
    freedom = 10.0 ** rng.uniform(0.0, 1.5)

    def parts(theta):
        white = (theta - scale * p.mean) @ inverse.T
        return white, 1.0 + np.vecdot(white, white) / freedom

    def score(theta):
        white, spread = parts(theta)
        return -(1.0 + dim / freedom) * (white / spread[:, None]) @ inverse

    def log_density(theta):
        return -0.5 * (freedom + dim) * np.log(parts(theta)[1])

    return scorevi.from_function(score, dim, log_density, batched=True)


def log_concave(rng, dim, scale, condition):
    """Tails of Laplace distributions, with a round top."""
    p = scorevi.examples.random_gaussian(dim, condition, rng)
    inverse = np.linalg.inv(scale * p.factor)

    def whiten(theta):
        return (theta - scale * p.mean) @ inverse.T

    return scorevi.from_function(
        lambda theta: -np.tanh(whiten(theta)) @ inverse,
        dim,
        lambda theta: -np.logaddexp(whiten(theta), -whiten(theta)).sum(axis=1),
        batched=True,
    )


def plateau(rng, dim, scale, condition):
    """The exponential of the first coordinate is N(1, 0.1²); far below zero it is flat."""

    def score(theta):
        grown = np.exp(theta[:, 0])
        return np.column_stack([1.0 - 100.0 * (grown - 1.0) * grown, -theta[:, 1:]])

    def log_density(theta):
        first = theta[:, 0] - 50.0 * np.expm1(theta[:, 0]) ** 2
        return first - 0.5 * np.vecdot(theta[:, 1:], theta[:, 1:])

    return scorevi.from_function(score, dim, log_density, batched=True)


def funnel(rng, dim, scale, condition):
    return scorevi.examples.funnel(max(2, dim), scale=1.5)


def half_space(rng, dim, scale, condition):
    """Nothing, not a number, below a plane: a model that leaves its support."""

    def score(theta):
        return np.where(theta[:, :1] > -0.5, -theta, np.nan)

    def log_density(theta):
        return np.where(theta[:, 0] > -0.5, -0.5 * np.vecdot(theta, theta), -np.inf)

    return scorevi.from_function(score, dim, log_density, batched=True)


FAMILIES = {
    family.__name__: family
    for family in (
        gaussian,
        sinh_arcsinh,
        heavy_tailed,
        log_concave,
        plateau,
        funnel,
        half_space,
    )
}


@functools.cache
def jax_targets():
    """A few compiled targets, made once: compiling takes longer than the fits."""
    from jax import numpy as jnp

    return (
        scorevi.from_jax(lambda x: -0.5 * ((x - 1.0) ** 2).sum(), 3),
        scorevi.from_jax(lambda x: -jnp.log(jnp.cosh(x)).sum() - jnp.exp(x[0]), 2),
        scorevi.from_jax(lambda x: jnp.log(x[0] + 0.5) - 0.5 * (x**2).sum(), 1),
        scorevi.from_jax(lambda x: -2.0 * jnp.log1p((x**2).sum() / 3.0), 5),
    )


@dataclasses.dataclass(frozen=True)
class Trial:
    """One random fit."""

    family: str
    """One of ``FAMILIES``, or "jax"."""
    dim: int
    scale: float
    condition: float
    solver: str
    batch_size: int | None
    budget: int
    initial: str | None
    seed: int
    rate: float
    kinds: tuple[str, ...]
    batched: bool
    with_log_density: bool

    def make(self):
        """Return the target and the ledger of what it does; a JAX target keeps none."""
        rng = np.random.default_rng(self.seed)
        if self.family == "jax":
            return jax_targets()[self.seed % len(jax_targets())], None
        target = FAMILIES[self.family](rng, self.dim, self.scale, self.condition)
        if not self.with_log_density:
            target = dataclasses.replace(target, log_density=None)
        kinds = [kind for kind in self.kinds if self.with_log_density or kind in FAULTS]
        return inject(target, self.rate, kinds or ["NaN"], seed=self.seed, batched=self.batched)

    def start(self, dim):
        """Return what ``fit`` takes as ``initial``."""
        rng = np.random.default_rng(self.seed + 1)
        if self.initial == "point":
            return rng.uniform(-2.0, 2.0, dim)
        if self.initial == "gaussian":
            p = scorevi.examples.random_gaussian(dim, self.condition, rng)
            return p.scaled(self.scale)
        return self.initial

    def run(self):
        """Return the fit and the ledger; no fit where the arguments are refused."""
        target, ledger = self.make()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", scorevi.FitWarning)
            try:
                fit = scorevi.fit(
                    target,
                    self.solver,
                    batch_size=self.batch_size,
                    max_gradients=self.budget,
                    initial=self.start(target.dim),
                    seed=self.seed,
                    progress=False,
                )
            except ValueError as error:
                if not self._refused(str(error), target):
                    raise
                return None, ledger
        return fit, ledger

    def _refused(self, message, target):
        """Whether a refusal is one of the two that are documented for such arguments."""
        if message.startswith("`max_gradients` must be at least the batch size"):
            solver = make_solver(self.solver, self.batch_size)
            return self.budget < solver.batch_size_for(target.dim)
        if message.startswith(f"`initial={self.initial!r}` looks for the mode"):
            return not target.has_log_density
        return False


def random_trial(rng):
    """Draw a trial: short, of any kind, with faults in half of them."""
    compiled = bool(rng.random() < 0.1)
    sizes = [4] if compiled else range(1, 12)  # each size would be compiled for
    return Trial(
        family="jax" if compiled else str(rng.choice([*FAMILIES])),
        dim=int(rng.integers(1, 6 if rng.random() < 0.7 else 51)),
        scale=10.0 ** rng.choice([0.0, rng.uniform(-8, 8)]),
        condition=10.0 ** rng.uniform(0, 10),
        solver=str(rng.choice(SOLVER_NAMES)),
        batch_size=None if rng.random() < 0.6 else int(rng.choice(sizes)),
        budget=int(10.0 ** rng.uniform(0, 2.7)),
        initial=INITIALS[rng.integers(len(INITIALS))],
        seed=int(rng.integers(2**32)),
        rate=float(rng.choice([0.0, rng.uniform(0, 0.6), 1.0], p=[0.5, 0.45, 0.05])),
        kinds=tuple(map(str, rng.choice(KINDS, rng.integers(1, 5)))),
        batched=bool(rng.random() < 0.5),
        with_log_density=bool(rng.random() < 0.7),
    )


def check(fit, ledger, budget):
    """Assert what must hold of every fit, however it went."""
    check_gaussian(fit.q)
    if fit.status.ok:
        # Positive definite: of the correlations' Cholesky factor, without forming them.
        assert fit.q.is_full_rank()
    assert 0 <= fit.num_gradients <= budget
    lengths = {len(column) for column in fit.trace}
    assert lengths == {fit.num_updates}
    spent = fit.trace.num_gradients
    assert (np.diff(spent, prepend=0) > 0).all()
    assert (np.diff(fit.trace.seconds, prepend=0.0) >= 0).all()
    assert np.isfinite(fit.trace.fisher).all()
    assert (fit.trace.fisher >= 0).all()
    assert len(spent) == 0 or spent[-1] <= fit.num_gradients
    assert fit.status.ok or fit.status in ("diverged", "bad-scores")
    assert fit.status.cause
    if ledger is not None:
        assert fit.num_gradients == ledger.points
        assert 0 <= fit.bad_scores.total - ledger.total <= ledger.extreme
    assert len(fit.bad_scores.examples) == min(5, fit.bad_scores.total)
    if fit.num_updates:
        assert np.isfinite(fit.sample(3, seed=0)).all()
        assert np.isfinite(fit.covariance).all()
    assert str(fit)


def check_gaussian(q):
    """Assert that q is finite, and of the determinant that it says."""
    q = q.coordinates
    factor = root_of(q)
    assert np.isfinite(q.mean).all()
    assert np.isfinite(factor).all()
    assert np.isfinite(q.log_det)
    log_det = np.linalg.slogdet(factor)[1]
    # Where q is so thin that rounding decides, that of the check would.
    if np.linalg.cond(factor / q.sd[:, None]) < 1e12:
        assert q.log_det == pytest.approx(log_det, abs=1e-3, rel=1e-9)
