"""NUTS with what a fit hands over, against NUTS without: effective samples per gradient.

nutpie for both, four chains of 500 draws. With: in the coordinates of the fit, from draws of it,
100 steps of warm-up. Without: as it does by default. What the fit took is shown beside.
"""

from __future__ import annotations

import os
import warnings
from typing import Any

import numpy as np

import scorevi
from benchmarks.nuts import compiled_for_nutpie
from scorevi.studies.hierarchies import hierarchies
from scorevi.studies.posteriordb import Posterior, database
from scorevi.studies.raw_units import regressions
from scorevi.targets import Target

CHAINS, DRAWS, WARM_UP = 4, 500, 100


def hand_over() -> None:
    """Print effective samples per 1,000 gradients, the worst parameter's."""
    print(
        "Effective samples of the worst parameter per 1,000 gradients: of draws, and with warm-up\n"
    )
    print("| target | D | with | without | fit's gradients |\n|---|---|---|---|---|")
    for name, target in _targets().items():
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            fit = scorevi.fit(target, seed=0)
            handed = fit.to_mcmc("nutpie", chains=CHAINS).form
            with_, without = (
                _per_gradient(handed | {"tune": WARM_UP}),
                _per_gradient({"compiled_model": compiled_for_nutpie(target), "chains": CHAINS}),
            )
        print(f"| {name} | {target.dim} | {with_} | {without} | {fit.num_gradients} |", flush=True)
    print()


def _targets() -> dict[str, Target]:
    found: dict[str, Target] = {"eight schools": scorevi.examples.eight_schools()}
    found |= {name: regressions()[name].target for name in ("test-scores-3", "wells-5")}
    if "PDB_PATH" in os.environ:
        folder = database()
        for name in ("arK-arK", "diamonds-diamonds"):
            found[name] = Posterior(folder, name).target()
    found["schools-stan"] = hierarchies()["schools-stan"]()
    return found


def _per_gradient(arguments: dict[str, Any]) -> str:
    import arviz
    import nutpie

    trace = nutpie.sample(
        **arguments, draws=DRAWS, cores=1, seed=1, progress_bar=False, save_warmup=True
    )
    warm_up, drawn = (
        int(group["n_steps"].values.sum())
        for group in (trace.warmup_sample_stats, trace.sample_stats)
    )
    least = min(float(np.min(v.values)) for v in arviz.ess(trace).data_vars.values())
    return f"{1e3 * least / drawn:.1f}, {1e3 * least / (drawn + warm_up):.1f}"
