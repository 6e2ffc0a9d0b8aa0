"""What goes to another process as bytes: functions and targets, closures and lambdas included."""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from types import ModuleType
from typing import Any, NamedTuple, TypeVar

from scorevi.base.extras import require

T = TypeVar("T")
_BY_VALUE = threading.Lock()
"""What cloudpickle sends by value is a setting of the whole process."""


class Sent(NamedTuple):
    """Something on its way to another process."""

    content: bytes
    jax: bool
    """Whether there may be arrays of JAX in it."""


def sent(thing: Any) -> Sent:
    """Return something as bytes; raises what pickling it raises.

    Examples
    --------
    >>> received(sent(lambda x: x + 1))(2)
    3
    """
    import cloudpickle

    with _BY_VALUE, _by_value(cloudpickle, sys.modules.get("__mp_main__")):
        return Sent(cloudpickle.dumps(thing), "jax" in sys.modules)


def received(parcel: Sent) -> Any:
    """Return what was sent."""
    import cloudpickle

    # Arrays in double precision would be rounded on arrival otherwise.
    with require("jax").enable_x64(True) if parcel.jax else nullcontext():
        return cloudpickle.loads(parcel.content)


@functools.lru_cache(maxsize=4)
def arrived(parcel: Sent) -> Any:
    """Return what was sent, the same in all tasks of this process: what it compiled is kept."""
    return received(parcel)


def same(thing: T) -> T:
    """Return something as it is, as a task: many others can need it, and it can be run again."""
    return thing


@contextmanager
def _by_value(cloudpickle: Any, module: ModuleType | None) -> Iterator[None]:
    """Send what a module defines, instead of its name.

    A process that multiprocessing has spawned calls the user's script ``__mp_main__``, which other
    processes cannot import; of ``__main__``, cloudpickle knows that by itself.
    """
    if module is None or module.__name__ in cloudpickle.list_registry_pickle_by_value():
        yield
        return
    cloudpickle.register_pickle_by_value(module)
    try:
        yield
    finally:
        cloudpickle.unregister_pickle_by_value(module)
