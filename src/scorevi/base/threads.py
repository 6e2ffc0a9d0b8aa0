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
def _libraries() -> tuple[Any, ...]:
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


@contextmanager
def one_thread(dim: int = 0) -> Iterator[None]:
    """One BLAS thread inside, and what the user had set after; no change in many dimensions."""
    if dim > _MANY:
        yield
        return
    # Threadpoolctl's own context asks each library for its version too, ten times as long.
    before = [(one, one.get_num_threads()) for one in _libraries()]
    more = [(one, number) for one, number in before if number != 1]
    for one, _ in more:
        one.set_num_threads(1)
    try:
        yield
    finally:
        for one, number in more:
            one.set_num_threads(number)


def taking_turns(target: object) -> AbstractContextManager[object]:
    """Wait for one's turn, in a process with several threads, unless the target needs none."""
    return nullcontext() if is_thread_safe(target) else _TURN
