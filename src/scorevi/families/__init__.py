"""What q can be, one family a file."""

from scorevi.families.base import Family, Points, is_sound
from scorevi.families.gaussian import Gaussian
from scorevi.families.given import Given
from scorevi.families.low_rank import LowRank
from scorevi.families.mixture import Mixture
from scorevi.families.nested import Nested

__all__ = [
    "FAMILIES",
    "Approximation",
    "Family",
    "Gaussian",
    "LowRank",
    "Mixture",
    "Nested",
    "Points",
    "as_gaussian",
    "is_sound",
]

Approximation = Gaussian | LowRank | Mixture | Nested
"""What a fit may hold."""


def as_gaussian(q: Approximation) -> Gaussian:
    """Return the Gaussian with the moments of q; refused where its D × D factor is too large."""
    white = q.coordinates
    return white.dense() if isinstance(white, LowRank) else white


FAMILIES: dict[str, type] = {
    "Gaussian": Gaussian,
    "LowRank": LowRank,
    "Mixture": Mixture,
    "Nested": Nested,
    "Given": Given,
}
"""The types that a q in a file may be made of, by name."""
