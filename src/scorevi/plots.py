"""Pictures of a fit; see :mod:`scorevi.results.plots`."""

from scorevi.results.plots import plot_fit, save_picture

__all__ = ["plot_fit", "save_picture"]
