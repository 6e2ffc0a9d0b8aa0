"""The file of a checkpoint, read: whole, of this version, or refused."""

from __future__ import annotations

import io
import json
import zipfile
from pathlib import Path
from typing import Any

import numpy as np

from scorevi._version import __version__
from scorevi.base.files import why

FORMAT = "scorevi-checkpoint-1"


def read(path: Path, wanted: str | None = None) -> dict[str, Any]:
    """Return what a file of the wanted format holds, every byte of it checked."""
    wanted = wanted or FORMAT
    try:
        whole = io.BytesIO(path.read_bytes())
    except OSError as error:
        raise ValueError(f"`checkpoint` could not be read: {path}: {why(error)}.") from None
    try:
        content: dict[str, Any] = {}
        with zipfile.ZipFile(whole) as archive:
            for name in archive.namelist():
                # Read whole: the check sum is looked at only when the end is reached.
                file = io.BytesIO(archive.read(name))
                array = np.lib.format.read_array(file, allow_pickle=False)
                content[name.removesuffix(".npy")] = array
        meta = content["meta"] = json.loads(str(content["meta"]))
        form, version = meta["format"], meta["version"]
    except Exception as error:  # damage shows in many ways, and all of them mean this
        raise damaged(path, type(error).__name__) from None
    if form != wanted or version != __version__:
        raise ValueError(
            f"`checkpoint` must be written by this version of scorevi to go on from; {path} is of "
            f"{version} ({form}), this is {__version__} ({wanted}). Use that version, or leave "
            "`resume` out to begin anew."
        )
    return content


def damaged(path: Path, reason: str) -> ValueError:
    """Return the refusal of a file that no fit wrote, or not to the end."""
    return ValueError(
        f"`checkpoint` must be a file that a fit wrote; {path} is not, or it is damaged "
        f"({reason}). Leave `resume` out to begin anew."
    )
