"""A sample on disk while it is made: what one that was killed goes on from, to the same bits."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorevi._version import __version__
from scorevi.base.arrays import Array
from scorevi.base.encoding import decode, encode
from scorevi.base.evaluate import BadScore
from scorevi.base.files import check_folder, why, write_arrays
from scorevi.base.target import Target
from scorevi.engine.checkpoint.file import damaged, read
from scorevi.engine.checkpoint.identity import find_difference, probe
from scorevi.families import FAMILIES, Approximation
from scorevi.sampling.choosing import sampler_for
from scorevi.sampling.drawing import State
from scorevi.sampling.looking import Look
from scorevi.sampling.pool import Pool
from scorevi.sampling.rounds import Course
from scorevi.trust.verdict import Reason

FORMAT = "scorevi-sampling-2"
_TYPES: dict[str, type] = {
    kind.__name__: kind for kind in (State, Look, Pool, Reason, Course, BadScore)
} | FAMILIES


class Kept(NamedTuple):
    """What is known between two rounds."""

    q: Approximation
    state: State
    gradients: dict[str, int]
    """Of the fit, and of what was done by others before it."""
    seconds: float
    notes: tuple[str, ...]


class Keeper:
    """The file that a sample keeps itself in.

    Parameters
    ----------
    path
        Where.
    seconds
        The time between two writings.
    resume
        Whether to go on from what is there.
    """

    def __init__(self, path: str | Path, seconds: float, resume: bool) -> None:
        self.path = check_folder(path, "checkpoint")
        self._seconds, self._due = seconds, 0.0
        self._identity: dict[str, Any] = {}
        self._probe: dict[str, Array] = {}
        self._read = read(self.path, FORMAT) if resume and self.path.exists() else {}

    @property
    def of_fit(self) -> Path:
        """Where the fit keeps itself, before there is anything to keep here."""
        return self.path.with_name(f"{self.path.name}.fit")

    def bind(self, target: Target, seed: int, method: str | None) -> Kept | None:
        """Say which sample this is; returns what the file has of it, and refuses any other's."""
        self._identity = {
            "dimension": target.dim,
            "parameters": [[name, list(shape)] for name, shape in target.parameters],
            "seed": seed,
            "method": method,
        }
        self._probe = probe(target)
        if not self._read:
            return None
        difference = find_difference(self._read, self._identity, self._probe)
        if difference:
            raise ValueError(
                f"`checkpoint` must be of this same sample to go on from; {self.path} is of "
                f"another: {difference}. Give another path, or leave `resume` out to begin anew."
            )
        try:
            meta = self._read["meta"]
            arrays = [self._read[f"array_{number}"] for number in range(meta["arrays"])]
            kept = Kept(*decode(meta["kept"], _TYPES, arrays))
        except Exception as error:
            raise damaged(self.path, type(error).__name__) from None
        self._check_sampler(kept.state, target)
        return kept

    def _check_sampler(self, state: State, target: Target) -> None:
        """Refuse to go on by another sampler: neither's chains would come out."""
        if state.course is None:
            return
        there, here = state.course.sampler, sampler_for(target)
        if there != here:
            raise ValueError(
                f"`checkpoint` must be of chains by the same sampler to go on from; those in "
                f"{self.path} ran by {there}, and here they would run by {here}: BlackJAX takes "
                "targets in JAX, where it is installed, without `isolate`, `score_timeout` and "
                "`workers`. Have these as they were, or leave `resume` out to begin anew."
            )

    def keep(self, kept: Kept, *, now: bool = False) -> None:
        """Write, if it is time."""
        if not now and time.perf_counter() < self._due:
            return
        arrays: list[Any] = []
        code = encode(tuple(kept), _TYPES, arrays)
        meta = {
            "format": FORMAT,
            "version": __version__,
            "identity": self._identity,
            "arrays": len(arrays),
            "kept": code,
        }
        named = {f"array_{number}": array for number, array in enumerate(arrays)}
        content = {"meta": np.array(json.dumps(meta)), **self._probe, **named}
        try:
            write_arrays(self.path, content, durable=True)
        except OSError as error:
            text = f"`checkpoint` could not be written: {self.path}: {why(error)}."
            raise ValueError(text) from None
        self._due = time.perf_counter() + self._seconds
