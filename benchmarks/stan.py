"""Stan: what a gradient costs through a target, and what compiling costs."""

from __future__ import annotations

import ctypes
import os
import subprocess
import tempfile
import time
from importlib import resources
from pathlib import Path
from statistics import median

import numpy as np

import scorevi
from scorevi.targets.stan.toolchain import Toolchain
from scorevi.targets.synthetic import EIGHT_SCHOOLS

ROUNDS = 9
GRADIENTS = 5000
SCHOOLS = {"J": 8, "y": EIGHT_SCHOOLS["effect"], "sigma": EIGHT_SCHOOLS["standard_error"]}
LOOP = """
extern "C" void loop(int (*gradient)(void*, bool, bool, const double*, double*, double*, char**),
                     void* model, const double* theta, int rows, int dim,
                     double* log_density, double* score) {
  char* error = nullptr;
  for (int i = 0; i < rows; ++i)
    gradient(model, true, true, theta + i * dim, log_density + i, score + i * dim, &error);
}
"""


def _program(name: str) -> Path:
    return Path(str(resources.files("scorevi.studies"))) / "models" / f"{name}.stan"


def _bare_loop(folder: Path) -> ctypes._CFuncPtr:
    """Compile a loop in C around the library's function: no Python between two gradients."""
    source, library = folder / "loop.cpp", folder / "loop.so"
    source.write_text(LOOP)
    compiler = Toolchain.find().compiler
    subprocess.run(
        [*compiler, "-O2", "-shared", "-fPIC", str(source), "-o", str(library)], check=True
    )
    return ctypes.CDLL(str(library)).loop


def _addresses(*arrays: np.ndarray) -> list[ctypes.c_void_p]:
    return [ctypes.c_void_p(array.ctypes.data) for array in arrays]


def overhead() -> None:
    target = scorevi.from_stan(_program("eight_schools_noncentered"), SCHOOLS)
    theta = np.random.default_rng(0).normal(size=(GRADIENTS, target.dim))
    log_density, score = np.empty(GRADIENTS), np.empty_like(theta)
    function = ctypes.CDLL(target.model.lib_path).bs_log_density_gradient
    times: dict[str, list[float]] = {}
    with tempfile.TemporaryDirectory() as folder:
        loop = _bare_loop(Path(folder))
        at_theta, at_log_density, at_score = _addresses(theta, log_density, score)

        def bare() -> None:
            loop(
                function,
                ctypes.c_void_p(target.model.model),
                at_theta,
                GRADIENTS,
                target.dim,
                at_log_density,
                at_score,
            )

        def in_batches(size: int) -> None:
            for first in range(0, GRADIENTS, size):
                target.evaluate(theta[first : first + size])

        def client() -> None:
            for point in theta:
                target.model.log_density_gradient(point)

        works = {
            "bare C loop": bare,
            "scorevi, batches of 64": lambda: in_batches(64),
            "scorevi, batches of 8": lambda: in_batches(8),
            "scorevi, batches of 2": lambda: in_batches(2),
            "scorevi, one by one": lambda: in_batches(1),
            "BridgeStan's client, one by one": client,
        }
        for _ in range(ROUNDS):
            for name, work in works.items():
                began = time.perf_counter()
                work()
                times.setdefault(name, []).append(1e6 * (time.perf_counter() - began) / GRADIENTS)
    np.testing.assert_array_equal(target.evaluate(theta).score, score)
    print("Stan, µs per gradient, eight schools (D = 10), one thread")
    print(f"(medians of {ROUNDS} interleaved rounds; the bar is 5 µs over the bare C loop)\n")
    print("                                     µs    over the C loop")
    base = median(times["bare C loop"])
    for name, values in times.items():
        print(f"{name:32s} {median(values):8.2f} {median(values) - base:14.2f}")
    print()


def compiling() -> None:
    print("Stan, seconds to compile, from an empty cache\n")
    rows = [
        ("first program, with the shim", "eight_schools_noncentered"),
        ("second", "eight_schools_centered"),
        ("third, with the precompiled header", "gp_pois_regr"),
        ("fourth", "low_dim_gauss_mix"),
        ("the first again, from the cache", "eight_schools_noncentered"),
    ]
    before = os.environ.get("SCOREVI_CACHE")
    with tempfile.TemporaryDirectory() as folder:
        os.environ["SCOREVI_CACHE"] = folder
        for label, name in rows:
            began = time.perf_counter()
            scorevi.compile_stan(_program(name))
            print(f"{label:36s} {time.perf_counter() - began:8.2f}")
        size = sum(path.stat().st_size for path in Path(folder).rglob("*") if path.is_file())
    if before is None:
        del os.environ["SCOREVI_CACHE"]
    else:
        os.environ["SCOREVI_CACHE"] = before
    print(f"disk, mostly the header: {size / 1e6:.0f} MB\n")
