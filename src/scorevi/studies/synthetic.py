"""The paper's studies on synthetic targets: dimensions, condition number, shape, batch size."""

from __future__ import annotations

import math
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.extras import require
from scorevi.base.target import Target
from scorevi.families.gaussian import HALF_LOG_2PI, Gaussian
from scorevi.solvers import GSM
from scorevi.studies.figures import Axes
from scorevi.studies.metrics import elbo, even_noise, fisher, forward_kl
from scorevi.studies.plan import Budgets, FitLine, Line, Options, Problem, Study, fit_lines
from scorevi.targets import synthetic as examples
from scorevi.targets.jax import JaxTarget, from_jax

_SAMPLES = 1000
"""Pre-drawn from the target, for the forward KL, as in the paper. Those of a Gaussian have exactly
its moments, so that the forward KL on them is exact, and never negative."""
_NOISE = 1000


class Shape(NamedTuple):
    """How a sinh-arcsinh normal is bent; as it is here, not at all."""

    skew: float = 0.0
    tail: float = 1.0


DIMENSIONS = {f"D = {dim}": dim for dim in (4, 8, 16, 32, 64, 128, 256)}
CONDITIONS = {f"c = {c}": c for c in (1, 10, 100, 1000)}
SHAPES = {
    **{f"s = {skew}": Shape(skew=skew) for skew in (0.2, 0.5, 1.0, 1.4, 1.8)},
    **{f"t = {tail}": Shape(tail=tail) for tail in (0.1, 0.5, 0.8, 1.4, 2.0)},
}
GAUSSIANS = {f"Gaussian, D = {dim}": dim for dim in (10, 32)}
BATCH_SIZES = {f"gsm B={size}": size for size in (1, 2, 4, 8, 16, 32)}
"""Like those above, the names that results have, and what they stand for."""


def gaussian_problem(p: Gaussian) -> Problem:
    """Return a Gaussian target, measured by the forward KL."""
    samples = np.asarray(p.unwhiten(even_noise(_SAMPLES, p.dim, seed=1)))
    measure = partial(forward_kl, samples=samples, log_density=np.asarray(p.log_density(samples)))
    target = examples.gaussian(p.mean, p.covariance)
    return Problem(target, {"forward KL": measure}, compiled=bent_in_jax(p, 0.0, 1.0))


def dense_problem(dim: int) -> Problem:
    """Return N(m, A Aᵀ/D + 0.1·I) with standard normal m and A."""
    base = examples.dense_base(dim, seed=dim)
    mean = np.random.default_rng(dim).standard_normal(dim)
    return gaussian_problem(Gaussian(mean, base.factor, base.log_det))


def bent_problem(base: Gaussian, skew: float, tail: float) -> Problem:
    """Return a sinh-arcsinh normal: forward KL, ELBO and Fisher residual are measured."""
    target = examples.sinh_arcsinh(base, skew, tail)
    samples = base.unwhiten(even_noise(_SAMPLES, base.dim, seed=1))
    samples = np.sinh((np.arcsinh(samples) + skew) / tail)
    log_density = target.evaluate(samples).log_density
    assert log_density is not None
    return Problem(
        target,
        {
            "forward KL": partial(forward_kl, samples=samples, log_density=log_density),
            "negative ELBO": negative_elbo(target),
            "Fisher residual": partial(fisher, target=target, z=even_noise(_NOISE, target.dim)),
        },
        compiled=bent_in_jax(base, skew, tail),
    )


def negative_elbo(target: Target, draws: int = _NOISE) -> Any:
    """Return how to measure the negative ELBO, on noise that is the same for all."""
    z = even_noise(draws, target.dim)
    return lambda q: -elbo(q, target, z)


def bent_in_jax(base: Gaussian, skew: float, tail: float) -> JaxTarget:
    """Return :func:`scorevi.examples.sinh_arcsinh` in JAX, for compiled loops."""
    jnp = require("jax").numpy
    whitener = np.linalg.inv(base.cholesky)
    normaliser = base.log_det + base.dim * HALF_LOG_2PI

    def log_density(x: Any) -> Any:
        y, log_slope = x, 0.0
        if (skew, tail) != (0.0, 1.0):
            angle = tail * jnp.arcsinh(x) - skew
            y = jnp.sinh(angle)
            slope = jnp.log(jnp.cosh(angle)) + math.log(tail) - 0.5 * jnp.log1p(x * x)
            log_slope = slope.sum()
        white = jnp.asarray(whitener) @ (y - jnp.asarray(base.mean))
        return log_slope - 0.5 * (white @ white) - normaliser

    return from_jax(log_density, base.dim)


class Dimensions(Study):
    """Gaussians with dense covariance in more and more dimensions."""

    name = "dimensions"
    title = "Scaling with dimensions: Gaussian targets with dense covariance"
    metric = "forward KL"

    def targets(self, options: Options) -> list[str]:
        """Return a name for each dimension."""
        return ["D = 4", "D = 16"] if options.quick else list(DIMENSIONS)

    def dim(self, target: str) -> int:
        """Return the dimension of a name."""
        return DIMENSIONS[target]

    def problem(self, target: str, options: Options) -> Problem:
        """Return a Gaussian with dense covariance."""
        del options
        return dense_problem(DIMENSIONS[target])

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones; GSM's budget grows faster than what it needs."""
        dim = DIMENSIONS[target]
        budgets = Budgets(
            gsm=(max(2_000, 400 * dim), 1_000),
            bbvi=(100_000 if dim > 128 else 200_000, 8_000),
            bam=(8_000, 1_000),
            auto=(2_000, 200),
        )
        return fit_lines(options, budgets)


class Condition(Study):
    """Ten-dimensional Gaussians of growing condition number."""

    name = "condition"
    title = "Impact of the condition number c: Gaussian targets, D = 10"
    metric = "forward KL"

    def targets(self, options: Options) -> list[str]:
        """Return a name for each condition number."""
        return ["c = 1", "c = 1000"] if options.quick else list(CONDITIONS)

    def problem(self, target: str, options: Options) -> Problem:
        """Return a Gaussian whose eigenvalues go from 0.1 to 0.1·c, evenly on the log scale."""
        del options
        dim = 10
        rng = np.random.default_rng(0)
        rotation = np.linalg.qr(rng.standard_normal((dim, dim)))[0]
        log_sd = 0.5 * np.linspace(math.log(0.1), math.log(0.1 * CONDITIONS[target]), dim)
        mean = rng.standard_normal(dim)
        return gaussian_problem(Gaussian(mean, rotation * np.exp(log_sd), float(log_sd.sum())))

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones; BBVI may take far more than 100 times what GSM needs."""
        del target
        budgets = Budgets(
            gsm=(10_000, 2_000), bbvi=(200_000, 20_000), bam=(10_000, 1_000), auto=(2_000, 200)
        )
        return fit_lines(options, budgets)


class NonGaussian(Study):
    """Sinh-arcsinh normals from mild to extreme."""

    name = "nongaussian"
    title = "Impact of non-Gaussianity: sinh-arcsinh normal targets, D = 10"
    metric = "forward KL"
    axes = Axes(columns=5, lowest=1e-3)

    def targets(self, options: Options) -> list[str]:
        """Return a name for each skew s and each tail t."""
        return ["s = 0.2", "s = 1.8", "t = 0.5"] if options.quick else list(SHAPES)

    def problem(self, target: str, options: Options) -> Problem:
        """Return the target of a name such as ``s = 0.2``."""
        del options
        return bent_problem(examples.dense_base(10), *SHAPES[target])

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return the usual ones."""
        del target
        budgets = Budgets(
            gsm=(20_000, 1_000), bbvi=(200_000, 8_000), bam=(20_000, 500), auto=(3_000, 300)
        )
        return fit_lines(options, budgets)


class BatchSize(Study):
    """GSM with batches of different sizes."""

    name = "batch-size"
    title = "GSM with batches of B draws"
    metric = "forward KL"

    def targets(self, options: Options) -> list[str]:
        """Return two Gaussians and two other shapes."""
        targets = [*GAUSSIANS, "s = 0.5", "t = 0.5"]
        return targets[::2] if options.quick else targets

    def dim(self, target: str) -> int:
        """Return the dimension of a Gaussian; the others have ten."""
        return GAUSSIANS.get(target, 10)

    def problem(self, target: str, options: Options) -> Problem:
        """Return the target that the other studies have under this name."""
        if target in GAUSSIANS:
            return dense_problem(GAUSSIANS[target])
        return NonGaussian().problem(target, options)

    def lines(self, target: str, options: Options) -> list[Line]:
        """Return GSM with each batch size."""
        del target
        most = 1_000 if options.quick else 20_000
        return [
            FitLine(label, GSM(batch_size=size), most)
            for label, size in BATCH_SIZES.items()
            if not options.quick or size in (1, 2, 8)
        ]
