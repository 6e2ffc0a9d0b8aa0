"""A fit whose model may crash or hang: what evaluates it later is as safe as the fit was."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scorevi.targets.isolated import Isolation, evaluating

if TYPE_CHECKING:
    from scorevi.results import Fit


@contextmanager
def protected(fit: Fit) -> Iterator[Fit]:
    """Give the fit with its target evaluated as it was in the fit, in workers or here.

    Workers end with the block. Within it, the fit can be given to this function again, which then
    does nothing.
    """
    if fit.target is None or fit.isolation == Isolation():
        yield fit
        return
    with evaluating(fit.target, *fit.isolation) as target:
        inside = copy.copy(fit)  # with what was computed already, the verdict for one
        inside.__dict__.update(target=target, isolation=Isolation())
        yield inside
