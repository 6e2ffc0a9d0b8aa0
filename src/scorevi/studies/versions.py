"""What the results of a study depend on besides its settings."""

from __future__ import annotations

import os
import platform
from typing import Any

import numpy as np

from scorevi._version import __version__


def versions() -> dict[str, Any]:
    """Return what the results depend on besides the settings."""
    import scipy

    found = {
        "scorevi": __version__,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "scipy": scipy.__version__,
        "machine": f"{platform.machine()}, {os.cpu_count()} cores",
    }
    for name in ("jax", "httpstan", "bridgestan"):
        version = _installed(name)
        if version:
            found[name] = version
    return found


def _installed(name: str) -> str:
    from importlib import metadata

    try:
        return metadata.version(name)
    except metadata.PackageNotFoundError:
        return ""
