"""Making a target of a Stan program: source or library, and data in any form."""

from __future__ import annotations

import contextlib
import dataclasses
import os
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scorevi.base.arrays import as_count
from scorevi.targets.observations import warn_of_nan
from scorevi.targets.stan.build import build
from scorevi.targets.stan.columns import named_variables, unconstrained
from scorevi.targets.stan.data import explain, read_data, write_data
from scorevi.targets.stan.interface import client, load_model
from scorevi.targets.stan.program import Program, is_source
from scorevi.targets.stan.target import StanTarget, has_threads
from scorevi.targets.stan.toolchain import Toolchain


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
        model, name, code = program, Path(program.lib_path).name, ""
    else:
        model, given, name, code = _load(program, data, include_paths, seed, progress)
    if threads > 1 and not has_threads(model):
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
    variables = named_variables(
        model,
        observed={name: np.asarray(given[name]) for name in observed},
        predictive=predictive,
        dims=dims or {},
        coords=coords or {},
    )
    variables = dataclasses.replace(variables, source=code)
    return StanTarget(model, unconstrained(model), variables, threads, name)


def _load(
    program: Any,
    data: Any,
    include_paths: Sequence[str | os.PathLike[str]],
    seed: int,
    progress: bool | None,
) -> tuple[Any, dict[str, Any], str, str]:
    """Return the model, its data by name, what the program is called, and its source if known."""
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
        if source is None:
            return model, given, library.name, ""
        return model, given, source.name, source.code
    except RuntimeError as error:
        raise explain(error) from None
