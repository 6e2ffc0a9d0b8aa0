"""Many fits on disk: a file each, and a page that says what they are fits of."""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from scorevi._version import __version__
from scorevi.base.files import appearing, why
from scorevi.base.identity import identify, identify_code
from scorevi.engine.checkpoint.identity import probe
from scorevi.many.tasks import Job
from scorevi.results.fit import Fit
from scorevi.targets import Target

_FORMAT = "scorevi-many-1"
_SAME = 1e-8


class Folder:
    """The folder that fits are written to as they are made.

    Parameters
    ----------
    path
        Where; it is made if need be.
    targets
        What is fitted, or the function that makes it of a seed.
    job
        How.
    """

    def __init__(
        self, path: str | Path, targets: Sequence[Target] | Callable[[int], Any], job: Job
    ) -> None:
        self.path = Path(path)
        self._factory = job.factory
        about: dict[str, Any] = {
            "format": _FORMAT,
            "version": __version__,
            "options": {name: identify(value) for name, value in sorted(job.options.items())},
            "check": job.check,
        }
        if callable(targets):
            about["targets"] = identify_code(targets)
        else:
            about["targets"] = [_known(target) for target in targets]
        page = self.path / "about.json"
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if page.exists():
                self._compare(json.loads(page.read_text(encoding="utf-8")), about)
            with appearing(page) as part:
                part.write_text(json.dumps(about, indent=1) + "\n", encoding="utf-8")
        except OSError as error:
            raise ValueError(f"`out` could not be written: {page}: {why(error)}.") from None
        except json.JSONDecodeError:
            raise ValueError(f"`out` must be a folder of fits; {page} is damaged.") from None

    def file(self, place: int, seed: int) -> Path:
        """Return where a fit is, or will be."""
        name = f"seed-{seed}" if self._factory else f"target-{place}-seed-{seed}"
        return self.path / f"{name}.npz"

    def write(self, place: int, seed: int, fit: Fit) -> Path:
        """Write a fit, whole or not at all."""
        return fit.save(self.file(place, seed))

    def _compare(self, there: Any, here: dict[str, Any]) -> None:
        """Refuse the fits of something else; more targets than before are welcome."""
        for name, value in here.items():
            before = there.get(name) if isinstance(there, dict) else None
            if before == value or _agree(before, value):
                continue
            raise ValueError(
                f"`out` must be a new folder, or that of the same fits; those in {self.path} are "
                f"of others: `{name}` is not what it was. Give another folder, or remove it."
            )


def _known(target: Target) -> list[float]:
    """Return a few numbers by which a target is known again, for one evaluation."""
    found = probe(target)
    norm = float(np.linalg.norm(found["probe_score"]))
    return [float(target.dim), *np.nan_to_num([norm, float(found["probe_log_density"][0])])]


def _agree(before: Any, now: Any) -> bool:
    """Return whether two lists of targets have the same where both have any."""
    if not (isinstance(before, list) and isinstance(now, list)):
        return False
    both = min(len(before), len(now))
    return np.allclose(np.array(before[:both]), np.array(now[:both]), rtol=_SAME, atol=0.0)
