"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
import re
import uuid
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, BinaryIO

import numpy as np

try:
    import fcntl
except ImportError:  # Windows, where nobody can remove a file that is open
    _CAN_LOCK = False
else:
    _CAN_LOCK = True


@contextlib.contextmanager
def appearing(path: Path) -> Iterator[Path]:
    """Yield a name beside a file to write to; what is there gets the file's own name at the end.

    What was there before is there until the new one is complete. Any number of threads and
    processes may write the same file at the same time: each does so under a name of its own, and
    the last to end has it. What a killed process left of the file is removed.
    """
    _remove_left_behind(path)
    held = _claimed(path)
    part = Path(held.name)
    try:
        with held:
            yield part
            if not _CAN_LOCK:
                held.close()  # what is open cannot be renamed there
            part.replace(path)
    except BaseException:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


def _claimed(path: Path) -> BinaryIO:
    """Create a part of a file, and hold it: so that others see that somebody is at work on it."""
    while True:
        held = path.with_name(f".{path.name}.{uuid.uuid4().hex[:12]}.part").open("xb")
        if not _CAN_LOCK:
            return held
        with contextlib.suppress(OSError):  # not every file system has locks
            fcntl.flock(held, fcntl.LOCK_EX)
        if os.fstat(held.fileno()).st_nlink:
            return held
        held.close()  # it was taken for one left behind, in the moment before it was held


def _remove_left_behind(path: Path) -> None:
    """Remove parts of a file that nobody holds."""
    name = re.compile(rf"\.{re.escape(path.name)}\.[0-9a-f]{{12}}\.part")
    with contextlib.suppress(OSError):
        for part in [one for one in path.parent.iterdir() if name.fullmatch(one.name)]:
            with contextlib.suppress(OSError):
                if not _CAN_LOCK:
                    part.unlink()
                    continue
                with part.open("r+b") as file:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    part.unlink()


def write_arrays(path: Path, arrays: Mapping[str, Any], *, durable: bool = False) -> None:
    """Write an ``.npz`` file, whole or not at all.

    Parameters
    ----------
    path
        The file.
    arrays
        What it holds.
    durable
        For files that are written again and again: wait until the disk has it, so that a power
        cut cannot leave an empty file either.
    """
    with appearing(path) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        _sync_folder(path.parent)


def check_folder(path: str | Path, argument: str = "path") -> Path:
    """Refuse a path to write to whose folder does not exist, or that is a folder itself."""
    path = Path(path)
    if not path.name:
        raise ValueError(f"`{argument}` must name a file; got an empty name.")
    if not path.parent.is_dir():
        raise ValueError(f"`{argument}` must lie in an existing folder; there is no {path.parent}.")
    if path.is_dir():
        raise ValueError(f"`{argument}` must be a file to write; there is a folder at {path}.")
    return path


def why(error: OSError) -> str:
    """Return the reason in words."""
    return error.strerror or type(error).__name__


def _sync_folder(folder: Path) -> None:
    """Make a new name last; not every system can, and the content is safe without it."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)
