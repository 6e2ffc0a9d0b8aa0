"""The table of parameters: to look up, to print, for notebooks and for pandas."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, SupportsIndex, overload

import numpy as np

from scorevi.base.arrays import Array
from scorevi.base.extras import require
from scorevi.base.html import table_html
from scorevi.results.parts import Summary

LEVELS = (
    0.001, 0.005, 0.01, 0.025, *(round(0.05 * k, 2) for k in range(1, 20)),
    0.975, 0.99, 0.995, 0.999,
)  # fmt: skip
"""Levels of the quantiles that are kept of each variable, so that its density can be drawn."""
HEADINGS = ("mean", "error", "sd", "5%", "25%", "50%", "75%", "95%")
BRIEF = ("mean", "error", "sd", "5%", "50%", "95%")
"""Those of the headings that fit a terminal."""
_SHOWN = 60
"""Rows of a long table that are printed; half of them from its end."""
_SHOWN_IN_NOTEBOOK = 20
_UNKNOWN = "–"


def cells(row: Summary, headings: Sequence[str] = HEADINGS) -> tuple[float | None, ...]:
    """Return the numbers of a row, in the order of the headings."""
    quarters = row.lower_quarter, row.median, row.upper_quarter
    numbers = (row.mean, row.error, row.sd, row.lower, *quarters, row.upper)
    return tuple(numbers[HEADINGS.index(heading)] for heading in headings)


def text_of(value: float | None) -> str:
    """Return a number as tables have it."""
    return _UNKNOWN if value is None else f"{value:.4g}"


class SummaryTable(tuple[Summary, ...]):
    """Mean, sd and quantiles of each number that has a name: a tuple of rows.

    After ``fit.check()`` each mean has its error too.
    ``print(table)`` prints it, a notebook shows it, ``table.to_pandas()`` is a data frame, and
    ``table["mu"]`` the row of one number, ``table["theta"]`` the rows of an array.

    Attributes
    ----------
    quantiles
        Those of each row at :data:`LEVELS`, shape (rows, levels); empty where they are not known.

    Examples
    --------
    >>> import scorevi
    >>> table = scorevi.fit(scorevi.examples.eight_schools()).summary
    >>> table["mu"].name, [row.name for row in table["theta"]][:2]
    ('mu', ['theta[0]', 'theta[1]'])
    >>> print(SummaryTable([Summary("mu", 4.5, 3.25, -0.85, 9.84, 2.3, 4.5, 6.7, 0.1)]))
    parameter  mean  error    sd     5%  25%  50%  75%   95%
    mu          4.5    0.1  3.25  -0.85  2.3  4.5  6.7  9.84
    """

    quantiles: Array

    def __new__(cls, rows: Iterable[Summary] = (), quantiles: Array | None = None) -> SummaryTable:
        """Build from rows, and what is known of their quantiles."""
        table = super().__new__(cls, rows)
        table.quantiles = np.empty((0, len(LEVELS))) if quantiles is None else quantiles
        return table

    @overload
    def __getitem__(self, key: SupportsIndex, /) -> Summary: ...
    @overload
    def __getitem__(self, key: slice, /) -> SummaryTable: ...
    @overload
    def __getitem__(self, key: str, /) -> Summary | SummaryTable: ...
    def __getitem__(self, key: SupportsIndex | slice | str, /) -> Summary | SummaryTable:
        if isinstance(key, str):
            return self._named(key)
        if isinstance(key, slice):
            return SummaryTable(super().__getitem__(key), self.quantiles[key])
        return super().__getitem__(key)

    def _named(self, name: str) -> Summary | SummaryTable:
        numbers = [i for i, row in enumerate(self) if row.name == name]
        if numbers:
            return self[numbers[0]]
        numbers = [i for i, row in enumerate(self) if row.name.startswith(f"{name}[")]
        if not numbers:
            known = ", ".join(row.name for row in self[:8]) + (", ..." if len(self) > 8 else "")
            raise KeyError(f"there is no {name!r} in the summary, which has {known}")
        return self[numbers[0] : numbers[-1] + 1]

    def to_pandas(self) -> Any:
        """Return a data frame with a row for each number, by its name."""
        index = require("pandas").Index([row.name for row in self], name="parameter")
        numbers = [
            [np.nan if value is None else value for value in column]
            for column in zip(*map(cells, self), strict=True)
        ]
        columns = dict(zip(HEADINGS, numbers or [[]] * len(HEADINGS), strict=True))
        return require("pandas").DataFrame(columns, index=index)

    @property
    def _headings(self) -> tuple[str, ...]:
        """Those of columns to show: errors of means are known after ``fit.check()``."""
        has_errors = any(row.error is not None for row in self)
        return HEADINGS if has_errors else tuple(one for one in HEADINGS if one != "error")

    def __repr__(self) -> str:
        half = _SHOWN // 2
        rows: Sequence[Summary] = self if len(self) <= _SHOWN else (*self[:half], *self[-half:])
        headings = self._headings
        lines = [
            ("parameter", *headings),
            *((row.name, *map(text_of, cells(row, headings))) for row in rows),
        ]
        widths = [max(map(len, column)) for column in zip(*lines, strict=True)]
        texts = [
            "  ".join(
                [first.ljust(widths[0])]
                + [text.rjust(width) for text, width in zip(rest, widths[1:], strict=True)]
            )
            for first, *rest in lines
        ]
        if len(rows) < len(self):
            texts.insert(half + 1, f"... {len(self) - len(rows)} more ...")
        return "\n".join(texts)

    def _repr_html_(self) -> str:
        shown, headings = self[:_SHOWN_IN_NOTEBOOK], self._headings
        body = table_html(
            ("parameter", *headings),
            [(row.name, *map(text_of, cells(row, headings))) for row in shown],
        )
        left = len(self) - len(shown)
        return body + (f"<p>… and {left} more</p>" if left else "")

    def __reduce__(self) -> tuple[type[SummaryTable], tuple[object, ...]]:
        return SummaryTable, (tuple(self), self.quantiles)
