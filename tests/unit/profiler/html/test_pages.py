# SPDX-License-Identifier: Apache-2.0
"""Every page: complete, bounded, always the same, and inert whatever the text in a document."""

from __future__ import annotations

import base64
import hashlib
import json
import re
from html.parser import HTMLParser

import pytest

from profiler.cli.json_documents import BY_COMMAND
from profiler.html.embedded import MOST_BYTES, embedded_json
from profiler.html.pages import PAGES, page_text
from tests.html_documents import HOSTILE, NAMES, document, hostile, long_profile
from tests.places import REPOSITORY
from tools.docs.commands import all_commands

KB = 1000
FOLDER = REPOSITORY / "profiler/html"
SCRIPT = FOLDER / "files/page.js"
#: Elements without an end.
_VOID = {"meta", "br", "link", "img", "input", "hr"}


class Outline(HTMLParser):
    """Reads a page as a browser would: elements, attributes, texts, and whether all are closed."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.elements: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[tuple[str, str]] = []
        self.open: list[str] = []
        self.feed(text)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.elements.append((tag, dict(attrs)))
        if tag not in _VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.texts.append((self.open[-1] if self.open else "", data))

    def named(self, tag: str) -> list[dict[str, str | None]]:
        return [attributes for name, attributes in self.elements if name == tag]

    def text_of(self, tag: str) -> list[str]:
        return [text for name, text in self.texts if name == tag]


@pytest.fixture(scope="module", params=NAMES)
def name(request) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def page(name) -> str:
    return page_text(document(name))


def test_each_command_with_html_has_a_page_and_the_reverse() -> None:
    options = {each.name: each.actions for each in all_commands()}
    commands = {
        name.removeprefix("writewise ")
        for name, actions in options.items()
        if any("--html" in action.option_strings for action in actions)
    }
    schemas = {BY_COMMAND[each].schema for each in (*commands, "plan --cheapest")}
    assert schemas == set(PAGES)
    assert {document(each)["schema"] for each in NAMES} == schemas


def test_a_page_is_well_formed_and_in_order(page) -> None:
    found = Outline(page)
    assert found.open == []
    tags = [tag for tag, _ in found.elements]
    assert tags.count("h1") == tags.count("main") == 1
    heads = [" ".join(text.split()) for text in found.text_of("h2")]
    order = ["What it costs", "What to keep in mind", "How to check it", "Data"]
    assert [each for each in heads if each in order] == [each for each in order if each in heads]
    assert heads.index("Data") == len(heads) - 1
    assert tags.index("h1") < tags.index("table")
    names = [each["id"] for _, each in found.elements if "id" in each]
    assert len(names) == len(set(names))


def test_each_chart_has_a_name_a_description_and_its_figures(page) -> None:
    found = Outline(page)
    drawings = [each for each in found.named("svg") if each.get("role") == "img"]
    assert drawings
    ids = {each["id"] for _, each in found.elements if "id" in each}
    for each in drawings:
        assert {each["aria-labelledby"], each["aria-describedby"]} <= ids
    assert len(found.named("details")) == len(found.named("figure")) == len(drawings)
    assert len(found.named("table")) > len(drawings)


def test_the_policy_allows_the_style_and_the_script_and_nothing_else(page) -> None:
    found = Outline(page)
    (policy,) = [each["content"] for each in found.named("meta") if each.get("http-equiv")]
    style, script = found.text_of("style")[0], found.text_of("script")[1]
    hashes = [base64.b64encode(hashlib.sha256(text.encode()).digest()) for text in (style, script)]
    assert policy == (
        f"default-src 'none'; style-src 'sha256-{hashes[0].decode()}'; "
        f"script-src 'sha256-{hashes[1].decode()}'; base-uri 'none'; form-action 'none'"
    )
    for tag, attributes in found.elements:
        assert tag not in ("link", "img", "iframe", "object", "base", "form", "a", "use", "image")
        assert not {"style", "src", "href", "xlink:href"} & set(attributes)
        assert not [each for each in attributes if each.startswith("on")]


def test_the_document_is_embedded(page, name) -> None:
    text = Outline(page).text_of("script")[0]
    assert "<" not in text and "&" not in text
    found = json.loads(text)
    if "thinned" not in found:
        assert found == document(name)


def test_the_same_document_gives_the_same_bytes(page, name) -> None:
    assert page_text(document(name)) == page


def test_a_page_is_small(page) -> None:
    assert len(page.encode()) <= 300 * KB


def test_the_longest_timeline_stays_small() -> None:
    page = page_text(long_profile())
    assert 200 * KB < len(page.encode()) <= 800 * KB
    found = json.loads(Outline(page).text_of("script")[0])
    assert found["thinned"] == {"entries": 12_000}
    timeline = found["timeline"]
    lengths = {len(timeline[key]) for key in ("time_ns", "dirty_bytes", "stalled_ns")}
    lengths |= {len(each["written_bytes"]) for each in timeline["devices"]}
    assert len(lengths) == 1 and lengths.pop() > 100
    assert timeline["time_ns"][-1] == 50_000_003 * 11_999


@pytest.mark.parametrize("samples", [0, 1, 2, 3])
def test_a_timeline_needs_two_moments(samples) -> None:
    found = long_profile(samples, disks=2)
    charts = [each for each in Outline(page_text(found)).named("figure") if "data-zoom" in each]
    assert len(charts) == (samples >= 2)
    found["timeline"]["time_ns"] = [5 * 10**9] * samples
    assert "data-zoom" not in str(Outline(page_text(found)).named("figure"))


def test_no_peak_is_lost_in_a_long_timeline() -> None:
    found = long_profile(disks=1)
    found["timeline"]["dirty_bytes"][7_777] = 900 * 2**30
    assert "at most 900 GiB was only in memory" in page_text(found)


def test_many_trials_stay_small() -> None:
    found = document("advise")
    many = found["trials"] * 1000
    found["trials"] = [{**each, "number": at} for at, each in enumerate(many, start=1)]
    found["trade_off"] *= 1000
    found["comparisons"] *= 100
    assert len(page_text(found).encode()) <= 800 * KB


def test_a_comparison_of_files_with_long_texts_stays_small() -> None:
    """As long as `profiler.compare.checked` lets them be."""
    found, text = document("compare"), "x" * 4096
    changes = [{"name": f"{number}{text}", "before": text, "after": text} for number in range(2000)]
    found.update(settings=changes, circumstances=changes, figures=found["figures"] * 500)
    found.update(verdict=[text] * 500, caveats=[text] * 1000)
    page = page_text(found)
    assert len(page.encode()) <= 800 * KB
    assert "1,800 more rows are in the data below." in page


# -- hostile text ----------------------------------------------------------------------------------


def test_hostile_text_stays_text(name) -> None:
    """The same elements and attributes as without it: nothing was added, and no template ran."""
    calm, found = Outline(page_text(document(name))), Outline(page_text(hostile(document(name))))
    assert found.open == []
    kinds = {tag for tag, _ in calm.elements} | {"code"}
    assert {tag for tag, _ in found.elements} <= kinds
    allowed = {key for _, attributes in calm.elements for key in attributes}
    assert {key for _, attributes in found.elements for key in attributes} <= allowed
    shown = " ".join(text for _, text in found.texts)
    assert "alert(1)" in shown and "{{ 7*7 }}" in shown
    assert "\x1b" not in shown and "\u202e" not in shown
    assert len(found.text_of("script")) == 2
    assert found.text_of("script")[1] == calm.text_of("script")[1]


@pytest.mark.parametrize("text", [HOSTILE, "</script>", "<!--<script>", "\u2028", "a\0b"])
def test_embedded_text_cannot_end_its_element(text) -> None:
    found = embedded_json({"key": text})
    assert not re.search(r"[<>&\u2028\0]", found)
    assert json.loads(found) == {"key": text}


def test_templates_never_call_data_safe() -> None:
    template = (FOLDER / "files/page.html").read_text()
    assert not re.search(r"safe|autoescape|Markup", template)
    makers = {
        str(path.relative_to(FOLDER))
        for path in FOLDER.rglob("*.py")
        if re.search(r"\bMarkup\((?!\"\"\))", path.read_text())
    }
    assert makers == {"charts/svg.py", "rendering.py"}


def test_no_module_asks_for_the_time_or_the_host() -> None:
    for path in FOLDER.rglob("*.py"):
        asks = r"(import|from) (datetime|time|platform|os|random|uuid|socket)\b"
        assert not re.search(asks, path.read_text())


def test_the_script_is_small_and_asks_for_nothing() -> None:
    text = SCRIPT.read_text()
    assert len(text.encode()) <= 12 * 1024
    assert not re.search(r"fetch|XMLHttp|WebSocket|import\b|eval|innerHTML|\.style\b", text)


def test_lists_are_halved_together_and_keep_their_ends() -> None:
    length = MOST_BYTES // 4
    found = json.loads(
        embedded_json({"a": list(range(length)), "b": list(range(length)), "c": [1]})
    )
    assert found["a"] == found["b"]
    assert (found["a"][0], found["a"][-1], found["c"]) == (0, length - 1, [1])
    assert found["thinned"] == {"entries": length}
