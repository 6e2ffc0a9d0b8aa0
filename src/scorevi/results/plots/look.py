"""How all pictures look: colours that colour-blind eyes tell apart, and little else.

The colours are those of Okabe and Ito (2008), *Color universal design*. No two things that must be
told apart differ by colour alone.
"""

from __future__ import annotations

import io
from pathlib import Path
from typing import Any

from scorevi.base.extras import require
from scorevi.base.files import check_folder

INK, FIT, PART, REFERENCE, FAINT = "#222222", "#0072b2", "#8fbfdc", "#d55e00", "#d9d9d9"
_LONGEST = 40


def new_figure(width: float, height: float, title: str = "") -> Any:
    """Return a figure that belongs to no window, and that a notebook shows."""
    require("matplotlib")
    from matplotlib.figure import Figure

    figure: Any = Figure(figsize=(width, height), layout="constrained")
    if title:
        figure.suptitle(plain(title), fontsize=13, color=INK)

    def png() -> bytes:
        buffer = io.BytesIO()
        figure.savefig(buffer, format="png", dpi=110)
        return buffer.getvalue()

    figure._repr_png_ = png
    return figure


def save_figure(figure: Any, path: str | Path) -> None:
    """Save a figure to a file, whose ending says the format."""
    path = check_folder(path)
    known = sorted(figure.canvas.get_supported_filetypes())
    if path.suffix.lstrip(".").lower() not in known:
        raise ValueError(f"`path` must end in one of .{', .'.join(known)}; got {path.name}.")
    try:
        figure.savefig(path, dpi=130)
    except OSError as error:
        raise ValueError(f"`path` could not be written: {error}.") from None


def plain(text: str) -> str:
    """Return a text in which matplotlib sees no mathematics."""
    return text.replace("$", r"\$")


def label(name: str) -> str:
    """Return a name as it fits a picture."""
    return plain(name if len(name) <= _LONGEST else name[: _LONGEST - 3] + "...")


def tidy(axes: Any) -> None:
    """Take away what a picture does not need."""
    axes.spines[["top", "right"]].set_visible(False)
    axes.spines[["left", "bottom"]].set_color("#888888")
    axes.tick_params(labelsize=10, color="#888888", labelcolor=INK)


def say(axes: Any, text: str) -> None:
    """Write what there is to say where there is nothing to draw."""
    axes.text(0.5, 0.5, text, transform=axes.transAxes, ha="center", va="center", color=INK)
