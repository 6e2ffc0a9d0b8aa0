"""What q can be, one family a file."""

from scorevi.families.base import Family, Points, is_sound
from scorevi.families.gaussian import Gaussian

__all__ = ["FAMILIES", "Family", "Gaussian", "Points", "is_sound"]

FAMILIES: dict[str, type] = {"Gaussian": Gaussian}
"""The types that a q in a file may be made of, by name."""
