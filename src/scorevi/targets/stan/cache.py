"""The user's folder of compiled programs: private, bounded, and safe for many at once."""

from __future__ import annotations

import contextlib
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

from scorevi.base.extras import require

_DAY = 86_400.0


def folder() -> Path:
    """Return the cache's folder, made if need be: SCOREVI_CACHE, or where caches belong here."""
    asked = os.environ.get("SCOREVI_CACHE")
    path = Path(asked) if asked else require("platformdirs").user_cache_path("scorevi")
    path = path.absolute()
    try:
        path.mkdir(mode=0o700, parents=True, exist_ok=True)
        state = path.stat()
    except OSError as error:
        raise ValueError(
            f"The cache folder {path} cannot be used: {error.strerror}. "
            "Set SCOREVI_CACHE to a folder of your own."
        ) from None
    # Libraries from here are loaded into the process, so nobody else may write to it. Windows has
    # neither numbers of users nor these bits, and its folder for caches is the user's own.
    if hasattr(os, "getuid") and (
        state.st_uid != os.getuid() or state.st_mode & (stat.S_IWGRP | stat.S_IWOTH)
    ):
        raise ValueError(
            f"The cache folder {path} must belong to you and be writable by you alone. "
            f"Use chmod go-w {path}, or set SCOREVI_CACHE to a folder of your own."
        )
    return path


def entry(kind: str, key: str, fill: Callable[[Path], None], keep: int) -> Path:
    """Return the folder of an entry; where there is none, ``fill`` is given an empty one to fill.

    An entry appears whole or not at all. Of several processes that want the same one, one fills
    it and the others wait. Of each kind the ``keep`` entries used last are kept.
    """
    shelf = folder() / kind
    shelf.mkdir(mode=0o700, exist_ok=True)
    path = shelf / key
    if not path.is_dir():
        with require("filelock").FileLock(shelf / f".{key}.lock"):
            if not path.is_dir():
                work = Path(tempfile.mkdtemp(prefix=".part-", dir=shelf))
                try:
                    fill(work)
                    work.rename(path)
                finally:
                    shutil.rmtree(work, ignore_errors=True)
        _prune(shelf, keep)
    with contextlib.suppress(OSError):
        os.utime(path)
    return path


def count(kind: str, prefix: str) -> int:
    """Return how many entries of a kind there are whose key begins so."""
    return sum(path.name.startswith(prefix) for path in _entries(folder() / kind))


def _entries(shelf: Path) -> list[Path]:
    if not shelf.is_dir():
        return []
    return [path for path in shelf.iterdir() if path.is_dir() and not path.name.startswith(".")]


def _prune(shelf: Path, keep: int) -> None:
    """Remove what was used longest ago, and what a killed process left behind."""

    def used(path: Path) -> float:
        try:
            return path.stat().st_mtime
        except OSError:  # removed by another process
            return 0.0

    old = sorted(_entries(shelf), key=used, reverse=True)[keep:]
    old += [path for path in shelf.glob(".part-*") if time.time() - used(path) > _DAY]
    for path in old:
        shutil.rmtree(path, ignore_errors=True)
