"""What fits and samples say of names in the same way, with their model or without."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scorevi.base.labels import theta_labels
from scorevi.base.target import all_labels

if TYPE_CHECKING:
    from scorevi.results.fit import Fit
    from scorevi.results.sample import Sample


def labels_of(owner: Fit | Sample) -> tuple[str, ...]:
    """Return a name for each entry of theta."""
    if owner.target is None:
        return owner.saved_labels or tuple(all_labels(owner.parameters))
    return owner.saved_labels or theta_labels(owner.target)


def is_constrained(owner: Fit | Sample) -> bool:
    """Return whether the parameters have a scale of their own."""
    if owner.target is None:
        return owner.saved_constrained
    variables = owner.target.variables
    return variables.constrain is not None or variables.derive is not None
