"""What MkDocs cannot say in its configuration."""

import re
from pathlib import Path

_ROOT = Path(__file__).parents[2]
_SHOWN = {"contributing.md": "CONTRIBUTING.md", "changes.md": "CHANGELOG.md"}
_ROLE = re.compile(r":(?:meth|mod|class|func|data|attr|mod):<code>(?:~|scorevi\.)?([^<]*)</code>")


def on_page_markdown(markdown, page, **_):
    """Show the files that lie at the top of the repository where they belong in the site."""
    name = _SHOWN.get(page.file.src_uri)
    if name is None:
        return markdown
    return (_ROOT / name).read_text(encoding="utf-8").replace("](docs/", "](")


def on_page_content(html, **_):
    """Take the roles out of docstrings, which Markdown does not know."""
    return _ROLE.sub(r"<code>\1</code>", html)
