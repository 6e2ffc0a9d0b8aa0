"""Data for a Stan program: read, compared with what the program declares, and written as JSON."""

from __future__ import annotations

import json
import numbers
import os
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from scorevi.base.extras import require

Data: TypeAlias = "Mapping[str, Any] | str | os.PathLike[str] | None"
_TEXTS = ("NaN", "Infinity", "-Infinity", "+Infinity", "Inf", "-Inf", "+Inf")
"""Numbers that JSON cannot write but as text."""


def read_data(data: Data) -> dict[str, Any]:
    """Take a dict, a path to JSON, or JSON text; nothing in it is executed."""
    if data is None:
        return {}
    if isinstance(data, Mapping):
        return {str(name): value for name, value in data.items()}
    if not isinstance(data, (str, os.PathLike)):
        raise ValueError(
            "`data` must be a dict, a path to a JSON file, or JSON text; "
            f"got {type(data).__name__}."
        )
    text, where = str(data), "the text"
    if not text.lstrip().startswith("{"):
        where = text
        try:
            text = Path(data).read_text(encoding="utf-8")
        except (OSError, UnicodeDecodeError) as error:
            reason = getattr(error, "strerror", None) or "it is not text"
            raise ValueError(f"`data` could not be read: {where}: {reason}.") from None
    try:
        parsed = json.loads(text)
    except ValueError as error:
        raise ValueError(f"`data` must be JSON; {where} is not: {error}.") from None
    if not isinstance(parsed, dict):
        raise ValueError(
            f"`data` must be a JSON object of names; {where} is a {type(parsed).__name__}."
        )
    return parsed


def write_data(data: Mapping[str, Any], inputs: Mapping[str, Mapping[str, Any]] | None) -> str:
    """Return Stan's JSON of the data, checked against what the program declares if known."""
    if inputs is None:
        checked = dict(data)
        for name, value in data.items():
            _refuse_masked(name, value)
    else:  # what the program does not declare may be anything, and is left out
        checked = {name: _as_declared(name, data, form) for name, form in inputs.items()}
    try:
        text: str = require("stanio").dump_stan_json(checked)
    except TypeError as error:
        raise ValueError(f"`data` must hold numbers and arrays of them: {error}.") from None
    return text


def explain(error: Exception) -> ValueError:
    """Turn what Stan says when it reads the data into the house's form."""
    text = re.sub(r"^Exception: ", "", str(error).strip())
    found = re.search(r"variable name=([^;\s]+)", text)
    subject = f"`data`: {found[1]!r} does not fit the program" if found else "`data` was refused"
    return ValueError(f"{subject}. Stan says: {text}")


def _as_declared(name: str, data: Mapping[str, Any], declared: Mapping[str, Any]) -> Any:
    """Check one value, and make whole numbers of floats where the program wants those."""
    if name not in data:
        raise ValueError(
            f"`data` must hold {name!r}, which the program declares as {_form(declared)}; "
            f"it holds {', '.join(data) or 'nothing'}."
        )
    value = data[name]
    _refuse_masked(name, value)
    kind, rank = declared.get("type"), declared.get("dimensions")
    if kind not in ("int", "real") or not isinstance(rank, int):
        return value
    array = _numbers(name, value)
    if array.size and array.ndim != rank:
        raise ValueError(f"`data`: {name!r} must be {_form(declared)}; got shape {array.shape}.")
    if kind == "int" and array.dtype.kind == "f":
        if not np.array_equal(array, np.rint(array)) or not np.isfinite(array).all():
            raise ValueError(f"`data`: {name!r} must hold whole numbers; it does not.")
        return array.astype(np.int64)
    return array


def _refuse_masked(name: str, value: Any) -> None:
    mask = np.ma.getmaskarray(value) if isinstance(value, np.ma.MaskedArray) else np.zeros(1)
    if mask.any():
        raise ValueError(
            f"`data`: {name!r} must have no masked entries; {int(mask.sum())} of {mask.size} are. "
            "Leave them out, or make them parameters of the program."
        )


def _numbers(name: str, value: Any) -> NDArray[Any]:
    """Return data as an array of real numbers."""
    try:
        array = np.asarray(value)
    except ValueError:
        raise ValueError(
            f"`data`: {name!r} must be rectangular; its rows differ in length."
        ) from None
    if array.dtype.kind in "buif":
        return array
    if array.dtype.kind in "cmM":
        raise ValueError(f"`data`: {name!r} must hold real numbers; got {array.dtype}.")
    # Entry by entry, because NumPy makes texts of numbers that stand beside a text.
    array = np.asarray(value, dtype=object)
    for index, entry in np.ndenumerate(array):
        if not isinstance(entry, numbers.Real) and entry not in _TEXTS:
            where = f" at {list(index)}" if index else ""
            raise ValueError(
                f"`data`: {name!r} must hold real numbers; got {type(entry).__name__} "
                f"{str(entry)[:40]!r}{where}."
            )
    return array.astype(np.float64)


def _form(declared: Mapping[str, Any]) -> str:
    rank = declared.get("dimensions")
    shape = "one number" if rank == 0 else f"an array of {rank} dimension{'s' * (rank != 1)}"
    return f"{shape} of type {declared.get('type')}"
