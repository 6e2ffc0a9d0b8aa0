"""Gaussian posterior approximations by score matching.

>>> import scorevi
>>> fit = scorevi.fit(scorevi.examples.eight_schools(), seed=0)
>>> fit.status == "converged"
True
"""

from scorevi import examples, plots
from scorevi._version import __version__
from scorevi.base.status import FitError, FitWarning, Status
from scorevi.families import Gaussian, LowRank, Mixture, Nested
from scorevi.fit import Step, fit, iterate
from scorevi.many import Fits, fit_many
from scorevi.results.fit import Fit
from scorevi.results.loading import load
from scorevi.results.parts import Trace
from scorevi.results.sample import Sample
from scorevi.sample import sample
from scorevi.solvers import BBVI, GSM, BaM, LowRankReplay, Replay
from scorevi.targets import (
    from_function,
    from_jax,
    from_numpyro,
    from_pymc,
    from_shards,
    from_stan,
)
from scorevi.targets.stan import compile_stan

__all__ = [
    "BBVI",
    "GSM",
    "BaM",
    "Fit",
    "FitError",
    "FitWarning",
    "Fits",
    "Gaussian",
    "LowRank",
    "LowRankReplay",
    "Mixture",
    "Nested",
    "Replay",
    "Sample",
    "Status",
    "Step",
    "Trace",
    "__version__",
    "compile_stan",
    "examples",
    "fit",
    "fit_many",
    "from_function",
    "from_jax",
    "from_numpyro",
    "from_pymc",
    "from_shards",
    "from_stan",
    "iterate",
    "load",
    "plots",
    "sample",
]
