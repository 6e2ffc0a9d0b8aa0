"""What a verdict is: ``pass``, ``warn`` or ``fail``, with what speaks against the fit."""

from __future__ import annotations

import math
from typing import NamedTuple

from scorevi.base.html import card, list_html, note
from scorevi.trust.weights import RELIABLE

_MEANING = {
    "pass": "Nothing that was looked at speaks against this fit.",
    "warn": "Usable with care: something speaks against this fit.",
    "undecided": "Usable with care: what was looked at does not decide.",
    "fail": "Do not rely on this fit: what was looked at says that it is wrong.",
}


class Reason(NamedTuple):
    """One piece of evidence."""

    level: str
    """``warn`` or ``fail``; ``undecided`` where more draws would tell."""
    text: str
    advice: str


class Verdict(str):
    """``pass``, ``warn`` or ``fail``, with the reasons.

    Attributes
    ----------
    reasons
        What speaks against the fit, the gravest first.
    khat
        The tail of the importance weights; NaN where it could not be had.
    ess
        Effective sample size of the fresh draws, as a share of them.
    num_evaluations
        What the verdict cost.
    """

    __slots__ = ("ess", "khat", "num_evaluations", "reasons")
    reasons: tuple[Reason, ...]
    khat: float
    ess: float
    num_evaluations: int

    def __new__(
        cls,
        reasons: tuple[Reason, ...],
        khat: float = math.nan,
        ess: float = math.nan,
        num_evaluations: int = 0,
    ) -> Verdict:
        """Let the gravest reason decide."""
        ordered = tuple(sorted(reasons, key=lambda reason: reason.level != "fail"))
        verdict = super().__new__(cls, ordered[0].level if ordered else "pass")
        verdict.reasons, verdict.khat, verdict.ess = ordered, khat, ess
        verdict.num_evaluations = num_evaluations
        return verdict

    @property
    def ok(self) -> bool:
        """Whether it is not a failure."""
        return self != "fail"

    @property
    def meaning(self) -> str:
        """What it means, in a sentence."""
        return _MEANING[str(self)]

    @property
    def is_stray(self) -> bool:
        """Whether k-hat is that of a few stray draws, and nothing speaks against the weights."""
        return self == "pass" and self.khat > RELIABLE

    @property
    def figures(self) -> str:
        """What it rests on, in figures."""
        cost = f"{self.num_evaluations} evaluations"
        return cost if math.isnan(self.khat) else f"{self._of_weights}, {cost}"

    @property
    def _of_weights(self) -> str:
        stray = " of a few stray draws" if self.is_stray else ""
        return f"k-hat {self.khat:.2f}{stray}, ESS {self.ess:.0%}"

    def explain(self) -> str:
        """Return the verdict and its reasons with advice, a line each."""
        figures = "" if math.isnan(self.khat) else f" ({self._of_weights})"
        cost = f", for {self.num_evaluations} evaluations" if self.num_evaluations else ""
        lines = [f"{self}{figures}{cost}"]
        lines += [f"- {reason.text}. {reason.advice}" for reason in self.reasons]
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        reasons = list_html(f"{reason.text}. {reason.advice}" for reason in self.reasons)
        return card(str(self), self.meaning, reasons, note(self.figures))

    def __reduce__(self) -> tuple[type[Verdict], tuple[object, ...]]:
        return Verdict, (self.reasons, self.khat, self.ess, self.num_evaluations)
