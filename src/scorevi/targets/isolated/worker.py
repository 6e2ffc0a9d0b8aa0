"""The process on the other side of :mod:`scorevi.targets.isolated`: points in, scores out."""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import signal
import struct
import sys
from typing import Any, BinaryIO

import numpy as np

from scorevi.base.extras import require
from scorevi.base.target import Failure, Target, failure
from scorevi.targets.jax import JaxTarget

IN_WORKER = "SCOREVI_IN_WORKER"
"""The environment variable that is set in workers."""
LENGTH = struct.Struct("<Q")
_DIE_WITH_PARENT = 1


def main() -> None:
    """Load the target, say so, and answer until the other side closes."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the other side decides when to end
    if sys.platform == "linux":  # which alone has it
        with contextlib.suppress(AttributeError, OSError):
            ctypes.CDLL(None).prctl(_DIE_WITH_PARENT, signal.SIGKILL)
    questions = sys.stdin.buffer
    answers = os.fdopen(os.dup(1), "wb")
    # What a model prints must not get among the answers.
    os.dup2(2, 1)
    np.seterr(all="ignore")
    try:
        target = _load(questions)
    except BaseException as error:
        _send(answers, f"{type(error).__name__}: {error}".encode())
        return
    _send(answers, b"")
    size = 8 * target.dim
    while len(point := questions.read(size)) == size:
        _send(answers, _answer(target, np.frombuffer(point, dtype=np.float64).copy()))


def receive(file: BinaryIO) -> bytes | None:
    """Return the next message; None where the other side is gone."""
    head = file.read(LENGTH.size)
    if len(head) < LENGTH.size:
        return None
    (length,) = LENGTH.unpack(head)
    content = file.read(length)
    return content if len(content) == length else None


def _send(file: BinaryIO, content: bytes) -> None:
    file.write(LENGTH.pack(len(content)) + content)
    file.flush()


def _load(questions: BinaryIO) -> Target:
    import cloudpickle

    kind, content = receive(questions), receive(questions)
    if kind is None or content is None:
        raise EOFError("the target did not arrive")
    if kind != b"jax":
        target: Target = cloudpickle.loads(content)
        return target
    # Arrays in double precision would be rounded on arrival otherwise.
    with require("jax").enable_x64(True):
        compiled: JaxTarget = cloudpickle.loads(content)
    compiled.evaluate(np.zeros((1, compiled.dim)))  # compiles: no point should seem slow for that
    return compiled


def _answer(target: Target, point: Any) -> bytes:
    """Return score, log density and, where there are none, the reason."""
    score = np.full(target.dim, np.nan)
    log_density = np.full(1, np.nan)
    reason: Failure | None = None
    try:
        found = target.evaluate(point[None])
        score[:] = found.score[0]
        if found.log_density is not None:
            log_density[:] = found.log_density[0]
        reason = found.failures.get(0)
    except Exception as error:
        reason = failure(error)
    except BaseException as error:  # such as SystemExit
        reason = Failure("raised", f"{type(error).__name__}: {error}")
    text = b"" if reason is None else json.dumps(reason).encode()
    return score.tobytes() + log_density.tobytes() + text
