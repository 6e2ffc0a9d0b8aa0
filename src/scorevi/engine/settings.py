"""What a run is told."""

from __future__ import annotations

from typing import NamedTuple

from scorevi.starts.start import Initial


class Settings(NamedTuple):
    """What a run is told, beside target and solver."""

    entropy: int
    """The seed, as one integer."""
    initial: Initial = None
    """See :func:`scorevi.starts.start.start`."""
    max_gradients: int | None = None
    max_seconds: float | None = None
    chunked: bool = False
    """Whether updates may be done many at a time, where the target allows it."""
