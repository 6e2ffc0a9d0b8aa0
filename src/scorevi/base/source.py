"""The text of a model, as its author wrote it."""

from __future__ import annotations

import inspect
import textwrap
import tokenize
from typing import Any


def source_of(*functions: Any) -> str:
    """Return the text of functions, or of the class of a method; empty where it is not known.

    Examples
    --------
    >>> source_of(textwrap.dedent).startswith("def dedent(text):")
    True
    >>> source_of(len)
    ''
    """
    texts = dict.fromkeys(_one(function) for function in functions if function is not None)
    return "\n\n".join(text for text in texts if text)


def _one(function: Any) -> str:
    while not inspect.isroutine(function) and hasattr(function, "fn"):
        function = function.fn  # one of NumPyro's handlers around it
    if inspect.ismethod(function):
        function = type(function.__self__)
        if function.__module__.startswith("scorevi."):
            return ""  # a Gaussian, for one, is no model of the user's
    try:
        return textwrap.dedent(inspect.getsource(function)).strip()
    except (OSError, TypeError, SyntaxError, tokenize.TokenError):
        return ""
