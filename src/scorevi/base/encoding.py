"""Nested values as JSON and plain arrays, and back to the same bits. Nothing is ever executed.

What may be nested: None, booleans, numbers, texts, lists, tuples, dicts by text, arrays, NumPy's
scalars, and records, which are NamedTuples and dataclasses of known types.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from scorevi.base.arrays import AnyArray

Types = Mapping[str, type]


class CannotHold(TypeError):
    """A value is of a type that has no form on disk."""


def record_types(*examples: Any) -> dict[str, type]:
    """Return the types of all records in the examples, by name."""
    found: dict[str, type] = {}
    for example in examples:
        fields = _fields(example)
        if fields is not None:
            found[type(example).__name__] = type(example)
            found |= record_types(*fields.values())
        elif isinstance(example, (list, tuple)):
            found |= record_types(*example)
        elif isinstance(example, Mapping):
            found |= record_types(*example.values())
    return found


def encode(value: Any, types: Types, arrays: list[AnyArray]) -> Any:
    """Return a value as JSON has it; arrays are added to ``arrays``, and their places noted."""
    if value is None or type(value) in (bool, int, float, str):
        return value
    if isinstance(value, (np.ndarray, np.generic)):
        if value.dtype.hasobject:
            raise CannotHold("an array of objects")
        # The order in memory is kept, because products of matrices depend on it in the last bit.
        arrays.append(np.array(value, order="K"))
        return {"array" if isinstance(value, np.ndarray) else "scalar": len(arrays) - 1}
    fields = _fields(value)
    if fields is not None and types.get(type(value).__name__) is type(value):
        return {
            "record": type(value).__name__,
            "fields": {name: encode(field, types, arrays) for name, field in fields.items()},
        }
    if type(value) in (list, tuple):
        return {type(value).__name__: [encode(item, types, arrays) for item in value]}
    if type(value) is dict and all(type(key) is str for key in value):
        return {"dict": {key: encode(item, types, arrays) for key, item in value.items()}}
    raise CannotHold(f"a {type(value).__name__}")


def decode(code: Any, types: Types, arrays: Sequence[AnyArray]) -> Any:
    """Return the value that :func:`encode` was given."""
    if not isinstance(code, dict):
        return code
    kind, content = next(iter(code.items()))
    if kind == "array":
        return arrays[content]
    if kind == "scalar":
        return arrays[content][()]
    if kind == "record":
        fields = {name: decode(field, types, arrays) for name, field in code["fields"].items()}
        return types[content](**fields)
    if kind == "dict":
        return {key: decode(item, types, arrays) for key, item in content.items()}
    items: Iterable[Any] = (decode(item, types, arrays) for item in content)
    return {"list": list, "tuple": tuple}[kind](items)


def _fields(value: Any) -> dict[str, Any] | None:
    """Return the fields of a record; None for anything else."""
    if isinstance(value, tuple) and hasattr(value, "_asdict"):
        return dict(value._asdict())
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return {field.name: getattr(value, field.name) for field in dataclasses.fields(value)}
    return None
