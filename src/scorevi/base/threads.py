"""BLAS threads, which fight each other over matrices as small as those of a fit.

A step works on many small matrices. Handing each to several threads costs more than it saves, and
where other processes want the cores too, ten or a hundred times more, because the threads wait for
each other by turning. The target's own evaluations are left as the user has set them.
"""

from __future__ import annotations

import functools
import threading
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

from scorevi.base.target import is_thread_safe

_MANY = 700
"""Dimensions whose matrices are large enough for threads to share."""
_TURN = threading.Lock()


@functools.cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


@contextmanager
def one_thread(dim: int = 0) -> Iterator[None]:
    """One BLAS thread inside, and what the user had set after; no change in many dimensions."""
    if dim > _MANY:
        yield
        return
    with _blas().limit(limits=1):
        yield


def taking_turns(target: object) -> AbstractContextManager[object]:
    """Wait for one's turn, in a process with several threads, unless the target needs none."""
    return nullcontext() if is_thread_safe(target) else _TURN
