"""ArviZ's functions of plain arrays, which take a while to import."""

from __future__ import annotations

import importlib
from typing import Any


def array_stats() -> Any:
    """Return ArviZ's effective sample sizes, R-hat and smoothed weights, of NumPy's arrays."""
    return importlib.import_module("arviz_stats.base").array_stats
