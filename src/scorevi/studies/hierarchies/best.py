"""The best Gaussian of each hierarchy, by brute force; its ELBO is kept with the truth.

``python -m scorevi.studies.hierarchies.best [NAME...]`` makes them anew, after the truth, in half a
minute to two minutes a target. The search begins at the best of several places: the moments of the
posterior, fits from there, from N(0, I) and from the default start, two seeds each.
"""

from __future__ import annotations

import argparse
import time
import warnings
from collections.abc import Iterator, Sequence

import numpy as np

from scorevi.base.status import FitWarning
from scorevi.families import Gaussian, as_gaussian
from scorevi.fit import fit
from scorevi.starts.start import Initial
from scorevi.studies.best_gaussian import best_gaussian
from scorevi.studies.hierarchies.suite import hierarchies
from scorevi.studies.hierarchies.truth import Truth, load_truth, save_truth
from scorevi.studies.metrics import elbo, even_noise
from scorevi.targets import Target

NOISE_SEED = 2
"""Of the noise on which the ELBO is measured, which no fit has seen."""
_DRAWS, _FEWER = 20_000, 4000
_GRADIENTS, _SEEDS = 6000, 2


def noise_for(dim: int) -> np.ndarray[tuple[int, int], np.dtype[np.float64]]:
    """Return the noise on which the ELBO of all Gaussians is measured."""
    return even_noise(_DRAWS, dim, NOISE_SEED)


def with_best(target: Target, truth: Truth) -> Truth:
    """Return the truth with the best ELBO of a Gaussian, and its standard error."""
    z = even_noise(_FEWER, target.dim, NOISE_SEED + 1)
    start = max(_places(target, truth), key=lambda q: elbo(q, target, z))
    found = best_gaussian(target, start, draws=max(_FEWER, 60 * target.dim), iterations=40).q
    z = noise_for(target.dim)
    best = max((start, found), key=lambda q: elbo(q, target, z))
    points = best.points(z)
    log_density = target.evaluate(points.theta).log_density
    assert log_density is not None
    values = log_density - points.log_q
    # Of antithetic pairs, which are independent.
    pairs = 0.5 * (values[: len(z) // 2] + values[len(z) // 2 :])
    error = float(pairs.std() / np.sqrt(len(pairs)))
    return truth._replace(best_elbo=float(values.mean()), best_elbo_error=error)


def _places(target: Target, truth: Truth) -> Iterator[Gaussian]:
    moments = Gaussian(truth.mean, np.diag(truth.sd), float(np.log(truth.sd).sum()))
    yield moments
    starts: list[Initial] = [moments, None, "auto"]
    for seed in range(_SEEDS):
        for initial in starts:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore", FitWarning)
                found = fit(
                    target,
                    "replay",
                    initial=initial,
                    family="gaussian",
                    seed=seed,
                    max_gradients=_GRADIENTS,
                )
                yield as_gaussian(found.q)


def main(arguments: Sequence[str] | None = None) -> None:
    """Make the best ELBO of the given hierarchies anew, or of all of them."""
    parser = argparse.ArgumentParser(description="Make the best Gaussians of hierarchies anew.")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them by default")
    for name in parser.parse_args(arguments).names or hierarchies():
        began = time.monotonic()
        truth = with_best(hierarchies()[name](), load_truth(name))
        save_truth(name, truth)
        print(
            f"{name:30s} best ELBO {truth.best_elbo:.3f} ± {truth.best_elbo_error:.3f} "
            f"({time.monotonic() - began:.0f} s)",
            flush=True,
        )


if __name__ == "__main__":
    main()
