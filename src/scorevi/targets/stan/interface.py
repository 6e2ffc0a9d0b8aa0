"""BridgeStan's C interface: which version ours is, and which clients and libraries fit it."""

from __future__ import annotations

import ctypes
import os
import re
import sys
import warnings
from pathlib import Path
from typing import Any

from scorevi.base.extras import require

INTERFACE = (2, 9, 0)
"""The version that ``shim.cpp`` was written for, and that the libraries made with it report."""
_OLDEST_CLIENT = (2, 7)
"""Clients before do not have the arguments with which models are loaded here."""


def defines() -> tuple[str, ...]:
    """Return the compiler's flags that tell ``shim.cpp`` its version."""
    names = ("MAJOR", "MINOR", "PATCH")
    return tuple(f"-DBRIDGESTAN_{name}={part}" for name, part in zip(names, INTERFACE, strict=True))


def load_model(library: str | os.PathLike[str], data: str | None, seed: int) -> Any:
    """Load a library with BridgeStan's client.

    Raises ValueError where client and library do not go together, and RuntimeError where Stan
    refuses the data.
    """
    bridgestan = client()
    library = Path(library)
    no_interface = f"`program` must be a library with BridgeStan's interface; {library} is not"
    try:
        theirs = _version_of(library)
    except (OSError, ValueError) as error:
        raise ValueError(f"{no_interface}: {error}.") from None
    if theirs[0] != INTERFACE[0]:
        raise ValueError(
            f"`program` must be a library with version {INTERFACE[0]} of BridgeStan's interface; "
            f"{library} has {_text(theirs)}. Compile the program anew."
        )
    try:
        with warnings.catch_warnings():
            # The client would have the very same version; within a major one they are compatible.
            warnings.filterwarnings("ignore", "The version of the compiled model", RuntimeWarning)
            return bridgestan.StanModel(library, data, seed=seed, warn=False)
    except AttributeError as error:
        if theirs < _parsed(bridgestan.__version__):
            raise ValueError(
                f"The installed BridgeStan client, {bridgestan.__version__}, asks for more than "
                f"the interface of {library}, {_text(theirs)}, has: {error}. Install a client of "
                f"that version: pip install 'bridgestan<={_text(theirs)}'"
            ) from None
        raise ValueError(f"{no_interface}: {error}.") from None


def client() -> Any:
    """Return BridgeStan's module, or say that the installed version will not do."""
    bridgestan = require("bridgestan")
    version = _parsed(bridgestan.__version__)
    if version[0] == INTERFACE[0] and version >= _OLDEST_CLIENT:
        return bridgestan
    wanted = f"bridgestan>={_text(_OLDEST_CLIENT)},<{INTERFACE[0] + 1}"
    raise ImportError(
        f"Stan programs need {wanted}; {bridgestan.__version__} is installed. "
        f"Install one that fits: pip install '{wanted}'",
        name="bridgestan",
    )


def _version_of(library: Path) -> tuple[int, ...]:
    if sys.platform == "win32":
        require("bridgestan.compile").windows_dll_path_setup()  # as the client does
    loaded = ctypes.CDLL(str(library.absolute()))
    names = (f"bs_{part}_version" for part in ("major", "minor", "patch"))
    return tuple(ctypes.c_int.in_dll(loaded, name).value for name in names)


def _parsed(version: str) -> tuple[int, ...]:
    return tuple(int(part) for part in re.findall(r"\d+", version)[:3])


def _text(version: tuple[int, ...]) -> str:
    return ".".join(map(str, version))
