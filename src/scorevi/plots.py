"""Pictures of a fit; see :mod:`scorevi.results.plots`.

``plot_*`` returns a figure; ``draw_*`` draws on axes that are there.
"""

from scorevi.results.plots import (
    draw_correlation,
    draw_course,
    draw_intervals,
    draw_marginal,
    draw_pair,
    draw_weights,
    draws_by_name,
    plot_correlation,
    plot_course,
    plot_fit,
    plot_marginals,
    plot_pair,
    plot_pairs,
    plot_weights,
    save_picture,
)

__all__ = [
    "draw_correlation",
    "draw_course",
    "draw_intervals",
    "draw_marginal",
    "draw_pair",
    "draw_weights",
    "draws_by_name",
    "plot_correlation",
    "plot_course",
    "plot_fit",
    "plot_marginals",
    "plot_pair",
    "plot_pairs",
    "plot_weights",
    "save_picture",
]
