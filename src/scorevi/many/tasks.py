"""One fit of many, on a worker."""

from __future__ import annotations

import traceback
import warnings
from collections.abc import Mapping
from typing import Any, NamedTuple

from scorevi.base.sending import Sent, arrived
from scorevi.base.status import FitWarning
from scorevi.base.threads import taking_turns
from scorevi.fit import fit
from scorevi.results.fit import Fit
from scorevi.targets import as_target


class Job(NamedTuple):
    """What is the same in all fits."""

    factory: bool
    """Whether targets are made of seeds."""
    check: bool
    """Whether each fit is to have its verdict."""
    options: Mapping[str, Any]
    """What else :func:`scorevi.fit` is told."""


def fit_one(parcel: Sent, job: Job, seed: int) -> Fit | str:
    """Return a fit, or the last line of what was raised in its place."""
    try:
        thing = arrived(parcel)
        target = as_target(thing(seed) if job.factory else thing)
        # How it ended is in the fit; a thousand warnings would say no more.
        with taking_turns(target), warnings.catch_warnings():
            warnings.simplefilter("ignore", FitWarning)
            found = fit(target, seed=seed, progress=False, **job.options)
            if job.check:
                found.check(seed=seed)
            return found
    except Exception as error:
        return " ".join("".join(traceback.format_exception_only(error)).split())
