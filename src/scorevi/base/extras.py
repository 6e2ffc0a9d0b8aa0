"""Optional dependencies: one message for all of them."""

from __future__ import annotations

import importlib
import warnings
from types import ModuleType

_EXTRA_OF = {
    "jax": "jax",
    "numpyro": "numpyro",
    "pymc": "pymc",
    "httpstan": "stan",
    "bridgestan": "stan",
    "platformdirs": "stan",
    "nutpie": "sample",
    "blackjax": "sample-jax",
    "filelock": "stan",
    "stanio": "stan",
    "arviz": "arviz",
    "pandas": "tables",
    "pyarrow": "tables",
    "matplotlib": "plots",
    "distributed": "dask",
}


def extras() -> dict[str, list[str]]:
    """Return the extras that a user may install, and the modules that each brings.

    Examples
    --------
    >>> extras()["tables"]
    ['pandas', 'pyarrow']
    """
    found: dict[str, list[str]] = {}
    for module, extra in _EXTRA_OF.items():
        if extra != "bench":
            found.setdefault(extra, []).append(module)
    return found


def require(module: str) -> ModuleType:
    """Import an optional module, or say how to install it.

    Examples
    --------
    >>> require("numpy").__name__
    'numpy'
    """
    try:
        with warnings.catch_warnings():
            # ArviZ 0.x announces its own refactor, which is nothing that our user can act on.
            warnings.filterwarnings("ignore", r"\s*ArviZ is undergoing", FutureWarning)
            return importlib.import_module(module)
    except ImportError as error:
        top = module.partition(".")[0]
        if top not in _EXTRA_OF or (error.name or top).partition(".")[0] != top:
            raise
        raise missing(top) from None


def missing(module: str) -> ImportError:
    """Return the error that says how to install an optional module."""
    return ImportError(
        f"This needs {module}, which is not installed. "
        f"Install it with: pip install 'scorevi[{_EXTRA_OF[module]}]'",
        name=module,
    )
