# SPDX-License-Identifier: Apache-2.0
"""The HTML reports in a real browser: quiet, complete without JavaScript, accessible, printable."""

from __future__ import annotations

import json
import re
from typing import Any

import pytest

from tests.browser.screenshots import WRITES, compare
from tests.html_documents import NAMES

EVERY = pytest.mark.parametrize("name", NAMES)
#: How a page is looked at: options of the browser's context.
LOOKS: dict[str, dict[str, Any]] = {
    "light": {"color_scheme": "light"},
    "dark": {"color_scheme": "dark"},
    "forced": {"forced_colors": "active"},
    "narrow": {"viewport": {"width": 390, "height": 800}},
}
#: All pages in one way, one page in every way.
SHOWN = [*((name, "light") for name in NAMES), *(("profile", look) for look in LOOKS)]
WCAG = ["wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice"]
#: Shows the figures of the charts, without most of their rows, which are alike and take long.
_OPEN_DETAILS = """
document.querySelectorAll("details").forEach((each) => { each.open = true; });
document.querySelectorAll("details tr:nth-child(n+5)").forEach((each) => each.remove());
"""
#: A4 without its margins, in pixels of CSS.
A4_WIDTH = 688


@EVERY
def test_a_page_makes_no_request_and_says_nothing(name, opened) -> None:
    page = opened(name)
    assert page.title().startswith("Writewise ")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


@EVERY
def test_hostile_text_does_nothing_in_a_browser(name, opened) -> None:
    """The fixture looks at dialogs, requests and the console."""
    page = opened(f"{name}-hostile")
    assert "alert(1)" in page.locator("body").text_content()
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")


@EVERY
def test_a_page_is_complete_without_javascript(name, opened) -> None:
    def content(page: Any) -> list[str]:
        found: list[str] = page.locator(
            "h1, h2, p, li, th, td, dt, dd, svg.drawing > title, svg.drawing > desc"
        ).all_text_contents()
        return found

    bare = opened(name, java_script_enabled=False)
    assert bare.locator("button").count() == 0
    with_script = [text for text in content(opened(name)) if text != "Save as JSON"]
    assert content(bare) == with_script


@EVERY
def test_axe_finds_nothing(name, opened) -> None:
    from axe_playwright_python.sync_playwright import Axe

    page = opened(name, bypass_csp=True)  # axe is added to the page
    page.evaluate(_OPEN_DETAILS)
    for look in ("light", "dark", "forced"):
        page.emulate_media(
            color_scheme="dark" if look == "dark" else "light",
            forced_colors="active" if look == "forced" else "none",
        )
        found = Axe().run(page, options={"runOnly": WCAG}).response
        problems = [
            f"{look}: {each['id']}: {node['html'][:120]} {node['failureSummary'][:300]}"
            for each in found["violations"]
            for node in each["nodes"]
        ]
        assert problems == []
        assert len(found["passes"]) > 20


@pytest.mark.parametrize(("name", "look"), dict.fromkeys(SHOWN))
def test_a_page_looks_as_it_did(name, look, opened) -> None:
    screenshot = opened(name, **LOOKS[look]).screenshot(full_page=True)
    assert compare(f"{name}-{look}", screenshot) is None


#: What could be missing on a page, and must be noticed.
MISSING = {
    "marks": ".plot *, .bar, .bar-main, .mark, .span, .frontier { visibility: hidden }",
    "texts of charts": ".drawing text { visibility: hidden }",
    "tables": "table { visibility: hidden }",
}
_ADD_STYLE = """
(text) => {
  const sheet = new CSSStyleSheet();
  sheet.replaceSync(text);
  document.adoptedStyleSheets = [sheet];
}
"""


@pytest.mark.skipif(WRITES, reason="the references are written again")
@EVERY
@pytest.mark.parametrize("missing", MISSING)
def test_a_page_that_lacks_something_would_be_found(name, missing, opened) -> None:
    page = opened(name, **LOOKS["light"])
    page.evaluate(_ADD_STYLE, MISSING[missing])
    assert "it differs by" in str(compare(f"{name}-light", page.screenshot(full_page=True)))


@pytest.mark.parametrize("name", ["profile", "advise"])
def test_a_page_prints_on_a4(name, opened) -> None:
    page = opened(name, color_scheme="dark", viewport={"width": A4_WIDTH, "height": 900})
    pdf = page.pdf(prefer_css_page_size=True)
    boxes = re.findall(rb"/MediaBox \[0 0 ([\d.]+) ([\d.]+)\]", pdf)
    assert 2 <= len(boxes) <= 6
    assert {(round(float(width)), round(float(height))) for width, height in boxes} == {(595, 842)}
    page.emulate_media(media="print")
    assert page.evaluate("document.scrollingElement.scrollWidth <= innerWidth")
    background = page.evaluate("getComputedStyle(document.documentElement).backgroundColor")
    assert background == "rgb(255, 255, 255)"
    assert page.locator("details, .tools").first.is_hidden()
    assert compare(f"{name}-print", page.screenshot(full_page=True)) is None


# -- the timeline ----------------------------------------------------------------------------------


def shown_time(page: Any) -> str:
    text: str = page.locator(".tools [role=status]").text_content()
    return text


def test_the_timeline_is_zoomed_by_buttons(opened) -> None:
    page = opened("profile")
    plot = page.locator("svg.plot").first
    whole = plot.get_attribute("viewBox")
    page.get_by_role("button", name="Zoom in").press("Enter")
    assert shown_time(page) == "15 s to 45 s"
    assert page.locator(".moments text").all_text_contents()[:2] == ["20 s", "25 s"]
    page.get_by_role("button", name="Later").click()
    assert shown_time(page) == "30 s to 60 s"
    assert page.get_by_role("button", name="Later").is_disabled()
    page.get_by_role("button", name="Whole run").click()
    assert [float(each) for each in plot.get_attribute("viewBox").split()] == [
        float(each) for each in whole.split()
    ]


def test_the_timeline_is_zoomed_by_dragging(opened) -> None:
    page = opened("profile")
    page.locator("svg.plot").last.scroll_into_view_if_needed()
    box = page.locator("svg.plot").first.bounding_box()
    across = box["y"] + box["height"] / 2
    page.mouse.move(box["x"] + box["width"] * 0.25, across)
    page.mouse.down()
    page.mouse.move(box["x"] + box["width"] * 0.5, across)
    assert page.locator(".selection").count() == 1
    page.mouse.up()
    assert shown_time(page) == "15 s to 30 s"
    assert page.locator(".selection").count() == 0


def test_the_document_is_saved_as_a_file(opened) -> None:
    page = opened("plan", accept_downloads=True)
    with page.expect_download() as download:
        page.get_by_role("button", name="Save as JSON").click()
    assert download.value.suggested_filename == "writewise-plan.json"
    saved = json.loads(download.value.path().read_text())
    assert saved == json.loads(page.locator("#document").text_content())


def test_the_longest_profile_opens(opened) -> None:
    page = opened("long")
    assert page.locator("svg.plot").count() == 3
    for _ in range(4):
        page.get_by_role("button", name="Zoom in").click()
    assert re.fullmatch(r"\d+:\d\d to \d+:\d\d", shown_time(page))
