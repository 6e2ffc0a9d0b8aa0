"""BLAS threads, which fight each other over matrices as small as those of a fit.

A step works on many small matrices. Handing each to several threads costs more than it saves, and
where other processes want the cores too, ten or a hundred times more, because the threads wait for
each other by turning. The target's own evaluations are left as the user has set them.
"""

from __future__ import annotations

import functools
import threading
from contextlib import ContextDecorator
from typing import Any, Self

from threadpoolctl import ThreadpoolController


@functools.cache
def _blas() -> Any:
    return ThreadpoolController().select(user_api="blas")


class _OneThread(ContextDecorator):
    """One BLAS thread inside; what the user had set comes back when the last one has left.

    The setting is that of the process, so that fits in several threads share it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._inside = 0
        self._limit: Any = None

    def __enter__(self) -> Self:
        with self._lock:
            self._inside += 1
            if self._inside == 1:
                self._limit = _blas().limit(limits=1)
                self._limit.__enter__()
        return self

    def __exit__(self, *error: object) -> None:
        with self._lock:
            self._inside -= 1
            if self._inside == 0:
                self._limit.__exit__(*error)
                self._limit = None


one_thread = _OneThread()
"""``with one_thread:``, or as a decorator."""
