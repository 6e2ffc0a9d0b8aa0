"""What q can be, one family a file."""

from scorevi.families.base import Family, Points, is_sound
from scorevi.families.gaussian import Gaussian
from scorevi.families.given import Given
from scorevi.families.mixture import Mixture
from scorevi.families.nested import Nested

__all__ = [
    "FAMILIES",
    "Approximation",
    "Family",
    "Gaussian",
    "Mixture",
    "Nested",
    "Points",
    "is_sound",
]

Approximation = Gaussian | Mixture | Nested
"""What a fit may hold."""

FAMILIES: dict[str, type] = {
    "Gaussian": Gaussian,
    "Mixture": Mixture,
    "Nested": Nested,
    "Given": Given,
}
"""The types that a q in a file may be made of, by name."""
