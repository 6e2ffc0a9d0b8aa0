"""A target as the bytes that go to a worker process."""

from __future__ import annotations

import dataclasses
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from types import ModuleType
from typing import Any

from scorevi.base.target import Target
from scorevi.base.variables import Variables

_BY_VALUE = threading.Lock()
"""What cloudpickle sends by value is a setting of the whole process."""


def pickled(target: Target) -> bytes:
    """Return the target as bytes, without what only this process needs."""
    import cloudpickle

    lean: Any = target
    if dataclasses.is_dataclass(lean):
        lean = dataclasses.replace(lean, variables=Variables())  # type: ignore[type-var]
    try:
        with _BY_VALUE, _as_part_of_the_target(cloudpickle, sys.modules.get("__mp_main__")):
            content: bytes = cloudpickle.dumps(lean)
    except Exception as error:
        raise ValueError(
            "`target` must be something that can be sent to another process for `isolate` and "
            f"`workers`; pickling it raised {type(error).__name__}: {error}. Leave them out, or "
            "open files and connections inside the function."
        ) from error
    return content


@contextmanager
def _as_part_of_the_target(cloudpickle: Any, module: ModuleType | None) -> Iterator[None]:
    """Send what a module defines, instead of its name.

    A process that multiprocessing has spawned calls the user's script ``__mp_main__``, which the
    workers cannot import; of ``__main__``, cloudpickle knows that by itself.
    """
    if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
