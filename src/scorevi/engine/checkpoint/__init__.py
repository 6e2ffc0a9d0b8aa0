"""Runs on disk: what a fit that was killed goes on from, to the same bits.

A checkpoint is a ``.npz`` file of plain arrays and one JSON text. It always holds runs as they
were between two updates. Nothing is noted of how a run ended: going on from its last update, with
the same limits, it ends in the same way, and with wider limits it goes on.
"""

from scorevi.engine.checkpoint.keeping import Checkpoint, Keeping, open_checkpoint

__all__ = ["Checkpoint", "Keeping", "open_checkpoint"]
