"""A fit whose model may crash or hang: what evaluates it later is as safe as the fit was."""

from __future__ import annotations

import copy
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING

from scorevi.base.arrays import as_count
from scorevi.base.evaluate import Evaluator
from scorevi.base.target import opened
from scorevi.results.target_of import target_of
from scorevi.targets.isolated import Isolation, evaluating
from scorevi.trust.fresh_draws import Fresh, draw

if TYPE_CHECKING:
    from scorevi.results.fit import Fit


@contextmanager
def protected(fit: Fit) -> Iterator[Fit]:
    """Give the fit with its target evaluated as it was in the fit, in workers or here.

    Workers end with the block. Within it, the fit can be given to this function again, which then
    does nothing.
    """
    if fit.target is None or fit.isolation == Isolation():
        with opened(fit.target):
            yield fit
        return
    with evaluating(fit.target, *fit.isolation) as target:
        inside = copy.copy(fit)  # with what was computed already, the verdict for one
        inside.target, inside.isolation = target, Isolation()
        yield inside


def fresh_draws(fit: Fit, draws: int, seed: int) -> Fresh:
    """Draw from the q of a fit and evaluate its target there."""
    target_of(fit, "so its score cannot be computed")
    draws = as_count("draws", draws, least=2)
    fit.mean  # noqa: B018  (refuses a fit without an update)
    with protected(fit) as safe:
        assert safe.target is not None
        return draw(fit.q, draws, seed, Evaluator(safe.target))
