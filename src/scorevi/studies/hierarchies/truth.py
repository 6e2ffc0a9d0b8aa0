"""What is true of each hierarchy: moments and quantiles of long NUTS runs, kept in JSON files.

``python -m scorevi.studies.hierarchies.truth [NAME...]`` makes the files anew, which takes a minute
or two a model. A centered form with a funnel is not one that NUTS samples well. So one form
of each model is sampled, and the draws are transformed into those of its other forms; convergence
is judged for each form by its own parameters.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorevi.base.extras import require
from scorevi.base.labels import theta_labels
from scorevi.base.target import split
from scorevi.studies.hierarchies.sampling import Array, Chains, sample
from scorevi.studies.hierarchies.suite import Model, hierarchies, model
from scorevi.targets import Target

LEVELS = (0.05, 0.25, 0.5, 0.75, 0.95)
"""Of the quantiles."""
_FOLDER = Path(__file__).parent / "truth"
_SECONDS = 240.0
_MOST_RHAT, _LEAST_ESS, _MOST_DIVERGENT = 1.01, 1000.0, 0.001
_DIGITS = 8


class Truth(NamedTuple):
    """What is known of the posterior of one target, on the unconstrained scale."""

    labels: tuple[str, ...]
    """One per entry of theta, as a fit has them."""
    mean: Array
    sd: Array
    quantiles: Array
    """At :data:`LEVELS`, of shape (5, D)."""
    rhat: float
    """The largest of all parameters."""
    ess_bulk: float
    ess_tail: float
    """The smallest of all parameters."""
    draws: int
    """All chains together."""
    gradients: int
    divergences: int
    seconds: float
    """That NUTS took, on one machine."""
    by: str
    """The form that was sampled."""
    best_elbo: float = math.nan
    """The highest ELBO of any Gaussian that is known; NaN where none is."""
    best_elbo_error: float = math.nan
    """Its standard error."""

    @property
    def converged(self) -> bool:
        """Whether NUTS did: R-hat ≤ 1.01, ESS ≥ 1000, and one draw in 1000 divergent at most."""
        return (
            self.rhat <= _MOST_RHAT
            and min(self.ess_bulk, self.ess_tail) >= _LEAST_ESS
            and self.divergences <= _MOST_DIVERGENT * self.draws
        )


def load_truth(name: str) -> Truth:
    """Return what is true of a hierarchy.

    Examples
    --------
    >>> truth = load_truth("meta-8-centered")
    >>> truth.labels[:2], truth.converged
    (('log_tau', 'mu'), True)
    """
    path = _FOLDER / f"{name}.json"
    if not path.is_file():
        there = ", ".join(sorted(one.stem for one in _FOLDER.glob("*.json")))
        raise ValueError(f"`name` must be that of a hierarchy; got {name!r}. There are {there}.")
    read = json.loads(path.read_text(encoding="utf-8"))
    read.pop("converged")
    read["labels"] = tuple(read["labels"])
    for key in ("mean", "sd", "quantiles"):
        read[key] = np.array(read[key])
    for key in ("best_elbo", "best_elbo_error"):
        read[key] = math.nan if read[key] is None else read[key]
    return Truth(**read)


def save_truth(name: str, truth: Truth) -> None:
    """Write what is true of a hierarchy to its file."""
    written = {key: _plain(value) for key, value in truth._asdict().items()}
    written["converged"] = truth.converged
    text = json.dumps(written, indent=0, ensure_ascii=False)
    (_FOLDER / f"{name}.json").write_text(text + "\n", encoding="utf-8")


def transformed(theta: Array, source: Target, to: Target, form: Model) -> Array:
    """Turn draws (n, D) of one form into draws of another one of the same model.

    Parameters
    ----------
    theta
        Draws of ``source``.
    source, to
        The targets of the two forms.
    form
        The form that ``to`` is, which knows what its parameters are called in the other one.
    """
    values = split(theta, source.parameters) | source.variables.derived(theta, 0)
    names = [form.renamed.get(name, name) for name, _ in to.parameters]
    return np.column_stack([values[name].reshape(len(theta), -1) for name in names])


def make_truth(
    names: Sequence[str], limit: float = _SECONDS, least_ess: float = _LEAST_ESS
) -> dict[str, Truth]:
    """Sample one form of a model, and return what is true of the given forms of it.

    Parameters
    ----------
    names
        Hierarchies with the same form to sample.
    limit
        Seconds for NUTS.
    least_ess
        The effective sample size to go on for, where more than for convergence is wanted.
    """
    forms = {name: model(name) for name in names}
    (through,) = {form.through for form in forms.values()}
    source = model(through).make()
    targets = {name: form.make() for name, form in forms.items()}

    def summaries(theta: Array, divergences: int) -> dict[str, Truth]:
        chains = Chains(theta, 0, divergences, 0.0)
        return {name: _summary(chains, source, targets[name], form) for name, form in forms.items()}

    def enough(theta: Array, divergences: int) -> bool:
        found = summaries(theta, divergences).values()
        return all(
            truth.converged and min(truth.ess_bulk, truth.ess_tail) >= least_ess for truth in found
        )

    chains = sample(source, enough, limit)
    found = summaries(chains.theta, chains.divergences)
    return {
        name: truth._replace(gradients=chains.gradients, seconds=chains.seconds)
        for name, truth in found.items()
    }


def _summary(chains: Chains, source: Target, target: Target, form: Model) -> Truth:
    arviz = require("arviz")
    number, length, dim = chains.theta.shape
    flat = transformed(chains.theta.reshape(-1, dim), source, target, form)
    data = arviz.convert_to_dataset({"theta": flat.reshape(number, length, -1)})
    ess_bulk, ess_tail = (
        float(arviz.ess(data, method=method)["theta"].min()) for method in ("bulk", "tail")
    )
    return Truth(
        labels=theta_labels(target),
        mean=flat.mean(axis=0),
        sd=flat.std(axis=0),
        quantiles=np.quantile(flat, LEVELS, axis=0),
        rhat=float(arviz.rhat(data)["theta"].max()),
        ess_bulk=ess_bulk,
        ess_tail=ess_tail,
        draws=number * length,
        gradients=chains.gradients,
        divergences=chains.divergences,
        seconds=chains.seconds,
        by=form.through,
    )


def _with_known_best(name: str, truth: Truth) -> Truth:
    """Return the truth with the best ELBO that its file has, which does not depend on the rest."""
    if not (_FOLDER / f"{name}.json").is_file():
        return truth
    before = load_truth(name)
    return truth._replace(best_elbo=before.best_elbo, best_elbo_error=before.best_elbo_error)


def _plain(value: Any) -> Any:
    """Return what JSON can hold, with few digits."""
    if isinstance(value, (np.ndarray, tuple, list)):
        return [_plain(one) for one in value]
    if isinstance(value, float):
        return float(f"{value:.{_DIGITS}g}") if math.isfinite(value) else None
    return value


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the files of the given hierarchies anew, or of all of them."""
    parser = argparse.ArgumentParser(description="Make the truth of hierarchies anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them by default")
    parser.add_argument("--seconds", type=float, default=_SECONDS, help="for NUTS, each model")
    parser.add_argument("--ess", type=float, default=_LEAST_ESS, help="to go on for")
    given = parser.parse_args(arguments)
    groups: dict[str, list[str]] = {}
    for name in given.names or hierarchies():
        groups.setdefault(model(name).through, []).append(name)
    for group in groups.values():
        begin = time.monotonic()
        for name, truth in make_truth(group, given.seconds, given.ess).items():
            save_truth(name, _with_known_best(name, truth))
            print(
                f"{name:30s} D={len(truth.labels):4d} R-hat={truth.rhat:.4f} "
                f"ESS={truth.ess_bulk:.0f}/{truth.ess_tail:.0f} draws={truth.draws} "
                f"divergences={truth.divergences} gradients={truth.gradients} "
                f"{truth.seconds:.0f} s {'' if truth.converged else 'NOT CONVERGED'}",
                flush=True,
            )
        print(f"  {time.monotonic() - begin:.0f} s in all", flush=True)


if __name__ == "__main__":
    main()
