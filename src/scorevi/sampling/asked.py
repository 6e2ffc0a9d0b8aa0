"""What is asked of a sample."""

from __future__ import annotations

from typing import NamedTuple

CHAINS = 4
MIXED = 1.01
"""The R-hat up to which chains agree."""


class Asked(NamedTuple):
    """What there is to be in the end."""

    draws: int
    """At least so many, of all chains together."""
    ess: float
    """Effective draws, of every parameter."""
    seed: int
    chains: int = CHAINS
