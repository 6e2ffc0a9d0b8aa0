"""A solver and its settings as text: the same in every process, and other for other settings."""

from __future__ import annotations

import dataclasses
import functools
import hashlib
import re
import warnings
from collections.abc import Mapping
from types import CodeType
from typing import Any

import numpy as np

from scorevi.base.arrays import Array

_STEPS = (*range(21), *(2**power for power in range(5, 21)))
"""Where a function of the step is looked at; one that counts up to its step takes no second."""


def identify(thing: Any) -> str:
    """Return a setting, or a solver with all of its settings, as text.

    Arrays and functions have a digest in it. A function is known by the numbers it gives at many
    steps, as a schedule does; one that gives none by its code and what that refers to.

    Examples
    --------
    >>> import scorevi
    >>> identify(scorevi.GSM(batch_size=3))
    'GSM(batch_size=3, settle=False)'
    >>> half, same = (lambda t: 1 / 2), (lambda step: 0.5)
    >>> identify(half) == identify(same), identify(half) == identify(lambda t: 1 / (2 + t))
    (True, False)
    """
    return _identify(thing, ())


def identify_code(function: Any) -> str:
    """Return a function as text by its name, its code and what that refers to; it is not called.

    Examples
    --------
    >>> one, other = (lambda t: t + 1), (lambda t: t + 2)
    >>> identify_code(one) == identify_code(one), identify_code(one) == identify_code(other)
    (True, False)
    """
    name = getattr(function, "__qualname__", type(function).__qualname__)
    return f"{name} ({_short(_code(function, ()).encode())})"


def digest(*arrays: Array) -> str:
    """Return a few letters that are other for arrays of other values."""
    content = b"".join(np.ascontiguousarray(array, dtype=float).tobytes() for array in arrays)
    return _short(content)


def _identify(thing: Any, within: tuple[int, ...]) -> str:
    if id(thing) in within:
        return "..."  # something that holds itself
    within = (*within, id(thing))
    if isinstance(thing, np.ndarray):
        content = repr(thing.tolist()).encode() if thing.dtype.hasobject else thing.tobytes()
        return f"array of shape {thing.shape}, {thing.dtype} ({_short(content)})"
    if isinstance(thing, (tuple, list)) and not hasattr(thing, "_fields"):
        inside = ", ".join(_identify(part, within) for part in thing)
        return f"[{inside}]" if isinstance(thing, list) else f"({inside})"
    if isinstance(thing, Mapping):
        parts = (f"{_identify(k, within)}: {_identify(v, within)}" for k, v in thing.items())
        return f"{{{', '.join(parts)}}}"
    settings = _settings(thing)
    if settings is not None:
        inside = ", ".join(f"{name}={_identify(value, within)}" for name, value in settings.items())
        return f"{type(thing).__qualname__}({inside})"
    if callable(thing) and not isinstance(thing, type):
        return _function(thing, within)
    return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(thing))


def _settings(thing: Any) -> dict[str, Any] | None:
    """Return what an object is made of; None where it says so itself, or is a function."""
    if isinstance(thing, type):
        return None
    if dataclasses.is_dataclass(thing):
        return {field.name: getattr(thing, field.name) for field in dataclasses.fields(thing)}
    if hasattr(thing, "_fields"):
        return dict(thing._asdict())
    if hasattr(thing, "__dict__") and repr(thing) == object.__repr__(thing):
        return dict(vars(thing))
    return None


def _function(function: Any, within: tuple[int, ...]) -> str:
    if _value(function, 0) is not None:
        values = [_value(function, step) for step in _STEPS]
        return f"a function ({_short(repr(values).encode())})"
    return f"a function ({_short(_code(function, within).encode())})"


def _value(function: Any, step: int) -> float | None:
    """Return the number that a function gives at a step; None where it gives none."""
    try:
        with np.errstate(all="ignore"), warnings.catch_warnings():
            warnings.simplefilter("ignore")
            value = np.asarray(function(step))
        return float(value) if value.shape == () and value.dtype.kind in "buif" else None
    except Exception:
        return None


def _code(function: Any, within: tuple[int, ...]) -> str:
    if isinstance(function, functools.partial):
        parts = (function.func, function.args, function.keywords)
        return "partial" + ", ".join(_identify(part, within) for part in parts)
    owner = getattr(function, "__self__", None)
    function = getattr(function, "__func__", function)
    code = getattr(function, "__code__", None)
    if not isinstance(code, CodeType):
        return re.sub(r" at 0x[0-9a-fA-F]+", "", repr(function))
    cells = [_content(cell) for cell in function.__closure__ or ()]
    refers = (function.__defaults__, function.__kwdefaults__, cells, owner)
    return f"{_plain(code)}{_identify(refers, within)}"


def _content(cell: Any) -> Any:
    try:
        return cell.cell_contents
    except ValueError:  # not assigned yet
        return None


def _plain(code: CodeType) -> str:
    """Return what code does, without where it is written."""
    constants = [_plain(one) if isinstance(one, CodeType) else repr(one) for one in code.co_consts]
    return repr((code.co_code.hex(), code.co_names, constants))


def _short(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()[:12]
