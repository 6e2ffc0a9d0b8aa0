"""What a fit gives to people and to other tools: text, HTML, pictures, reports, files."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

from scorevi.base.arrays import Seed
from scorevi.base.variables import Include
from scorevi.results.export import to_arviz
from scorevi.results.page import write_page
from scorevi.results.plots import Kind, Reference, plot
from scorevi.results.protected import protected
from scorevi.results.report import one_line
from scorevi.results.saving import save
from scorevi.results.views import fit_view
from scorevi.results.writing import to_pandas

if TYPE_CHECKING:
    from scorevi.results.fit import Fit


class Giving:
    """The members of a fit that give it away in another form."""

    def plot(
        self,
        kind: Kind = "overview",
        parameters: Sequence[str] | None = None,
        *,
        reference: Reference | None = None,
        title: str = "",
    ) -> Any:
        """Draw the fit.

        Parameters
        ----------
        kind
            ``"overview"``, intervals and the course; ``"marginals"``, densities with their
            components; ``"pairs"``, parameters against each other; ``"course"``, ELBO and Fisher
            residual with the stop; ``"correlation"``; ``"weights"``, the tail of the importance
            weights, which :meth:`check` has seen.
        parameters
            Names to draw, as in ``fit.summary`` or ``fit.labels``; those that tell most if left
            out. For kinds about single parameters.
        reference
            Draws to compare with, of marginals and pairs: a dict from name to array (n, *shape) as
            :meth:`draws` gives it, or an array (n, D) on the unconstrained scale.
        title
            A heading.

        Returns
        -------
        matplotlib.figure.Figure
            A figure that belongs to no window: a notebook shows it, ``savefig`` saves it.

        Examples
        --------
        >>> import scorevi
        >>> fit = scorevi.fit(scorevi.examples.eight_schools())
        >>> figure = fit.plot("pairs", ["mu", "log_tau"])
        >>> len(figure.axes)
        4
        """
        return plot(cast("Fit", self), kind, parameters, reference=reference, title=title)

    def report(self, path: str | Path = "report.html", *, title: str = "") -> Path:
        """Write all there is to know of the fit to one HTML file, which needs no network.

        It begins with the verdict, if :meth:`check` was asked, and has tables to sort and search,
        plots with values, the course, bad scores, and what is needed to make the fit again.

        Returns
        -------
        pathlib.Path
            The file.
        """
        return write_page(cast("Fit", self), path, title=title)

    def to_arviz(self, size: int = 1000, seed: Seed = None, include: Include = "all") -> Any:
        """Return draws as ArviZ takes them: InferenceData (0.x) or DataTree (1.x).

        The arguments are those of :meth:`scorevi.Fit.draws`; see
        :func:`scorevi.results.export.to_arviz`.
        """
        with protected(cast("Fit", self)) as fit:
            return to_arviz(fit, size, seed, include)

    def to_pandas(self, size: int = 1000, seed: Seed = None, include: Include = "all") -> Any:
        """Return draws as a pandas data frame: a row per draw, a column per entry.

        The arguments are those of :meth:`scorevi.Fit.draws`.
        """
        return to_pandas(cast("Fit", self), size, seed, include)

    def save(self, path: str | Path) -> Path:
        """Write everything but the model's functions to a ``.npz`` file; returns its path."""
        with protected(cast("Fit", self)) as fit:
            return save(fit, path)

    def __repr__(self) -> str:
        return f"<{one_line(cast('Fit', self))}>"

    def _repr_html_(self) -> str:
        return fit_view(cast("Fit", self))
