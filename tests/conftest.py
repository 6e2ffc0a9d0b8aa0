"""Shared test material.

``SCOREVI_SEEDS`` sets how many seeds the recovery tests sweep; 3 by default.
"""

import os
import shutil
import signal
from pathlib import Path

# One BLAS thread for each process, which NumPy asks for when it is imported: on the small matrices
# of the tests several threads only wait for each other, on a busy machine a hundred times as long.
for _name in ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS"):
    os.environ.setdefault(_name, "1")

import numpy as np
import pytest

import scorevi
from scorevi.solvers import SOLVERS

# What Stan and JAX compile stays in the checkout from one run to the next, and out of the user's
# caches; the processes that tests start find it too.
_TESTS = Path(__file__).parent
_TARGETS = _TESTS.parent / "src" / "scorevi" / "targets"
_LANGUAGES = (_TESTS / "languages", *(_TARGETS / name for name in ("numpyro", "pymc", "stan")))
_CLUSTERS = _TESTS.parent / "src" / "scorevi" / "many"
_CACHE = _TESTS.parent / ".cache"
os.environ.setdefault("SCOREVI_CACHE", str(_CACHE))
if shutil.which("g++"):
    # Half the time of a fresh clone's tests is that of the C++ compiler, unless it hurries.
    os.environ.setdefault("CXX", "g++ -O1")
os.environ.setdefault("JAX_COMPILATION_CACHE_DIR", str(_CACHE / "jax"))
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS", "0.05")
os.environ.setdefault("JAX_PERSISTENT_CACHE_MIN_ENTRY_SIZE_BYTES", "-1")

# A shell that puts the tests into the background has them ignore Ctrl-C, and so would the
# processes that they start.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


def pytest_collection_modifyitems(items):
    """Mark what needs other languages or a cluster, and let what takes long begin first.

    What begins last, and takes long, keeps one process busy after all others have ended.
    """
    for item in items:
        if any(room in item.path.parents for room in _LANGUAGES):
            item.add_marker("languages")
        if _CLUSTERS in item.path.parents:
            item.add_marker("dask")
            item.add_marker("slow")
    items.sort(key=lambda item: item.get_closest_marker("slow") is None)


SHORT = pytest.mark.filterwarnings("ignore:NOT SETTLED")
"""For fits that are ended on purpose before they can have settled."""

SEEDS = range(int(os.environ.get("SCOREVI_SEEDS", "3")))


def logistic_regression(dim=5, rows=60):
    """A small logistic regression."""
    return scorevi.examples.logistic_regression(dim, rows, correlation=0.0)


def _as_gaussian_target(q):
    return scorevi.examples.gaussian(q.mean, q.covariance)


TARGETS = {
    "gaussian-1": lambda: _as_gaussian_target(scorevi.examples.random_gaussian(1, seed=1)),
    "gaussian-5": lambda: _as_gaussian_target(scorevi.examples.random_gaussian(5, 40, seed=1)),
    "gaussian-70": lambda: _as_gaussian_target(scorevi.examples.random_gaussian(70, 40, seed=1)),
    "tiny-scale": lambda: scorevi.examples.gaussian([1e-8, 0.0], np.diag([1e-16, 1e-12])),
    "huge-scale": lambda: scorevi.examples.gaussian([1e8, 0.0], np.diag([1e16, 1e10])),
    "sinh-arcsinh": lambda: scorevi.examples.sinh_arcsinh(
        scorevi.examples.random_gaussian(4, 10, seed=2), skew=0.3, tail=0.9
    ),
    "funnel": lambda: scorevi.examples.funnel(3, scale=1.0),
    "eight-schools": scorevi.examples.eight_schools,
    "logistic": logistic_regression,
}


@pytest.fixture(params=TARGETS)
def any_target(request):
    return TARGETS[request.param]()


@pytest.fixture(params=SOLVERS)
def any_solver(request):
    return request.param


def root_of(q):
    """Return a square root of the covariance of a Gaussian of any family."""
    white = q.coordinates
    return white.factor if isinstance(white, scorevi.Gaussian) else white.image(np.eye(q.dim)).T


def gsm_fit(target, solver="gsm", **options):
    """Fit with the paper's solver unless told otherwise, to the end of a fixed budget."""
    return scorevi.fit(target, solver, **{"stop": False, "max_gradients": 2000} | options)


def gsm_iterate(target, solver="gsm", **options):
    """Iterate with the paper's solver unless told otherwise."""
    return scorevi.iterate(target, solver, **options)
