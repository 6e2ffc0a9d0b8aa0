"""A Stan program with its data as a target: scores by calls into the compiled library."""

from __future__ import annotations

import ctypes
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from typing import Any

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.target import Evaluation, Failure, Parameter, describe
from scorevi.base.variables import Variables
from scorevi.targets.stan.columns import named_variables, unconstrained
from scorevi.targets.stan.interface import load_model

_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


@dataclass(frozen=True, eq=False, repr=False)
class StanTarget:
    """A target made by :func:`from_stan`."""

    model: Any
    """The ``bridgestan.StanModel``."""
    parameters: tuple[Parameter, ...]
    variables: Variables
    threads: int = 1
    name: str = "program.stan"
    """What messages call the program: its file's name."""
    _gradient: Callable[..., int] = field(init=False)
    _free: Callable[[ctypes.c_void_p], None] = field(init=False)
    _pool: ThreadPoolExecutor | None = field(init=False, default=None)

    has_log_density = True

    def __post_init__(self) -> None:
        # Addresses as plain numbers: the client's own checks cost more than a small gradient.
        library = ctypes.CDLL(self.model.lib_path)
        gradient, free = library.bs_log_density_gradient, library.bs_free_error_msg
        pointer, flag = ctypes.c_void_p, ctypes.c_bool
        gradient.argtypes = [pointer, flag, flag, pointer, pointer, pointer, pointer]
        gradient.restype = ctypes.c_int
        free.argtypes, free.restype = [pointer], None
        object.__setattr__(self, "_gradient", gradient)
        object.__setattr__(self, "_free", free)
        if self.threads > 1:
            object.__setattr__(self, "_pool", ThreadPoolExecutor(self.threads))

    @cached_property
    def dim(self) -> int:
        """The number of unconstrained dimensions."""
        return int(self.model.param_unc_num())

    @cached_property
    def thread_safe(self) -> bool:
        """Whether several threads may evaluate it at once: where the library was made for that."""
        return has_threads(self.model)

    def evaluate(self, theta: Array) -> Evaluation:
        """Evaluate at the rows of theta; a row at which Stan raises is NaN, with its reason."""
        theta = np.array(theta, dtype=np.float64, order="C")
        size = len(theta)
        score, log_density = np.empty(theta.shape), np.empty(size)
        failures: dict[int, Failure] = {}
        if size == 0:
            return Evaluation(score, log_density)
        if self._pool is None or size == 1:
            self._evaluate_rows(range(size), theta, score, log_density, failures)
        else:
            parts = np.array_split(np.arange(size), min(self.threads, size))
            ranges = [range(part[0], part[-1] + 1) for part in parts]
            work = [
                self._pool.submit(self._evaluate_rows, rows, theta, score, log_density, failures)
                for rows in ranges
            ]
            for part in work:
                part.result()
        return Evaluation(score, log_density, failures)

    def __repr__(self) -> str:
        return describe(self, repr(self.name))

    def _evaluate_rows(
        self,
        rows: range,
        theta: Array,
        score: Array,
        log_density: Array,
        failures: dict[int, Failure],
    ) -> None:
        gradient, model = self._gradient, self.model.model
        error = ctypes.c_void_p()
        at_error = _addressof(error)
        at_theta, at_score, at_log_density = _address(theta), _address(score), _address(log_density)
        step = theta.shape[1] * 8
        for row in rows:
            if gradient(
                model,
                True,
                True,
                at_theta + row * step,
                at_log_density + row * 8,
                at_score + row * step,
                at_error,
            ):
                score[row] = log_density[row] = np.nan
                failures[row] = Failure("raised", self._take(error))

    def __reduce__(self) -> tuple[Any, ...]:
        # The library by its path, and the data as the text that the model was made with.
        model, named = self.model, self.variables
        more = {
            "observed": named.observed,
            "predictive": named.predictive,
            "dims": named.dims,
            "coords": named.coords,
        }
        made_of = (model.lib_path, model.data, model.seed, self.threads, self.name, more)
        return _rebuilt, made_of

    def _take(self, error: ctypes.c_void_p) -> str:
        """Return Stan's message and free it."""
        if error.value is None:
            return "no reason given"
        text = ctypes.string_at(error.value).decode("utf-8", "replace").strip()
        self._free(error)
        error.value = None
        return text


def _rebuilt(
    library: str, data: str, seed: int, threads: int, name: str, more: dict[str, Any]
) -> StanTarget:
    model = load_model(library, data or None, seed)
    return StanTarget(model, unconstrained(model), named_variables(model, **more), threads, name)


def has_threads(model: Any) -> bool:
    """Return whether each thread has a stack of derivatives of its own."""
    return "STAN_THREADS=true" in model.model_info()


def _address(array: Any) -> int:
    """Return where the entries are; four times as fast as ``array.ctypes.data``."""
    return _addressof(_from_buffer(array))
