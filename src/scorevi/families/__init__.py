"""What q can be, one family a file."""

from scorevi.families.base import Family, Points, is_sound
from scorevi.families.gaussian import Gaussian
from scorevi.families.low_rank import LowRank
from scorevi.families.mixture import Mixture

__all__ = [
    "FAMILIES",
    "Approximation",
    "Family",
    "Gaussian",
    "LowRank",
    "Mixture",
    "Points",
    "is_sound",
]

Approximation = Gaussian | LowRank | Mixture
"""What a fit may hold."""

FAMILIES: dict[str, type] = {"Gaussian": Gaussian, "LowRank": LowRank, "Mixture": Mixture}
"""The types that a q in a file may be made of, by name."""
