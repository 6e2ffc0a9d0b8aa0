"""Fits sent to other processes, without their target, and copied within one, with it."""

from __future__ import annotations

import copy
from typing import TYPE_CHECKING, Any

from scorevi.results.saving import known_summary

if TYPE_CHECKING:
    from scorevi.results.fit import Fit


def state_of(fit: Fit) -> dict[str, Any]:
    """Return what a fit is pickled as: all but its target, and what only that could tell."""
    known = {
        name: value for name, value in fit.__dict__.items() if name not in ("summary", "labels")
    }
    return known | {
        "target": None,
        "fresh": None,
        "saved_summary": known_summary(fit),
        "saved_constrained": fit.constrained,
        "saved_labels": fit.labels,
    }


def twin_of(fit: Fit, memo: dict[int, Any] | None) -> Fit:
    """Copy all but the target, which is shared: within a process it need not be left out.

    Without a memo, as of ``copy.deepcopy``, all else is shared too.
    """
    twin = object.__new__(type(fit))
    for name, value in fit.__dict__.items():
        shared = memo is None or name == "target"
        twin.__dict__[name] = value if shared else copy.deepcopy(value, memo)
    return twin
