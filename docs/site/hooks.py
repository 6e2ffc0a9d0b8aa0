"""What MkDocs cannot say in its configuration."""

import importlib.util
import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SHOWN = {"contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
_ROLE = re.compile(r":(?:meth|mod|class|func|data|attr):<code>~?(?:scorevi\.)?([^<]*)</code>")
_MATH = re.compile(r"<p>\.\. math::\s*(.*?)</p>", flags=re.DOTALL)
_SIGNS = {
    r"\qquad": "  ",
    r"\quad": " ",
    r"\sim": "~",
    r"\sinh": "sinh",
    r"\mu": "μ",
    r"\tau": "τ",
    r"\eta": "η",
    r"\sigma": "σ",
    "_j": "ⱼ",
    "^{-1}": "⁻¹",
}


def on_page_markdown(markdown, page, **_):
    """Show what lies elsewhere in the repository where it belongs in the site."""
    name = page.file.src_uri
    if name == "messages.md":
        return _messages().page(_ROOT / "src" / "scorevi")
    if name in _SHOWN:
        text = (_ROOT / _SHOWN[name]).read_text(encoding="utf-8")
        return text.replace("](docs/", "](")
    return markdown


def on_page_content(html, **_):
    """Take out of docstrings what Markdown does not know: roles, and the sign before formulas."""
    return _MATH.sub(_formula, _ROLE.sub(r"<code>\1</code>", html))


def _formula(found):
    """Return a formula of LaTeX as a line of text; nothing on these pages could typeset it."""
    text = re.sub(r"\\text\{(.*?)\}", r"\1", found[1])
    for sign, plain in _SIGNS.items():
        text = text.replace(sign, plain)
    return f"<pre>{re.sub(r'  +', '  ', text)}</pre>"


def _messages():
    path = Path(__file__).with_name("messages.py")
    spec = importlib.util.spec_from_file_location("messages", path)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module
