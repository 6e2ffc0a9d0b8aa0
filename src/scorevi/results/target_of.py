"""The target of a fit, for what cannot be done without it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scorevi.base.target import Target

if TYPE_CHECKING:
    from scorevi.results.fit import Fit
    from scorevi.results.sample import Sample


_ABSENT = "The fit was pickled or loaded without its model"


def target_of(
    fit: Fit | Sample, without: str, instead: str = "", *, first: str = _ABSENT
) -> Target:
    """Return the target of a fit, or say what follows from its absence.

    Parameters
    ----------
    fit
        Perhaps pickled or loaded, and then without its target.
    without
        What follows from that, as the end of a sentence.
    instead
        What can be had all the same, as a sentence.
    first
        What the sentence begins with.
    """
    if fit.target is None:
        raise ValueError(
            f"{first}, {without}. Use "
            "scorevi.load(path, target=...) or dataclasses.replace(fit, target=...)"
            f"{instead and '; '}{instead}."
        )
    return fit.target
