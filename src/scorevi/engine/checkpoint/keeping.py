"""The runs of one fit, kept while they go on: remembered at every update, written in time."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from scorevi._version import __version__
from scorevi.base.arrays import Array, Seed, seed_entropy
from scorevi.base.encoding import CannotHold, decode, encode, record_types
from scorevi.base.evaluate import Account, BadScore
from scorevi.base.files import check_folder, why, write_arrays
from scorevi.base.pairs import Draws
from scorevi.engine.arrival import Fresh
from scorevi.engine.arrival_pairs import FreshPairs
from scorevi.engine.checkpoint.file import FORMAT, damaged, read
from scorevi.engine.checkpoint.identity import find_difference, identity_of, probe
from scorevi.engine.quality import joined
from scorevi.engine.records import ChunksSnapshot, Snapshot, Updates
from scorevi.engine.run import Run
from scorevi.solvers import RECORDS
from scorevi.solvers.base import Solver, family_of
from scorevi.starts.start import Initial
from scorevi.targets import Target

_SHARE = 0.05
"""The most of the time that goes into writing."""


class _Kept(NamedTuple):
    """A run between two updates."""

    snapshot: Snapshot
    records: Updates
    length: int
    """How many of the records there were at the time."""


class Checkpoint:
    """The file that a fit keeps itself in.

    Parameters
    ----------
    path
        Where.
    seconds
        The time between two writings; longer where writing would take more than 5 % of it.
    resume
        Whether to go on from what is there. Where nothing is, the fit begins at the beginning.
    """

    def __init__(self, path: str | Path, seconds: float, resume: bool) -> None:
        self.path = check_folder(path, "checkpoint")
        self._seconds = seconds
        self._due = 0.0
        self._written = self._failed = False
        self._changed = False
        self._runs: dict[int, _Kept] = {}
        self._identity: dict[str, Any] = {}
        self._probe: dict[str, Array] = {}
        self._types: dict[str, type] = {}
        self._read: dict[str, Any] = read(self.path) if resume and self.path.exists() else {}

    def entropy(self, seed: Seed) -> int:
        """Return the seed as an integer: the file's, where the user leaves it open."""
        if seed is None and self._read:
            return int(self._read["meta"]["identity"]["seed"])
        return seed_entropy(seed)

    def bind(
        self, target: Target, solver: Solver, variants: Sequence[Solver], seed: int, start: Initial
    ) -> None:
        """Say which fit this is; refuses a file of any other."""
        self._identity = identity_of(target, solver, seed, start)
        self._probe = probe(target)
        states = [one.init(family_of(one).standard(target.dim)) for one in variants]
        example = BadScore(np.zeros(1), "", "")
        self._types = record_types(*states, example)
        for kind in (Snapshot, ChunksSnapshot, Account, Draws, Fresh, FreshPairs, *RECORDS):
            self._types[kind.__name__] = kind
        if self._read:
            difference = find_difference(self._read, self._identity, self._probe)
            if difference:
                raise ValueError(
                    f"`checkpoint` must be of this same fit to go on from; {self.path} is of "
                    f"another: {difference}. Give another path, or leave `resume` out to begin "
                    "anew."
                )
            self._runs = self._restored()
            self._read = {}

    def resume(self, number: int, run: Run) -> None:
        """Put a run where the file has it, if it does."""
        run.can_resume = True
        if number in self._runs:
            kept = self._runs[number]
            run.restore(kept.snapshot, kept.records)

    def keep(self, number: int, run: Run) -> None:
        """Remember where the run is, and write it if it is time."""
        if run.status is not None:
            return  # part of the way through an update
        self._runs[number] = _Kept(run.snapshot(), run.records, len(run.records.elbo))
        self._changed = True
        if time.perf_counter() >= self._due:
            self.write(run)

    def write(self, run: Run) -> None:
        """Write what was last kept, unless it is written already."""
        if not self._changed:
            return
        began = time.perf_counter()
        try:
            write_arrays(self.path, self._contents(), durable=True)
        except OSError as error:
            text = f"could not be written: {self.path}: {why(error)}."
            if not self._written:
                raise ValueError(f"`checkpoint` {text}") from None
            # The disk may be full for a while; a long run should not end for that.
            if not self._failed:
                run.notes.append(f"the checkpoint {text} The fit went on without.")
            self._failed = True
        else:
            self._written, self._changed = True, False
        now = time.perf_counter()
        self._due = now + max(self._seconds, (now - began) / _SHARE)

    def _contents(self) -> dict[str, Any]:
        arrays: list[Any] = []
        try:
            runs = [
                {
                    "snapshot": encode(_compact(kept.snapshot), self._types, arrays),
                    "records": encode(_columns(kept), self._types, arrays),
                }
                for _, kept in sorted(self._runs.items())
            ]
        except CannotHold as error:
            raise ValueError(
                "`checkpoint` can hold solvers whose state is made of numbers, arrays, Gaussians "
                f"and NamedTuples or dataclasses that `init` returns; this one's has {error}."
            ) from None
        meta = {
            "format": FORMAT,
            "version": __version__,
            "identity": self._identity,
            "arrays": len(arrays),
            "runs": runs,
        }
        named = {f"array_{number}": array for number, array in enumerate(arrays)}
        return {"meta": np.array(json.dumps(meta)), **self._probe, **named}

    def _restored(self) -> dict[int, _Kept]:
        try:
            meta = self._read["meta"]
            arrays = [self._read[f"array_{number}"] for number in range(meta["arrays"])]
            runs = {}
            for number, run in enumerate(meta["runs"]):
                columns = decode(run["records"], self._types, arrays)
                records = Updates(*(column.tolist() for column in columns))
                snapshot: Snapshot = decode(run["snapshot"], self._types, arrays)
                runs[number] = _Kept(snapshot, records, len(records.elbo))
        except Exception as error:
            raise damaged(self.path, type(error).__name__) from None
        return runs


class Keeping(NamedTuple):
    """A watcher that keeps one run of a fit in its checkpoint."""

    checkpoint: Checkpoint
    number: int
    next_update: float = math.inf

    def begin(self, run: Run) -> None:
        """Go on from where the file has the run."""
        self.checkpoint.resume(self.number, run)

    def look(self, run: Run) -> None:
        """Remember where it is."""
        self.checkpoint.keep(self.number, run)

    def end(self, run: Run) -> None:
        """Write what was last kept."""
        self.checkpoint.write(run)


def open_checkpoint(path: str | Path | None, resume: bool, seconds: float) -> Checkpoint | None:
    """Check what a user said about the checkpoint, and open it; None where none is wanted."""
    is_number = isinstance(seconds, (int, float, np.number)) and seconds is not True
    if not is_number or not seconds >= 0:
        raise ValueError(f"`checkpoint_seconds` must be a number >= 0; got {seconds!r}.")
    if path is not None:
        return Checkpoint(path, float(seconds), resume)
    if resume:
        raise ValueError("`resume` needs `checkpoint`, the file to go on from; got None.")
    return None


def _compact(snapshot: Snapshot) -> Snapshot:
    """Join the last draws: a few arrays are written faster than hundreds."""
    batches = snapshot.recent
    return snapshot._replace(recent=(joined(batches),)) if batches else snapshot


def _columns(kept: _Kept) -> tuple[Any, ...]:
    first, *others = (column[: kept.length] for column in kept.records)
    return np.array(first, dtype=np.int64), *(np.array(other, dtype=float) for other in others)
