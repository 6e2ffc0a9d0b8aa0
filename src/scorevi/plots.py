"""Pictures of a fit; see :mod:`scorevi.results.plots` and :mod:`scorevi.results.shape_plots`."""

from scorevi.results.plots import plot_fit, save_picture
from scorevi.results.shape_plots import plot_marginals, plot_pair

__all__ = ["plot_fit", "plot_marginals", "plot_pair", "save_picture"]
