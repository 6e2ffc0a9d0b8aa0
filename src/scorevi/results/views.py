"""What a notebook shows of a fit, or of what else has a table and a word to say of itself."""

from __future__ import annotations

from typing import TYPE_CHECKING

from scorevi.base.html import card, list_html, note, table_html
from scorevi.results.report import one_line
from scorevi.results.saving import known_summary
from scorevi.results.table import HEADINGS, SummaryTable, cells, text_of

if TYPE_CHECKING:
    from scorevi.results.fit import Fit

_ROWS = 10


def view(word: str, heading: str, table: SummaryTable, facts: list[str], more: str = "") -> str:
    """Return a compact view in HTML: a word on a badge, a table, and facts.

    Parameters
    ----------
    word
        A verdict, or how it ended.
    heading
        What it means.
    table
        Of which the first rows are shown.
    facts
        Sentences for a list.
    more
        A line at the end.
    """
    rows = [(row.name, *map(text_of, cells(row))) for row in table[:_ROWS]]
    left = len(table) - len(rows)
    parts = [table_html(("parameter", *HEADINGS), rows)] if rows else []
    if left:
        parts.append(note(f"… and {left} more: summary.to_pandas() has all"))
    return card(word, heading, *parts, list_html(facts), note(more) if more else "")


def fit_view(fit: Fit) -> str:
    """Return the view of a fit."""
    verdict = fit.verdict
    if not fit.status.ok or fit.num_updates == 0:
        word, heading = "fail", f"Not fitted. {fit.status.explain()}"
        facts: list[str] = []
    elif verdict is None:
        word, heading = str(fit.status), fit.status.cause
        facts = ["Not checked yet: fit.check() says whether to believe it."]
    else:
        word, heading = str(verdict), verdict.meaning
        facts = [f"{reason.text}. {reason.advice}" for reason in verdict.reasons]
    return view(word, heading, known_summary(fit), [*facts, *fit.notes], one_line(fit))
