# SPDX-License-Identifier: Apache-2.0
"""One headless Chromium for all tests of HTML reports, and the reports as files."""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from profiler.html.pages import page_text
from tests.html_documents import NAMES, document, hostile, long_profile

PROGRAM = "chromium-headless-shell"
#: CI sets it: then a missing browser is a failure.
REQUIRED = "WRITEWISE_REQUIRE_ROOT_TESTS"


@pytest.fixture(scope="session")
def browser() -> Iterator[Any]:
    program = shutil.which(PROGRAM)
    try:
        from playwright.sync_api import sync_playwright
    except ImportError:
        program = None
    if program is None:
        remedy = f"no {PROGRAM}: run `sudo tools/setup test browser` (Ubuntu has no such package)"
        pytest.fail(remedy) if os.environ.get(REQUIRED) else pytest.skip(remedy)
    with sync_playwright() as playwright:
        # its sandbox needs an ordinary user; the pages are our own
        chromium = playwright.chromium.launch(executable_path=program, args=["--no-sandbox"])
        yield chromium
        chromium.close()


@pytest.fixture(scope="session")
def reports(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """Return the file of each page, with hostile text too, and of the longest profile."""
    folder = tmp_path_factory.mktemp("reports")
    documents = {name: document(name) for name in NAMES}
    documents.update({f"{name}-hostile": hostile(document(name)) for name in NAMES})
    documents["long"] = long_profile()
    for name, found in documents.items():
        (folder / f"{name}.html").write_text(page_text(found), encoding="utf-8")
    return {name: folder / f"{name}.html" for name in documents}


@pytest.fixture
def opened(browser: Any, reports: dict[str, Path]) -> Iterator[Callable[..., Any]]:
    """Return a function that opens a page; at the end it made no request and said nothing."""
    said: list[str] = []
    contexts = []

    def open_page(name: str, **options: Any) -> Any:
        size = {"width": 1060, "height": 900}
        context = browser.new_context(**{"viewport": size, **options})
        contexts.append(context)
        page = context.new_page()
        page.on("console", lambda message: said.append(f"console: {message.text}"))
        page.on("pageerror", lambda error: said.append(f"error: {error}"))
        page.on("dialog", lambda dialog: (said.append("dialog"), dialog.dismiss()))
        page.on("request", lambda request: said.append(f"request: {request.url}"))
        page.goto(reports[name].as_uri())
        assert said.pop(0) == f"request: {reports[name].as_uri()}"
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert said == []
