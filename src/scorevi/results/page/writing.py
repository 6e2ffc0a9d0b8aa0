"""The page as a file: template, style and scripts of the package, with the content of a fit.

A name may hold anything. Text is escaped where it becomes markup; data for the scripts are JSON in
which no character can end a script; and the page allows no script but its own, by their hash, and
no request to anywhere.
"""

from __future__ import annotations

import base64
import hashlib
import importlib.resources
import json
import re
from html import escape
from pathlib import Path
from typing import TYPE_CHECKING, Any

from scorevi.base.files import appearing, check_folder, why
from scorevi.results.page.data import data_of
from scorevi.results.page.sections import sections_of

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_SCRIPTS = ("format.js", "table.js", "chart.js", "pictures.js", "page.js")
_ENDINGS = (".html", ".htm")


def write_page(fit: Fit, path: str | Path, *, title: str = "") -> Path:
    """Write the report of a fit; see :meth:`scorevi.Fit.report`."""
    path = check_page(path)
    text = page_of(fit, title)
    try:
        with appearing(path) as part:
            part.write_text(text, encoding="utf-8")
    except OSError as error:
        raise ValueError(f"`path` could not be written: {path}: {why(error)}.") from None
    return path


def check_page(path: str | Path) -> Path:
    """Refuse a path that no report can be written to."""
    path = check_folder(path)
    if path.suffix.lower() not in _ENDINGS:
        raise ValueError(f"`path` must end in .html; got {path.name}.")
    return path


def page_of(fit: Fit, title: str = "") -> str:
    """Return the report of a fit as one text of HTML."""
    script = "\n".join(map(_file, _SCRIPTS))
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    parts = {
        "title": escape(title or f"A fit of {fit.dim} dimensions"),
        "policy": f"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-{digest}'",
        "style": _file("style.css"),
        "script": script,
        "data": as_script(data_of(fit)),
        **sections_of(fit),
    }
    # In one pass, so that nothing which is put in is looked at again.
    return re.sub(r"\{\{(\w+)\}\}", lambda found: parts[found[1]], _file("page.html"))


def as_script(data: Any) -> str:
    """Return data as JSON that can stand inside a script element, whatever texts it holds."""
    text = json.dumps(data, allow_nan=False, separators=(",", ":"))
    for character in "<>&":
        text = text.replace(character, f"\\u{ord(character):04x}")
    return text


def _file(name: str) -> str:
    return importlib.resources.files(__package__).joinpath(name).read_text(encoding="utf-8")
