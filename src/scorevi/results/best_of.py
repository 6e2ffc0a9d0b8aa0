"""The best of several fits of one target."""

from __future__ import annotations

import dataclasses
import math
from collections import Counter
from collections.abc import Sequence

from scorevi.results.fit import Fit
from scorevi.trust.examination import Restart


def best_of(fits: Sequence[Fit], best: Fit, asked: int) -> Fit:
    """Return the best of several fits with what they cost together, and what the others found.

    Parameters
    ----------
    fits
        All that were made.
    best
        The one of them to return.
    asked
        How many were to be made.
    """
    measure = "Fisher residual" if math.isnan(best.elbo) else "ELBO"
    notes = [f"the best of {len(fits)} runs by {measure}: {best.solver}, seed {best.seed}"]
    if len(fits) == 1 or not best.num_updates:
        notes = []
    if len(fits) < asked:
        notes.append(f"{asked - len(fits)} of {asked} runs were not made: the user stopped the fit")
    halted = sum(
        fit.status == "interrupted" and fit.num_updates > 0 for fit in fits if fit is not best
    )
    if halted:
        notes.append(f"{halted} of {asked} runs were stopped by the user on the way")
    futile = Counter(str(fit.status) for fit in fits if not fit.num_updates)
    if futile and best.num_updates:
        ways = ", ".join(f"{count} {status}" for status, count in sorted(futile.items()))
        notes.append(
            f"{futile.total()} of {asked} runs ended before their first update ({ways}), so that "
            "nothing was compared with them"
        )
    return dataclasses.replace(
        best,
        num_gradients=sum(fit.num_gradients for fit in fits),
        seconds=sum(fit.seconds for fit in fits),
        notes=(*notes, *best.notes),
        restarts=tuple(
            Restart(fit.seed, str(fit.status), fit.elbo, fit.q.mean, fit.q.sd)
            for fit in fits
            if fit is not best and fit.solver == best.solver and fit.num_updates
        ),
    )


def rank(fit: Fit) -> tuple[bool, float, float]:
    """Return how a fit compares with others of the same target: sound ones first, then by ELBO.

    Without a log density, by Fisher residual.
    """
    known = [-math.inf if math.isnan(x) else x for x in (fit.elbo, -fit.fisher)]
    return fit.status.ok and fit.num_updates > 0, known[0], known[1]
