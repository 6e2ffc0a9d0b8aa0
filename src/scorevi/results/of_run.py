"""From a run that has ended to the fit that the user gets."""

from __future__ import annotations

import numpy as np

from scorevi.engine.run import Run
from scorevi.families import Nested
from scorevi.results.fit import Fit
from scorevi.results.parts import Trace


def of_run(run: Run) -> tuple[Fit, str]:
    """Return the fit, and what is worth a warning."""
    quality, warning = run.conclude()
    assert run.status is not None
    length = run.records.length
    gradients, *others = (column[:length] for column in run.records)
    target = run.evaluator.target
    fit = Fit(
        q=run.q.precise() if isinstance(run.q, Nested) else run.q,  # type: ignore[arg-type]
        status=run.status,
        quality=quality,
        trace=Trace(np.array(gradients, dtype=np.int64), *map(np.array, others)),
        num_gradients=run.evaluator.spent,
        num_updates=run.num_updates,
        seconds=run.seconds,
        solver=repr(run.solver),
        seed=run.settings.entropy,
        parameters=target.parameters,
        bad_scores=run.evaluator.bad,
        notes=tuple(run.notes),
        target=target,
    )
    return fit, warning
