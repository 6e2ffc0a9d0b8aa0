"""A target as the bytes that go to a worker process."""

from __future__ import annotations

import dataclasses
from typing import Any

from scorevi.base.sending import sent
from scorevi.base.target import Target
from scorevi.base.variables import Variables


def pickled(target: Target) -> bytes:
    """Return the target as bytes, without what only this process needs."""
    lean: Any = target
    if dataclasses.is_dataclass(lean):
        lean = dataclasses.replace(lean, variables=Variables())  # type: ignore[type-var]
    try:
        return sent(lean).content
    except Exception as error:
        raise ValueError(
            "`target` must be something that can be sent to another process for `isolate` and "
            f"`workers`; pickling it raised {type(error).__name__}: {error}. Leave them out, or "
            "open files and connections inside the function."
        ) from error
