"""Files that appear whole or not at all."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np


@contextlib.contextmanager
def appearing(path: Path, *, shared: bool = True) -> Iterator[Path]:
    """Yield a name beside a file to write to; what is there gets the file's own name at the end.

    Parameters
    ----------
    path
        The file. What was there before is there until the new one is complete.
    shared
        Whether several processes may write it at the same time, each under a name of its own. What
        a killed process leaves of one that is not shared is overwritten by the next.
    """
    part = path.with_name(f".{path.name}{f'.{os.getpid()}' if shared else ''}.part")
    try:
        yield part
        part.replace(path)
    except OSError:
        with contextlib.suppress(OSError):
            part.unlink()
        raise


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
    with appearing(path, shared=not durable) as part, part.open("wb") as file:
        np.savez(file, allow_pickle=False, **arrays)
        if durable:
            file.flush()
            os.fsync(file.fileno())
    if durable:
        _sync_folder(path.parent)


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
