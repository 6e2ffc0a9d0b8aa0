"""All that the library can say, read from its source, so that no message is missing."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from pathlib import Path

_ENDS = {"Status": 1, "_diverged": 1, "bad_scores": 1}
_EVIDENCE = {"Reason": 1}
_LEAST = 12
"""Letters below which nothing is said."""

ROOMS = {
    "fit": "Fitting",
    "sample": "Sampling",
    "making": "Sampling",
    "base": "Arguments, files and clusters",
    "families": "Gaussians and mixtures",
    "targets/function": "Models in NumPy",
    "targets/jax": "Models in JAX",
    "targets/numpyro": "Models in NumPyro",
    "targets/pymc": "Models in PyMC",
    "targets/stan": "Models in Stan",
    "targets/shards": "Shards",
    "targets/isolated": "Processes of their own",
    "targets": "Models",
    "solvers": "Solvers",
    "starts": "Starts",
    "engine": "Checkpoints and runs",
    "trust": "The verdict",
    "sampling": "Sampling",
    "results": "Results, pictures and files",
    "many": "Many fits",
    "cli": "The command line",
}


def page(package: Path) -> str:
    """Return the page of all messages: how fits end, what verdicts say, and errors."""
    ends, reasons, errors = set(), set(), {}
    for path in sorted(package.rglob("*.py")):
        room = path.relative_to(package).with_suffix("").as_posix()
        if room.startswith("studies"):
            continue
        for kind, text in _said(ast.parse(path.read_text(encoding="utf-8"))):
            if kind in _ENDS:
                ends.add(text)
            elif kind in _EVIDENCE:
                reasons.add(text)
            else:
                title = next((ROOMS[one] for one in ROOMS if room.startswith(one)), "Other")
                errors.setdefault(title, set()).add(text)
    parts = [
        "# All messages",
        "Read from the source when this page is built. `…` stands for what is known only when it "
        "is said: a name, a figure. What to do about the frequent ones: "
        "[troubleshooting](troubleshooting.md).",
        "## How a fit or sample ends",
        _listed(ends),
        "## What a verdict says",
        _listed(reasons),
    ]
    for title in sorted(errors):
        parts += [f"## Errors: {title}", _listed(errors[title])]
    return "\n\n".join(parts) + "\n"


def _said(tree: ast.AST) -> Iterator[tuple[str, str]]:
    """Yield what each call that says something says."""
    for node in ast.walk(tree):
        raised = isinstance(node, ast.Raise)
        call = node.exc if raised else node
        if not isinstance(call, ast.Call) or not isinstance(call.func, ast.Name):
            continue
        kind = "error" if raised else call.func.id
        place = 0 if raised else {**_ENDS, **_EVIDENCE}.get(kind)
        if place is not None and len(call.args) > place:
            text = re.sub(r"\s+", " ", _words(call.args[place])).strip()
            if len(re.sub(r"[\W_]", "", text)) >= _LEAST:
                yield kind, text


def _words(node: ast.expr) -> str:
    """Return a text with … for what is computed."""
    if isinstance(node, ast.Constant):
        return str(node.value)
    if isinstance(node, ast.JoinedStr):
        return "".join(_words(part) for part in node.values)
    if isinstance(node, ast.BinOp):
        return _words(node.left) + _words(node.right)
    return "…"


def _listed(texts: set[str]) -> str:
    return "\n".join("- " + _plain(text) for text in sorted(texts))


def _plain(text: str) -> str:
    """Return a text in which Markdown and HTML find nothing but code between backticks."""
    parts = text.split("`")
    for number in range(0, len(parts), 2):
        parts[number] = re.sub(r"([\\*_\[\]<>#|])", r"\\\1", parts[number])
    return "`".join(parts)
