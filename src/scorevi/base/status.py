"""How a fit ended, in words a person can act on."""

from __future__ import annotations

import sys
import warnings
from typing import Any

_ADVICE = {
    "converged": "",
    "stalled": (
        "The steps have become too short for the way that is left, or the posterior is so far "
        "from Gaussian that its scores hide it. Go on with stop=False, take exact draws "
        "(scorevi.sample), or reparametrise: centered against non-centered, scales of order one."
    ),
    "budget": "It was still gaining, or too noisy to tell. Raise max_gradients.",
    "time": "Raise max_seconds, or make the score faster.",
    "interrupted": (
        "The fit holds what was reached, and initial=fit.q begins from there. With checkpoint= it "
        "could have gone on."
    ),
    "diverged": (
        "Likely causes: an improper or flat posterior (a parameter without a prior), a score of "
        "the wrong sign, or a score that is not the gradient of one function. Check the score "
        "against finite differences of the log density, and the priors."
    ),
    "bad-scores": (
        "Likely causes: parameters that leave their support (work on the unconstrained scale), "
        "overflow in exp or division by zero, data that hold NaN or lie outside their support, an "
        "error in the score function itself, or a start far from the posterior (pass initial= a "
        "point where the model makes sense)."
    ),
}


class Status(str):
    """The way a fit ended: a word to compare with, its cause, and what to do about it.

    Attributes
    ----------
    cause
        What happened, with figures.
    advice
        What to do about it; empty where there is nothing to mend.
    ok
        Whether the fit may be looked at as a fit at all.

    Examples
    --------
    >>> status = Status("budget", "2000 of 2000 gradients were spent")
    >>> status == "budget", status.ok
    (True, True)
    """

    __slots__ = ("advice", "cause")
    cause: str
    advice: str

    def __new__(cls, word: str, cause: str, advice: str = "") -> Status:
        """Build from one of the known words and the cause; advice if the usual one does not fit."""
        if word not in _ADVICE:
            raise ValueError(f"`word` must be one of {', '.join(_ADVICE)}; got {word!r}.")
        status = super().__new__(cls, word)
        status.cause = cause
        status.advice = advice or _ADVICE[word]
        return status

    @property
    def ok(self) -> bool:
        """False where the run failed: ``diverged`` or ``bad-scores``."""
        return self not in ("diverged", "bad-scores")

    def explain(self) -> str:
        """Return word, cause and advice as one line."""
        return f"{self}: {self.cause}. {self.advice}".rstrip()

    def __reduce__(self) -> tuple[type[Status], tuple[str, str, str]]:
        return Status, (str(self), self.cause, self.advice)


class FitError(RuntimeError):
    """A fit failed; ``error.fit`` holds what there was when it did, if anything."""

    def __init__(self, message: str, fit: Any = None) -> None:
        super().__init__(message)
        self.fit = fit


class FitWarning(UserWarning):
    """A fit ended in a way that should not pass unread."""


def warn_each_time(text: str) -> None:
    """Warn the caller's caller with :class:`FitWarning`, also if it was told the same before.

    Python shows a warning once per line of code, but a loop over fits may fail more than once.
    """
    frame = sys._getframe(2)
    where = frame.f_code.co_filename, frame.f_lineno, frame.f_globals.get("__name__")
    warnings.warn_explicit(text, FitWarning, *where)  # with no record of what was shown
