"""How much memory there is."""

from __future__ import annotations

import os
from pathlib import Path

_MEMINFO = Path("/proc/meminfo")
_LIMITS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def available_bytes() -> int | None:
    """Return how many bytes a process may still take; None where that cannot be told.

    What the system calls available, where it does (Linux), and no more than a container may have;
    else all that there is.
    """
    found = [limit for limit in (_available(), _limit()) if limit is not None]
    return min(found, default=None)


def _available() -> int | None:
    try:
        for line in _MEMINFO.read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return 1024 * int(line.split()[1])
    except (OSError, ValueError, IndexError):
        pass
    try:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    except (AttributeError, OSError, ValueError):
        return None


def _limit() -> int | None:
    for path in _LIMITS:
        try:
            return int(path.read_text())
        except (OSError, ValueError):
            continue
    return None


def in_words(size: float) -> str:
    """Return a number of bytes as a person would say it.

    Examples
    --------
    >>> in_words(3 * 2**30)
    '3 GiB'
    """
    for name, unit in (("TiB", 2**40), ("GiB", 2**30)):
        if size >= unit:
            return f"{size / unit:.3g} {name}"
    return f"{size / 2**20:.3g} MiB"
