"""The site builds strictly, names all that is public, and asks nothing of any network."""

import os
import re
import subprocess
import sys
from html.parser import HTMLParser
from pathlib import Path

import pytest
from browser import chromium

import scorevi

ROOT = Path(__file__).parents[2]
REFERENCE = ROOT / "docs" / "reference.md"
LOADED = {"script": "src", "link": "href", "img": "src", "iframe": "src", "source": "src"}
SAID_ONLY = {"canonical", "prev", "next"}


def test_the_reference_has_every_public_name_once():
    """Of a name that is a module's too, such as ``fit``, the member of that module is listed."""
    listed = re.findall(r"^::: scorevi\.([\w.]+)$", REFERENCE.read_text(), flags=re.MULTILINE)
    public = [name.removeprefix("fit.").removeprefix("sample.") for name in listed]
    assert sorted(name for name in public if "." not in name) == sorted(scorevi.__all__)


def test_every_public_name_says_what_it_is():
    for name in scorevi.__all__:
        assert name == "__version__" or (getattr(scorevi, name).__doc__ or "").strip(), name


def test_the_formulas_point_to_code_that_is_there():
    text = (ROOT / "docs" / "how-it-works.md").read_text()
    pointers = re.findall(r"`([\w/]+\.py): (\w+)`", text)
    assert len(pointers) > 30
    for path, name in pointers:
        source = (ROOT / "src" / "scorevi" / path).read_text()
        assert re.search(rf"^(def|class) {name}\b", source, flags=re.MULTILINE), f"{path}: {name}"


class Loads(HTMLParser):
    """What a page loads when it is opened, not what it links to."""

    def __init__(self, text):
        super().__init__()
        self.found = []
        self.feed(text)

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        if tag in LOADED and given.get("rel") not in SAID_ONLY:
            self.found.append(given.get(LOADED[tag]) or "")


@pytest.fixture(scope="module")
def site(tmp_path_factory):
    pytest.importorskip("mkdocs")
    pytest.importorskip("mkdocstrings")
    folder = tmp_path_factory.mktemp("site")
    result = subprocess.run(
        [sys.executable, "-m", "mkdocs", "build", "--strict", "--quiet", "--site-dir", str(folder)],
        cwd=ROOT,
        env={**os.environ, "NO_MKDOCS_2_WARNING": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return folder


@pytest.mark.slow
def test_the_site_builds_strictly(site):
    text = (site / "reference.html").read_text()
    for name in scorevi.__all__:
        assert re.search(rf'id="scorevi\.(fit\.|sample\.)?{name}"', text), name


@pytest.mark.slow
def test_the_pages_load_nothing_from_elsewhere(site):
    pages = list(site.rglob("*.html"))
    assert len(pages) > 20
    for page in pages:
        for address in Loads(page.read_text()).found:
            assert not re.match(r"(\w+:)?//", address), f"{page.name} loads {address}"
    for sheet in site.rglob("*.css"):
        assert "url(http" not in sheet.read_text(), sheet.name


@pytest.mark.slow
def test_no_role_of_another_markup_is_left(site):
    text = (site / "reference.html").read_text()
    assert not re.findall(r":\w+:<code>|\.\. math::|\\\w+ ", text)


@pytest.mark.slow
def test_all_messages_are_read_from_the_source(site):
    text = (site / "messages.html").read_text()
    for words in (
        "the budget was spent",
        "there is another mode",
        "the chains do not agree",
        "which the program declares as",
        "must return a scalar for one point",
    ):
        assert words in text


@pytest.mark.slow
@pytest.mark.parametrize("scheme", ["light", "dark"])
def test_the_site_is_searched_from_disk_without_a_network(site, scheme):
    with chromium() as browser:
        page = browser.new_page(color_scheme=scheme)
        wrong, asked = [], []
        page.on("console", lambda said: wrong.append(said.text))
        page.on("pageerror", lambda error: wrong.append(str(error)))
        page.on("request", lambda request: asked.append(request.url))
        page.goto((site / "index.html").as_uri())
        page.locator("input.md-search__input").click()
        page.keyboard.type("k-hat is above")
        page.wait_for_selector(".md-search-result__item")
        titles = page.locator(".md-search-result__item h1").all_inner_texts()
        assert "Troubleshooting" in titles or "All messages" in titles
        assert wrong == []
        assert [url for url in asked if not url.startswith(("file:", "data:"))] == []
