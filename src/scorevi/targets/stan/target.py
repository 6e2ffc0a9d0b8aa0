"""Targets from Stan programs, through BridgeStan's interface."""

from __future__ import annotations

import contextlib
import ctypes
import os
import re
import warnings
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from scorevi.base.arrays import Array, as_count
from scorevi.base.status import FitWarning
from scorevi.base.target import Evaluation, Failure, Parameter, describe
from scorevi.base.variables import Variables
from scorevi.targets.observations import warn_of_nan
from scorevi.targets.points import Inverse
from scorevi.targets.stan.interface import client, load_model

_LOG_LIKELIHOOD = "log_lik"
"""What programs call their pointwise log likelihood, by convention, or begin its name with."""


_addressof, _from_buffer = ctypes.addressof, ctypes.c_char.from_buffer


class Output(NamedTuple):
    """A variable among the columns that Stan writes."""

    name: str
    columns: NDArray[np.intp]
    """Of the variable's shape: which column holds each entry."""


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
        return _has_threads(self.model)

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


def from_stan(
    program: Any,
    data: Any = None,
    *,
    include_paths: Sequence[str | os.PathLike[str]] = (),
    seed: int = 0,
    threads: int = 1,
    observed: Sequence[str] = (),
    predictive: Sequence[str] = (),
    dims: Mapping[str, Sequence[str]] | None = None,
    coords: Mapping[str, Sequence[Any]] | None = None,
    progress: bool | None = None,
) -> StanTarget:
    """Make a target of a Stan program and its data.

    The program is compiled on first use, which takes about half a minute and a C++ compiler, and
    found in the cache from then on.

    Parameters
    ----------
    program
        A path to a ``.stan`` file; the source as text; a path to a shared library with
        BridgeStan's interface; or a ``bridgestan.StanModel``, which has its data already.
    data
        A dict, in which NumPy arrays are welcome; a path to a JSON file; or JSON text.
    include_paths
        Folders that hold files which the program includes. Its own folder is searched too.
    seed
        For random numbers in the program's ``transformed data``.
    threads
        How many threads evaluate a batch at once; the result does not depend on it.
    observed
        Names of data that were observed, for ArviZ's group of that name.
    predictive
        Names of generated quantities that are draws of data, such as ``y_rep``: ArviZ's group
        ``posterior_predictive``. They are left out of the summary.
    dims, coords
        Names of a variable's axes, and labels along them, as in ArviZ.
    progress
        Whether to say on standard error that the program is being compiled; None for only in a
        terminal or notebook.

    Notes
    -----
    Variables whose names begin with ``log_lik`` are taken to be pointwise log likelihoods.
    Unconstrained parameters keep the name of the parameter they belong to; those of more than one
    dimension appear as vectors in Stan's order, because their unconstrained form may have no
    shape. ``fit.labels`` says which entry of the parameter each of them stands for.

    Examples
    --------
    >>> import scorevi
    >>> code = '''
    ... data { int n; array[n] real y; }
    ... parameters { real mu; real<lower=0> sigma; }
    ... model { mu ~ normal(0, 10); sigma ~ exponential(1); y ~ normal(mu, sigma); }
    ... '''
    >>> target = scorevi.from_stan(code, {"n": 3, "y": [1.0, 2.0, 4.0]})
    >>> target.dim, [parameter.name for parameter in target.parameters]
    (2, ['mu', 'sigma'])
    """
    bridgestan = client()
    threads = as_count("threads", threads)
    given: dict[str, Any] = {}
    if isinstance(program, bridgestan.StanModel):
        if data is not None:
            raise ValueError("`data` must be left out for a StanModel, which has its data.")
        model, name = program, Path(program.lib_path).name
    else:
        model, given, name = _load(program, data, include_paths, seed, progress)
    if threads > 1 and not _has_threads(model):
        raise ValueError(
            f"`threads` must be 1 for a library compiled without STAN_THREADS; got {threads}."
        )
    if model.param_unc_num() == 0:
        raise ValueError("`program` must declare parameters; it has none to fit.")
    if isinstance(observed, str):
        raise ValueError(f"`observed` must be a list of names; got {observed!r}.")
    unknown = [name for name in observed if name not in given]
    if unknown:
        raise ValueError(
            f"`observed` must name data; {unknown[0]!r} is not among "
            f"{', '.join(given) or 'them: there are none'}."
        )
    variables = _variables(
        model,
        observed={name: np.asarray(given[name]) for name in observed},
        predictive=predictive,
        dims=dims or {},
        coords=coords or {},
    )
    return StanTarget(model, _unconstrained(model), variables, threads, name)


def _rebuilt(
    library: str, data: str, seed: int, threads: int, name: str, more: dict[str, Any]
) -> StanTarget:
    model = load_model(library, data or None, seed)
    return StanTarget(model, _unconstrained(model), _variables(model, **more), threads, name)


def _has_threads(model: Any) -> bool:
    """Return whether each thread has a stack of derivatives of its own."""
    return "STAN_THREADS=true" in model.model_info()


def _address(array: Any) -> int:
    """Return where the entries are; four times as fast as ``array.ctypes.data``."""
    return _addressof(_from_buffer(array))


def _load(
    program: Any,
    data: Any,
    include_paths: Sequence[str | os.PathLike[str]],
    seed: int,
    progress: bool | None,
) -> tuple[Any, dict[str, Any], str]:
    """Return the model, its data by name, and what the program is called."""
    from scorevi.targets.stan.build import build
    from scorevi.targets.stan.data import explain, read_data, write_data
    from scorevi.targets.stan.program import Program, is_source
    from scorevi.targets.stan.toolchain import Toolchain

    if not isinstance(program, (str, os.PathLike)):
        raise ValueError(
            "`program` must be a path, the source of a Stan program or a bridgestan.StanModel; "
            f"got {type(program).__name__}."
        )
    given = read_data(data)
    inputs = source = None
    if not is_source(program) and Path(program).suffix in (".so", ".dylib", ".dll"):
        library = Path(program)
        if not library.is_file():
            raise ValueError(f"`program` must be a file; there is none at {library}.")
    else:
        source = Program.read(program, include_paths)
        with contextlib.suppress(ImportError):  # with BridgeStan's own toolchain it may be missing
            inputs = source.describe(Toolchain.find())["inputs"]
    text = write_data(given, inputs)
    used = given if inputs is None else {name: given[name] for name in inputs}
    warn_of_nan(used, "data", "program", stacklevel=3)
    if source is not None:
        library = build(source, progress)
    try:
        model = load_model(library, text, seed)
        return model, given, library.name if source is None else source.name
    except RuntimeError as error:
        raise explain(error) from None


def _outputs(names: Sequence[str]) -> list[Output]:
    """Sort columns named ``beta.1.2`` into variables; indices count from 1, in any order.

    Parts of a tuple or of a complex number become variables of their own: ``pair:1``, ``z.real``.

    Examples
    --------
    >>> [(name, columns.tolist()) for name, columns in _outputs(["a", "b.1.1", "b.2.1"])]
    [('a', 0), ('b', [[1], [2]])]
    """
    entries: dict[str, dict[tuple[int, ...], int]] = {}
    for column, name in enumerate(names):
        index = tuple(int(text) - 1 for text in re.findall(r"\.(\d+)", name))
        entries.setdefault(re.sub(r"\.\d+", "", name), {})[index] = column
    outputs = []
    for name, columns in entries.items():
        shape = tuple(np.array(list(columns)).max(axis=0) + 1)
        where = np.zeros(shape, dtype=np.intp)
        for index, column in columns.items():
            where[index] = column
        outputs.append(Output(name, where))
    return outputs


def _unconstrained(model: Any) -> tuple[Parameter, ...]:
    """Return the parameters' names with their sizes on the unconstrained space."""
    return tuple(
        Parameter(name, columns.shape if columns.ndim <= 1 else (columns.size,))
        for name, columns in _outputs(model.param_unc_names())
    )


def _variables(model: Any, **more: Any) -> Variables:
    parameters = _outputs(model.param_names())
    everything = _outputs(model.param_names(include_tp=True, include_gq=True))
    derived = everything[len(parameters) :]
    likelihoods = [output for output in derived if output.name.startswith(_LOG_LIKELIHOOD)]

    def read(outputs: Sequence[Output], theta: Array, seed: int | None) -> dict[str, Array]:
        values = _written(model, theta, seed)
        return {name: values[:, columns] for name, columns in outputs}

    def constrain(theta: Array) -> dict[str, Array]:
        return read(parameters, theta, None)

    def unconstrain(values: dict[str, Array]) -> Array:
        flat = np.empty(model.param_num())
        for name, columns in parameters:
            flat[columns] = values[name]
        return np.asarray(model.param_unconstrain(flat))

    variables = Variables(
        constrain=constrain,
        unconstrain=Inverse(unconstrain, constrain, _unconstrained(model)),
        derive=(lambda theta, seed: read(derived, theta, seed)) if derived else None,
        log_likelihood=(lambda theta: read(likelihoods, theta, 0)) if likelihoods else None,
        likelihoods=[output.name for output in likelihoods],
        **more,
    )
    variables.check_names(
        {name: columns.shape for name, columns in everything},
        {name: value.shape for name, value in variables.observed.items()},
    )
    return variables


def _written(model: Any, theta: Array, seed: int | None) -> Array:
    """Return all that Stan writes at the rows of theta: with a seed, derived quantities too."""
    everything = seed is not None
    theta = np.ascontiguousarray(theta, dtype=np.float64)
    values = np.empty((len(theta), model.param_num(include_tp=everything, include_gq=everything)))
    rng = None
    if seed is not None:
        rng = model.new_rng(int(np.random.SeedSequence(seed).generate_state(1)[0]))
    failed = []
    for point, out in zip(theta, values, strict=True):
        try:
            model.param_constrain(
                point, include_tp=everything, include_gq=everything, out=out, rng=rng
            )
        except RuntimeError as error:
            out[:] = np.nan
            failed.append(str(error).strip())
    if failed:
        warnings.warn(
            f"At {len(failed)} of {len(theta)} draws Stan could not compute the "
            f"{'derived quantities' if everything else 'parameters'}, which are NaN there. It "
            f"says: {failed[0]}",
            FitWarning,
            stacklevel=2,
        )
    return values
