"""What many fits give back: each of them by its place, those that failed with the reason."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, cast

from scorevi.base.status import FitError
from scorevi.results.fit import Fit
from scorevi.results.loading import load


@dataclass(frozen=True, eq=False, repr=False)
class Fits:
    """Fits that were made by :func:`scorevi.fit_many`.

    ``fits[i]`` is the i-th of them, read from disk where they lie there; ``len(fits)`` is how many
    were asked for.
    """

    seeds: tuple[int, ...]
    """The seed of each."""
    failures: Mapping[int, str]
    """Why some have no fit, by their place: what their target or their worker raised."""
    num_computed: int
    """How many were computed by this call; the others were on disk."""
    targets: Sequence[Any] | None
    """Where targets were given, those."""
    places: Mapping[int, Fit | Path]
    """The fits that there are, or their files, by their place."""

    def __len__(self) -> int:
        return len(self.seeds)

    def __getitem__(self, place: int) -> Fit:
        """Return a fit; raises :class:`scorevi.FitError` for one that failed."""
        if not -len(self) <= place < len(self):
            raise IndexError(f"there are {len(self)} fits; got {place}")
        place %= len(self)
        if place in self.failures:
            raise FitError(f"Fit {place}, seed {self.seeds[place]}: {self.failures[place]}")
        found = self.places[place]
        fit = cast("Fit", load(found)) if isinstance(found, Path) else found
        if self.targets is None:
            return fit
        return dataclasses.replace(fit, target=self.targets[place])

    def made(self) -> Iterator[tuple[int, Fit]]:
        """Return the seed and the fit of all that did not fail, one after the other."""
        for place in sorted(self.places):
            yield self.seeds[place], self[place]

    def __repr__(self) -> str:
        failed = f", {len(self.failures)} failed" if self.failures else ""
        return f"<{len(self)} fits: {len(self.places)} made{failed}>"
