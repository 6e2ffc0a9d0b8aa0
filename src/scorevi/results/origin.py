"""Where a fit comes from: what was asked, with what versions, of what model."""

from __future__ import annotations

import datetime as dt
import functools
import importlib.metadata
import inspect
import platform
import sys
from collections.abc import Callable, Mapping
from os import PathLike
from typing import Any, NamedTuple

import numpy as np

from scorevi._version import __version__
from scorevi.base.target import Target

_MODULES = (
    "numpy",
    "scipy",
    "jax",
    "jaxlib",
    "numpyro",
    "pymc",
    "pytensor",
    "bridgestan",
    "httpstan",
    "arviz",
)
_MOST_ENTRIES = 20
"""Of an array that is told whole."""
_NOT_TOLD = ("target", "progress", "raise_on_failure")
"""Arguments on which the result does not depend, or that have a place of their own."""


class Origin(NamedTuple):
    """What a fit was made by, so that it can be made again."""

    settings: Mapping[str, Any] = {}
    """The arguments of :func:`scorevi.fit`, as far as JSON can tell them."""
    call: str = ""
    """The call, with what was not left at its default."""
    versions: Mapping[str, str] = {}
    """Of Python and of the packages that took part."""
    made: str = ""
    """When, in UTC."""
    source: str = ""
    """The model as its author wrote it, where that is known."""
    command: str = ""
    """The command line, where the fit was made by it."""


def origin_of(
    function: Callable[..., Any], asked: Mapping[str, Any], seed: int, target: Target
) -> Origin:
    """Return where a fit comes from.

    Parameters
    ----------
    function
        What was called.
    asked
        Its arguments by name.
    seed
        The seed as it was used, also where none was given.
    target
        What was fitted.
    """
    told = {name: asked[name] for name in asked if name not in _NOT_TOLD} | {"seed": seed}
    settings = {name: plain(value) for name, value in told.items()}
    parameters = inspect.signature(function).parameters
    changed = [
        f"{name}={_code(told[name], settings[name])}"
        for name in settings
        if name == "seed" or settings[name] != plain(parameters[name].default)
    ]
    return Origin(
        settings=settings,
        call=f"scorevi.{function.__name__}({', '.join(['target', *changed])})",
        versions=_versions(),
        made=dt.datetime.now(dt.UTC).isoformat(timespec="seconds"),
        source=target.variables.source,
    )


def plain(value: Any) -> Any:
    """Return a setting as JSON has it; what JSON cannot have, in words."""
    if value is None or isinstance(value, (bool, str)):
        return value
    if isinstance(value, (int, np.integer)):
        return int(value)
    if isinstance(value, (float, np.floating)):
        return float(value) if np.isfinite(value) else str(value)
    if isinstance(value, PathLike):
        return str(value)
    if isinstance(value, Mapping):
        return {str(name): plain(one) for name, one in value.items()}
    try:
        array = np.asarray(value)
    except ValueError:
        return f"a {type(value).__name__}"
    if array.dtype.kind in "buif" and array.ndim:
        return array.tolist() if array.size <= _MOST_ENTRIES else f"an array {array.shape}"
    text = repr(value)
    typed = "(" in text and not any(odd in text for odd in (" at 0x", "array("))
    return text if typed else f"a {type(value).__name__}"


def _code(value: Any, told: Any) -> str:
    """Return a setting as one would type it; one that is told in words, in angle brackets."""
    if isinstance(told, str) and not isinstance(value, (str, PathLike)):
        return told if told.partition("(")[0].isidentifier() else f"<{told}>"
    return repr(told)


@functools.cache
def _version(name: str) -> str:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return str(getattr(sys.modules[name], "__version__", "?"))


def _versions() -> dict[str, str]:
    """Return the versions of what is loaded now."""
    known = {"scorevi": __version__, "python": platform.python_version()}
    known["platform"] = f"{platform.system()} {platform.machine()}"
    return known | {name: _version(name) for name in _MODULES if name in sys.modules}
