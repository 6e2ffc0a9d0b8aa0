"""The report: what it says, that nothing in it can run, and that it works in a real browser."""

import dataclasses
import html
import json
import re
from collections import Counter

import numpy as np
import pytest
from browser import Visit, chromium
from conftest import gsm_fit
from made_up import many

import scorevi
from scorevi.base.evaluate import BadScore, BadScores
from scorevi.examples import eight_schools
from scorevi.results.page.writing import as_script, page_of
from scorevi.trust.verdict import Reason, Verdict

EVIL = "</script><img src=x onerror=alert(1)><b>{{data}}&amp;\u2028"


@pytest.fixture(scope="module")
def fit():
    fit = scorevi.fit(eight_schools(), seed=0, max_gradients=3000)
    fit.check(modes=False)
    return fit


@pytest.fixture(scope="module")
def evil():
    """A fit whose every text is markup."""
    fit = scorevi.fit(
        scorevi.from_function(np.negative, 2, names=[EVIL, "b"], source=EVIL), max_gradients=200
    )
    bad = BadScores(Counter({EVIL: 2}), [BadScore(np.zeros(2), EVIL, EVIL)])
    return dataclasses.replace(
        fit,
        verdict=Verdict((Reason("fail", EVIL, EVIL),), 0.9, 0.1, 400),
        notes=(EVIL,),
        bad_scores=bad,
        solver=EVIL,
    )


def visible(text):
    """What a page says without its scripts, in plain text."""
    text = re.sub(r"<(script|style|noscript).*?</\1>", "", text, flags=re.DOTALL)
    return html.unescape(re.sub(r"\s+", " ", re.sub(r"<[^>]+>", " ", text)))


def test_the_verdict_comes_first_and_in_words(fit):
    said = visible(page_of(fit, "Eight schools"))
    assert said.index(fit.verdict.meaning) < said.index("Parameters")
    for reason in fit.verdict.reasons:
        assert reason.text in said
    assert f"{fit.num_gradients:,} gradients" in said
    assert fit.status.cause in said


def test_it_can_be_made_again_from_what_it_says(fit, tmp_path):
    back = scorevi.load(fit.save(tmp_path / "fit.npz"))
    said = visible(page_of(back))
    assert "scorevi.fit(target, max_gradients=3000, seed=0)" in said
    assert "def log_density(theta: Array) -> Array:" in said
    for name in ("python", "numpy", "tolerance", "platform"):
        assert name in said
    assert back.origin == fit.origin


def test_what_is_not_known_is_said(tmp_path):
    fit = gsm_fit(scorevi.from_function(lambda x: -x, 2), max_gradients=100)
    said = visible(page_of(fit))
    assert "Nobody has asked whether to believe this fit" in said
    assert "None: every evaluation gave a usable score" in said
    with pytest.warns(scorevi.FitWarning):
        failed = gsm_fit(scorevi.from_function(lambda x: x * np.nan, 2, batched=True))
    said = visible(page_of(failed))
    assert "Nothing was fitted. bad-scores:" in said
    assert re.search(r"\d+ of \d+ evaluations, 100.0%, gave no usable score", said)


def test_no_text_of_a_fit_becomes_markup(evil):
    text = page_of(evil, EVIL)
    assert "<img" not in text
    assert text.count("</script>") == 2
    assert text.count("<script") == 2
    assert EVIL in html.unescape(text)
    assert json.loads(as_script([EVIL])) == [EVIL]


def test_paths_that_cannot_be_written_are_named(fit, tmp_path):
    with pytest.raises(ValueError, match=r"`path` must end in .html; got report.pdf"):
        fit.report(tmp_path / "report.pdf")
    with pytest.raises(ValueError, match="`path` must lie in an existing folder"):
        fit.report(tmp_path / "missing" / "report.html")
    assert fit.report(tmp_path / "a.html") == tmp_path / "a.html"


@pytest.mark.slow
def test_in_a_browser_it_opens_sorts_and_searches(fit, evil, tmp_path):
    small, bad, large = (tmp_path / f"{name}.html" for name in ("small", "evil", "large"))
    fit.report(small)
    evil.report(bad, title=EVIL)
    many(5000).report(large)
    one = gsm_fit(
        scorevi.from_function(
            np.negative, 1, constrain=lambda x: {"count": np.rint(x[:, 0]), "theta": x[:, 0]}
        ),
        max_gradients=100,
    )
    with chromium() as browser:
        for scheme, width in (("light", 1200), ("dark", 1200), ("light", 390)):
            visit = Visit(browser, small, scheme=scheme, width=width)
            assert visit.names() == [row.name for row in fit.summary]
            assert visit.width() <= width
            ink, paper = visit.page.evaluate(
                "[getComputedStyle(document.body).color, "
                "getComputedStyle(document.body).backgroundColor]"
            )
            dark = [sum(map(int, re.findall(r"\d+", colour)[:3])) < 384 for colour in (ink, paper)]
            assert dark == [scheme == "light", scheme == "dark"]
            visit.assert_clean()
        _sorts_searches_and_tells_values(Visit(browser, small), fit)
        _turns_pages(Visit(browser, large))
        one.report(tmp_path / "one.html")
        visit = Visit(browser, tmp_path / "one.html")
        assert visit.names() == ["count", "theta"]
        assert visit.page.locator("#marginal").is_hidden()  # whole numbers have no density
        visit.page.get_by_role("button", name="show the density of theta").click()
        assert visit.page.locator("#marginal").is_visible()
        assert visit.page.locator("#correlation, nav a[href='#correlation']").count() == 0
        visit.assert_clean()
        visit = Visit(browser, bad)
        assert visit.names()[0].startswith("</script><img")
        assert visit.page.locator("img").count() == 0
        visit.assert_clean()


def _sorts_searches_and_tells_values(visit, fit):
    page = visit.page
    page.get_by_role("button", name="mean", exact=True).click()
    by_mean = [row.name for row in sorted(fit.summary, key=lambda row: row.mean)]
    assert visit.names() == by_mean
    page.get_by_role("button", name="mean", exact=True).press("Enter")
    assert visit.names() == by_mean[::-1]
    assert page.locator("th[aria-sort=descending]").inner_text() == "mean"
    page.keyboard.press("/")
    page.keyboard.type("THETA 3")
    assert visit.names() == ["theta[3]"]
    page.get_by_role("button", name="show the density of theta[3]").press("Enter")
    assert page.locator("#marginal h3").inner_text() == "The density of theta[3]"
    for picture in ("#marginal", "#course-elbo", "#course-fisher", "#weights-picture"):
        page.locator(f"{picture} svg").press("ArrowRight")
        by_key = page.locator(f"{picture} output").inner_text()
        page.locator(f"{picture} svg").hover()
        by_pointer = page.locator(f"{picture} output").inner_text()
        assert re.search(r"\d", by_key), picture
        assert re.search(r"\d", by_pointer), picture
        assert by_key != by_pointer, picture
    page.locator("#correlation-map svg").press("ArrowRight")
    assert re.search(r"and .*: -?\d\.\d\d", page.locator("#correlation-map output").inner_text())
    visit.assert_clean()


def _turns_pages(visit):
    page = visit.page
    assert len(visit.names()) == 25
    assert page.locator("#table .count").inner_text() == "1–25 of 5000"
    page.locator("#table").get_by_role("button", name="next").click()
    assert visit.names()[0] == "effect[24]"
    page.get_by_label("search parameters").fill("effect[4998]")
    assert visit.names() == ["effect[4998]"]
    page.emulate_media(media="print")
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    page.get_by_label("search parameters", exact=True).evaluate(
        "box => { box.value = ''; box.dispatchEvent(new Event('input')); }"
    )
    page.evaluate("dispatchEvent(new Event('beforeprint'))")
    assert len(visit.names()) == 200
    assert not page.locator("#table .controls").is_visible()
    visit.assert_clean()
