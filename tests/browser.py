"""A real browser, where one is installed, that is let out to nowhere."""

import contextlib
import shutil

import pytest

_NAMES = ("chromium", "chromium-browser", "google-chrome")
_ARGUMENTS = [
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
]


@contextlib.contextmanager
def chromium():
    """Start Chromium; a test that needs it is skipped where there is none, and says so."""
    playwright = pytest.importorskip("playwright.sync_api")
    found = next(filter(None, map(shutil.which, _NAMES)), None)
    if found is None:
        pytest.skip("no Chromium is installed; on Debian: apt-get install chromium")
    with playwright.sync_playwright() as driver:
        browser = driver.chromium.launch(executable_path=found, args=_ARGUMENTS)
        try:
            yield browser
        finally:
            browser.close()


class Visit:
    """A page that is open, and all that went wrong on it."""

    def __init__(self, browser, path, *, scheme="light", width=1200, height=900):
        self.page = browser.new_page(
            color_scheme=scheme, viewport={"width": width, "height": height}
        )
        self.errors, self.requests, self.dialogs = [], [], []
        self.page.on("console", lambda said: self.errors.append(said.text))
        self.page.on("pageerror", lambda error: self.errors.append(str(error)))
        self.page.on("request", lambda request: self.requests.append(request.url))
        self.page.on(
            "dialog", lambda dialog: (self.dialogs.append(dialog.message), dialog.accept())
        )
        self.address = path.resolve().as_uri()
        self.page.goto(self.address)
        self.page.wait_for_selector("html[data-ready=yes]")

    def assert_clean(self):
        """It said nothing to the console, and asked nothing of any network."""
        assert self.errors == []
        assert self.dialogs == []
        assert self.requests == [self.address]

    def names(self):
        """The first column of the table of parameters, as shown."""
        return self.page.locator("#table tbody td:first-child").all_inner_texts()

    def width(self):
        return self.page.evaluate("document.documentElement.scrollWidth")
