"""Small pieces of HTML, for what a notebook shows of a thing. All text is escaped here."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from html import escape

_COLOURS = {"pass": "#00735a", "warn": "#8a5a00", "fail": "#a8321a"}
"""Dark enough for white letters, and told apart by colour-blind eyes; the word says it too."""
_NEUTRAL = "#555f6b"
# Colours of the page are inherited, so that light and dark notebooks both can be read.
_STYLE = (
    "border:1px solid rgba(128,128,128,.4);border-radius:6px;padding:.6em .9em;"
    "max-width:60em;line-height:1.45"
)
_CELL = "padding:.1em .8em .1em 0;text-align:{};font-variant-numeric:tabular-nums;border:0"


def badge(word: str) -> str:
    """Return a word on its colour."""
    colour = _COLOURS.get(word, _NEUTRAL)
    return (
        f'<strong style="background:{colour};color:#fff;border-radius:4px;padding:.1em .5em">'
        f"{escape(word)}</strong>"
    )


def card(word: str, heading: str, *parts: str) -> str:
    """Return a box with a badge, a heading beside it, and parts that are HTML already."""
    head = f"<div>{badge(word)} {escape(heading)}</div>"
    return f'<div style="{_STYLE}">{head}{"".join(parts)}</div>'


def list_html(items: Iterable[str]) -> str:
    """Return a list of texts; nothing for none."""
    entries = "".join(f"<li>{escape(item)}</li>" for item in items)
    return f'<ul style="margin:.4em 0">{entries}</ul>' if entries else ""


def note(text: str) -> str:
    """Return a line in small letters."""
    return f'<div style="opacity:.75;font-size:90%">{escape(text)}</div>'


def table_html(headings: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """Return a table of texts, the first column to the left and the others to the right."""

    def line(tag: str, texts: Sequence[str]) -> str:
        sides = ["left"] + ["right"] * (len(texts) - 1)
        cells = (
            f'<{tag} style="{_CELL.format(side)}">{escape(text)}</{tag}>'
            for text, side in zip(texts, sides, strict=True)
        )
        return f"<tr>{''.join(cells)}</tr>"

    body = "".join(line("td", row) for row in rows)
    return (
        '<table style="border-collapse:collapse;margin:.4em 0"><thead>'
        f"{line('th', headings)}</thead><tbody>{body}</tbody></table>"
    )
