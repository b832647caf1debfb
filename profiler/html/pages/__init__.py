# SPDX-License-Identifier: Apache-2.0
"""The page of each kind of document, by the schema that the document names.

A new kind is a module with a function from the document to a `Page`, and a line in `PAGES`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from profiler.html.page import Page
from profiler.html.pages.advice import advice_page
from profiler.html.pages.clients import clients_page
from profiler.html.pages.comparison import comparison_page
from profiler.html.pages.plan import cheapest_page, plan_page
from profiler.html.pages.profile import profile_page
from profiler.html.pages.pull import pull_page
from profiler.html.rendering import render

PAGES: Mapping[str, Callable[[Mapping[str, Any]], Page]] = {
    "writewise-profile": profile_page,
    "writewise-pull": pull_page,
    "writewise-sweep": advice_page,
    "writewise-advise": advice_page,
    "writewise-transfer-tune": advice_page,
    "writewise-bench-clients": clients_page,
    "writewise-compare": comparison_page,
    "writewise-plan": plan_page,
    "writewise-plan-cheapest": cheapest_page,
}


def page_text(document: Mapping[str, Any]) -> str:
    """Return the HTML file of a document, as a command's `--json` prints it."""
    return render(PAGES[document["schema"]](document))
