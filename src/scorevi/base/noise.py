"""Standard normal noise that can be read from any position.

Row i of the stream is a function of the seed and i alone. So a run does not depend on how its
steps are grouped into chunks, the NumPy and the compiled engine see the same noise, and all that
need be kept of a run's randomness is one integer.
"""

from __future__ import annotations

import numpy as np

from scorevi.base.arrays import Array

NOISE, SEARCH, CHECK, RESTART, MODES, WIDER, RESAMPLE, SECOND, CHOICE, CHAINS = range(10)
"""First entries of the spawn keys: the streams that one seed is divided into, one for each use."""


class Noise:
    """The noise of one run.

    Parameters
    ----------
    entropy
        The seed, as one integer.
    dim
        The length of a row.
    kind
        Which of the streams of the seed.
    rows_per_block
        How many rows are made at a time, on which their numbers depend.

    Examples
    --------
    >>> bool((Noise(0, 3).rows(100, 2) == Noise(0, 3).rows(0, 102)[100:]).all())
    True
    """

    def __init__(
        self, entropy: int, dim: int, kind: int = NOISE, rows_per_block: int | None = None
    ) -> None:
        self.position = 0
        self._entropy = entropy
        self._dim = dim
        self._kind = kind
        self._rows_per_block = rows_per_block or max(16, 32768 // dim)
        self._choices: Noise | None = None
        self._index = -1
        self._block: Array = np.empty((0, dim))

    def take(self, count: int, width: int | None = None) -> Array:
        """Return the next ``count`` rows and move past them.

        With a ``width`` of one more than their length they have another number each, from a stream
        of its own: what is in the others does not depend on whether that is asked for.
        """
        rows = self.rows(self.position, count)
        if width is not None and width > self._dim:
            if self._choices is None:
                self._choices = Noise(self._entropy, 1, CHOICE, self._rows_per_block)
            rows = np.concatenate([rows, self._choices.rows(self.position, count)], axis=1)
        self.position += count
        return rows

    def rows(self, start: int, count: int) -> Array:
        """Return rows ``start`` to ``start + count``, shape (count, dim), without moving."""
        size = self._rows_per_block
        index, offset = divmod(start, size)
        if offset + count <= size:
            return self._load(index)[offset : offset + count]
        parts = [self._load(index)[offset:]]
        missing = count - (size - offset)
        while missing > 0:
            index += 1
            parts.append(self._load(index)[:missing])
            missing -= size
        return np.concatenate(parts)

    def _load(self, index: int) -> Array:
        if index != self._index:
            rng = stream(self._entropy, self._kind, index)
            self._block = rng.standard_normal((self._rows_per_block, self._dim))
            self._index = index
        return self._block


def stream(entropy: int, *key: int) -> np.random.Generator:
    """Return the generator of one named stream of a seed."""
    return np.random.default_rng(np.random.SeedSequence(entropy, spawn_key=key))
