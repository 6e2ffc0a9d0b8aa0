"""BLAS threads, which fight each other over matrices as small as those of a fit.

A step works on many small matrices. Handing each to several threads costs more than it saves, and
where other processes want the cores too, ten or a hundred times more, because the threads wait for
each other by turning. So a run holds them to one, and gives the target, for its own evaluations, as
many as the user has set.
"""

from __future__ import annotations

import functools
import threading
from contextlib import AbstractContextManager, nullcontext
from typing import Any

from threadpoolctl import ThreadpoolController

from scorevi.base.target import is_thread_safe

_MANY = 700
"""Dimensions whose matrices are large enough for threads to share."""
_TURN = threading.Lock()


@functools.cache
def _libraries() -> tuple[Any, ...]:
    return tuple(ThreadpoolController().select(user_api="blas").lib_controllers)


class _Held(threading.local):
    """How often a thread is inside, and what was set before: threadpoolctl lets one thread set."""

    depth = 0
    before: tuple[tuple[Any, int], ...] = ()

    def to_one(self) -> None:
        for one, _ in self.before:
            one.set_num_threads(1)

    def as_before(self) -> None:
        for one, number in self.before:
            one.set_num_threads(number)


_HELD = _Held()


class _One:
    """One thread inside; a class, because a generator takes as long as a small matrix product."""

    def __enter__(self) -> None:
        if _HELD.depth == 0:
            # Threadpoolctl's own context asks each library for its version too, ten times as long.
            before = [(one, one.get_num_threads()) for one in _libraries()]
            _HELD.before = tuple((one, number) for one, number in before if number != 1)
            _HELD.to_one()
        _HELD.depth += 1

    def __exit__(self, *raised: object) -> None:
        _HELD.depth -= 1
        if _HELD.depth == 0:
            _HELD.as_before()


class _Users:
    """The user's threads inside."""

    def __enter__(self) -> None:
        if _HELD.depth:
            _HELD.as_before()

    def __exit__(self, *raised: object) -> None:
        if _HELD.depth:
            _HELD.to_one()


_ONE, _USERS, _AS_IT_IS = _One(), _Users(), nullcontext()


def one_thread(dim: int = 0) -> AbstractContextManager[None]:
    """One BLAS thread inside, and what the user had set after; no change in many dimensions."""
    return _AS_IT_IS if dim > _MANY else _ONE


def users_threads() -> AbstractContextManager[None]:
    """As many BLAS threads inside as the user has set, for what is the user's: the target."""
    return _USERS


def taking_turns(target: object) -> AbstractContextManager[object]:
    """Wait for one's turn, in a process with several threads, unless the target needs none."""
    return nullcontext() if is_thread_safe(target) else _TURN
