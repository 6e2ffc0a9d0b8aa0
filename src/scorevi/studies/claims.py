"""The paper's empirical claims, each with the rule that decides it.

The rules were written before the studies were run. Nothing is decided by hand: a claim *holds*,
*holds partly* or *does not hold here*, as its rule says of the results on disk. The same rule is
applied to ``auto`` in the place of GSM.
"""

from __future__ import annotations

from typing import NamedTuple

from scorevi.studies.levels import CONVERGED, NATS
from scorevi.studies.rules import (
    Decide,
    any_start,
    batches,
    bbvi_stuck,
    equally_good,
    exponent,
    faster_to_equal,
    fewer_gradients,
    insensitive,
    larger_elbo,
    on_posteriors,
    oscillates,
    stable_moments,
    worse_solution,
)


class Claim(NamedTuple):
    """A claim of the paper, in our words."""

    study: str
    says: str
    rule: str
    decide: Decide


CLAIMS = (
    Claim(
        "dimensions",
        "GSM takes 10 to 100 times fewer gradients than BBVI.",
        f"Gradients to a forward KL of {CONVERGED}, medians over runs: at least 10× in every "
        "dimension holds, in half of them holds partly.",
        fewer_gradients(10),
    ),
    Claim(
        "dimensions",
        "BBVI takes 100 times more even for small problems, D < 64.",
        "The same, at least 100× in every dimension below 64; in half of them partly.",
        fewer_gradients(100, below=64),
    ),
    Claim(
        "dimensions",
        "GSM's gradients to convergence grow almost linearly with D.",
        "Exponent fitted on the log scale, median over runs: up to 1.2 holds, up to 1.5 partly.",
        exponent,
    ),
    Claim(
        "dimensions",
        "BBVI ends in a worse solution.",
        "Median forward KL at the end of the budget more than twice GSM's in every dimension; in "
        "half of them partly.",
        worse_solution,
    ),
    Claim(
        "condition",
        "GSM is largely insensitive to the condition number.",
        "Gradients at the largest over those at the smallest: up to 2× holds, up to 5× partly.",
        insensitive,
    ),
    Claim(
        "condition",
        "BBVI does not converge for c > 100, with 100 times the gradients of GSM.",
        "Runs of BBVI that do at the largest c: none holds, fewer than half partly.",
        bbvi_stuck,
    ),
    Claim(
        "nongaussian",
        "GSM is at least 10 times faster on non-Gaussian targets.",
        "Gradients to 1.1 times BBVI's late forward KL + 0.02: at least 10× on every target holds, "
        "on half of them partly.",
        faster_to_equal,
    ),
    Claim(
        "nongaussian",
        "GSM converges to an equally good fit.",
        "Mean forward KL of the last half, median over runs, above BBVI's by at most 20 % or 0.1 "
        "nats on every target; on half of them partly.",
        equally_good,
    ),
    Claim(
        "nongaussian",
        "GSM oscillates, more than BBVI, for s ≥ 1 or |t − 1| ≥ 0.8.",
        "Oscillates: the forward KL of the last half swings (10 to 90 %) by more than 0.5 nats and "
        "more than BBVI's. On all such targets and no other holds; on a larger share of them than "
        "of the others partly.",
        oscillates,
    ),
    Claim(
        "posteriordb",
        "10 to 100 times fewer gradients on real posteriors.",
        f"Gradients to within {NATS:g} nat of the best Gaussian's ELBO, medians: at least 10× on "
        "every posterior holds, on half of them partly.",
        on_posteriors,
    ),
    Claim(
        "posteriordb",
        "On near-Gaussian posteriors GSM ends with a larger ELBO, and stably.",
        "Nats below the best in the last half of each budget, median over runs: at most BBVI's + "
        "0.1 on all four; on two partly.",
        larger_elbo(near_gaussian=True),
    ),
    Claim(
        "posteriordb",
        "On non-Gaussian posteriors it ends with the same quality as BBVI.",
        "The same, at most BBVI's + 0.5.",
        larger_elbo(near_gaussian=False),
    ),
    Claim(
        "posteriordb",
        "Where the ELBO stays noisy, moments are stable.",
        "Swing (10 to 90 %) over the last half of the worst error of a mean, in sds, and of a log "
        "sd: at most 0.1 on every posterior; on half of them partly.",
        stable_moments,
    ),
    Claim(
        "batch-size",
        "B = 2 is better than B = 1.",
        "Fewer gradients, in the median, to a forward KL of 0.01, or on non-Gaussian targets to "
        "1.5 times the lowest late level of any B: on every target holds, on half partly.",
        batches(2, better=True),
    ),
    Claim(
        "batch-size",
        "Beyond B = 2 there is no improvement.",
        "No larger B takes less than 0.9 of the gradients of B = 2; on half of the targets partly.",
        batches(4, better=False),
    ),
    Claim(
        "initialization",
        "Other starts do not change the conclusion.",
        f"GSM takes fewer gradients than BBVI to within {NATS:g} nat of the best ELBO, those of "
        "the start included, from every start on every target; from half partly.",
        any_start,
    ),
)
