"""A fit handed over to samplers: starts and inverse metric, in the form that each of them takes."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal, NamedTuple, get_args

import numpy as np

from scorevi.base.arrays import Array, Seed, as_count, as_rng
from scorevi.base.evaluate import Evaluator, TooManyBadScores
from scorevi.base.extras import require
from scorevi.base.files import appearing, why
from scorevi.base.target import Target, named, split
from scorevi.families import Gaussian, as_gaussian
from scorevi.results.target_of import target_of
from scorevi.sampling.running import LOW
from scorevi.targets import JaxTarget, StanTarget

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

Tool = Literal["cmdstan", "nutpie", "pymc", "numpyro", "blackjax"]
Metric = Literal["dense", "diagonal"]


class HandOver(NamedTuple):
    """What a sampler takes from a fit."""

    starts: Array
    """Distinct draws of q, unconstrained, (chains, D), in the order of ``fit.mean``."""
    inverse_metric: Array
    """The covariance of q, (D, D), or its variances, (D,), in the same order."""
    form: dict[str, Any]
    """Both as the sampler takes them; see :meth:`scorevi.Fit.to_mcmc`."""


def hand_over(
    fit: Fit, tool: Tool, chains: int, metric: Metric, folder: str | Path | None, seed: Seed
) -> HandOver:
    """Return starts and metric for a sampler; see :meth:`scorevi.Fit.to_mcmc`."""
    if tool not in get_args(Tool):
        known = ", ".join(f'"{one}"' for one in get_args(Tool))
        raise ValueError(f"`tool` must be one of {known}; got {tool!r}.")
    if metric not in get_args(Metric):
        raise ValueError(f'`metric` must be "dense" or "diagonal"; got {metric!r}.')
    if (folder is not None) != (tool == "cmdstan"):
        raise ValueError(
            f"`folder` must be given for CmdStan's files, and only for these ({tool})."
        )
    chains = as_count("chains", chains)
    target = target_of(fit, "so there is nothing to hand over for")
    fit.mean  # noqa: B018  (refuses a fit without an update)
    rng = as_rng(seed)
    white = as_gaussian(fit.q)
    inverse = white.covariance if metric == "dense" else white.sd**2
    starts = fit.q.sample(chains, rng)
    if tool == "cmdstan":
        assert folder is not None
        return HandOver(starts, inverse, _cmdstan(target, starts, inverse, Path(folder)))
    if tool == "nutpie":
        root = white if metric == "dense" else Gaussian(white.mean, np.diag(white.sd))
        return HandOver(starts, inverse, _nutpie(target, starts, root))
    make = {"pymc": _pymc, "numpyro": _numpyro, "blackjax": _blackjax}[tool]
    return HandOver(starts, inverse, make(target, starts, inverse))


def _cmdstan(target: Target, starts: Array, inverse: Array, folder: Path) -> dict[str, Any]:
    """Write init_1.json, init_2.json, … in constrained values, and metric.json."""
    _refuse_unless(isinstance(target, StanTarget), "cmdstan", "from_stan")
    if not folder.is_dir():
        raise ValueError(f"`folder` must be an existing folder; there is none at {folder}.")
    values = target.variables.constrained(starts)
    assert values is not None
    inits = [
        _written(
            folder / f"init_{chain + 1}.json",
            {name: value[chain].tolist() for name, value in values.items()},
        )
        for chain in range(len(starts))
    ]
    metric = _written(folder / "metric.json", {"inv_metric": inverse.tolist()})
    kind = "dense_e" if inverse.ndim == 2 else "diag_e"
    return {
        "inits": inits,
        "metric": kind,
        "metric_file": metric,
        "arguments": [f"init={folder / 'init.json'}", f"metric={kind}", f"metric_file={metric}"],
    }


def _written(path: Path, content: dict[str, Any]) -> str:
    try:
        with appearing(path) as part:
            part.write_text(json.dumps(content), encoding="utf-8")
    except OSError as error:
        raise ValueError(f"`folder` could not be written to: {path}: {why(error)}.") from None
    return str(path)


def _nutpie(target: Target, starts: Array, white: Gaussian) -> dict[str, Any]:
    """Return a model in the coordinates of q, whose draws are those of the parameters by name."""
    from_pyfunc = require("nutpie.compiled_pyfunc").from_pyfunc
    shapes = {name: value.shape[1:] for name, value in named(target, starts, "parameters").items()}
    lock = threading.Lock()
    waiting = list(white.whiten(starts))

    def log_density_and_score(z: Array) -> tuple[float, Array]:
        try:
            with lock:
                pair = Evaluator(target).point(white.mean + white.factor @ z)
        except TooManyBadScores:  # of one point there are none too many
            pair = None
        if pair is None:  # an exception would end nutpie's thread
            return LOW, np.ones(len(z))
        return pair.log_density, white.factor.T @ pair.score

    def expand(z: Array) -> dict[str, Array]:
        with lock:
            values = named(target, (white.mean + white.factor @ z)[None], "parameters")
        return {name: np.array(value[0], dtype=np.float64) for name, value in values.items()}

    def start(seed: int) -> Array:
        with lock:
            if waiting:
                return np.array(waiting.pop(0))
        return np.random.default_rng(seed).standard_normal(white.dim)

    model = from_pyfunc(
        white.dim,
        lambda: log_density_and_score,
        lambda *_: expand,
        [np.dtype(np.float64)] * len(shapes),
        list(shapes.values()),
        list(shapes),
        make_initial_point_fn=start,
    )
    return {"compiled_model": model, "chains": len(starts)}


def _pymc(target: Target, starts: Array, inverse: Array) -> dict[str, Any]:
    """Return values of the free variables by name, and what PyMC calls a potential."""
    potentials = require("pymc.step_methods.hmc.quadpotential")
    values = named(target, starts, "parameters")
    make = potentials.QuadPotentialFull if inverse.ndim == 2 else potentials.QuadPotentialDiag
    return {
        "initvals": [
            {name: np.array(value[chain]) for name, value in values.items()}
            for chain in range(len(starts))
        ],
        "potential": make(inverse),
    }


def _numpyro(target: Target, starts: Array, inverse: Array) -> dict[str, Any]:
    """Return unconstrained values by site; NumPyro has sites in the order of their names."""
    _refuse_unless(isinstance(target, JaxTarget), "numpyro", "from_numpyro")
    places = split(np.arange(target.dim, dtype=np.float64)[None], target.parameters)
    order = np.concatenate([places[name].reshape(-1) for name in sorted(places)]).astype(int)
    sorted_metric = inverse[np.ix_(order, order)] if inverse.ndim == 2 else inverse[order]
    return {
        "kernel": {
            "inverse_mass_matrix": sorted_metric,
            "dense_mass": inverse.ndim == 2,
            "adapt_mass_matrix": False,
        },
        "init_params": split(starts, target.parameters),
    }


def _blackjax(target: Target, starts: Array, inverse: Array) -> dict[str, Any]:
    """Return a log density of the flat vector, positions and the inverse mass matrix."""
    _refuse_unless(isinstance(target, JaxTarget), "blackjax", "from_jax or from_numpyro")
    assert isinstance(target, JaxTarget)
    batched: Callable[[Any], Any] = target.log_density_and_score
    return {
        "logdensity_fn": lambda theta: batched(theta[None])[0][0],
        "inverse_mass_matrix": inverse,
        "positions": starts,
    }


def _refuse_unless(fits: bool, tool: str, maker: str) -> None:
    if not fits:
        raise ValueError(
            f"`tool` {tool!r} needs a target made by {maker}; 'nutpie' takes any that has a log "
            "density."
        )
