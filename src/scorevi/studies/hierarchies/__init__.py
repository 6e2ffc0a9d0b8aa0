"""Hierarchies of the shapes that people bring, with simulated data and long NUTS runs as truth.

Centered forms have funnels: their log density grows without bound as a scale goes to zero.
"""

from scorevi.studies.hierarchies.suite import HELD_OUT, hierarchies

__all__ = ["HELD_OUT", "hierarchies"]
