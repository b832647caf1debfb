# SPDX-License-Identifier: Apache-2.0
"""The examples in docs/reference/snippets.md are what the renderers write.

With WRITEWISE_WRITE_DOCS set they are written instead of compared.
"""

from __future__ import annotations

import json
import os
import re

import pytest

from sysctl.render.formats import FORMATS
from tests.places import REPOSITORY
from tests.unit.changes import EVERYTHING

PAGE = REPOSITORY / "docs/reference/snippets.md"


def example(each):
    """The snippet of a format without its comments, which are shown once, for the first."""
    text = each.render(EVERYTHING)[0].text
    if each.name == "sysctl.d":
        return text
    if each.name == "ssm":
        return json.dumps({**json.loads(text), "description": "…"}, indent=2, ensure_ascii=False)
    if each.name == "transfer":
        return json.dumps({**json.loads(text), "about": ["…"]}, indent=1, ensure_ascii=False)
    lines = text.splitlines()
    shown = [line for line in lines if not line.startswith("#") or line == "#cloud-config"]
    return re.sub(r"\n{2,}(?=ACTION)", "\n", "\n".join(shown).strip())


def block(each):
    return f"<!-- snippet: {each.name} -->\n\n```\n{example(each).strip()}\n```\n"


@pytest.mark.parametrize("each", FORMATS, ids=lambda each: each.name)
def test_the_example_is_what_is_rendered(each):
    text = PAGE.read_text()
    place = re.compile(
        rf"<!-- snippet: {re.escape(each.name)} -->\n(\n```\n.*?\n```\n)?", re.DOTALL
    )
    assert len(place.findall(text)) == 1
    if os.environ.get("WRITEWISE_WRITE_DOCS"):
        PAGE.write_text(place.sub(lambda _: block(each), text))
    else:
        assert block(each) in text


def test_every_format_and_file_is_in_the_table():
    text = PAGE.read_text()
    for each in FORMATS:
        assert f"| `{each.name}`" in text
        assert f"`{each.render(EVERYTHING)[0].file_name}`" in text
