# SPDX-License-Identifier: Apache-2.0
"""From a page to the text of one HTML file, with its style, script and data inside.

The policy in the file allows this style and this script by their hashes, and nothing else: no
request, no other script, no `style` attribute. The same page gives the same bytes.
"""

from __future__ import annotations

import base64
import hashlib
from functools import cache
from importlib.resources import files

from jinja2 import Environment, FunctionLoader, StrictUndefined
from markupsafe import Markup

from contracts.shared.text import printable
from profiler.html.charts.marks import sample
from profiler.html.embedded import embedded_json
from profiler.html.page import Page

_FOLDER = files("profiler.html") / "files"


def render(page: Page) -> str:
    """Return the file's text."""
    style, script = _file("page.css"), _file("page.js")
    text = (
        _environment()
        .get_template("page.html")
        .render(
            page=page,
            mark=sample,
            title=_title(page),
            policy=f"default-src 'none'; style-src {_hash(style)}; script-src {_hash(script)}; "
            "base-uri 'none'; form-action 'none'",
            # files of this package, and JSON without `<`
            style=Markup(style),  # noqa: S704
            script=Markup(script),  # noqa: S704
            data=Markup(embedded_json(page.document)),  # noqa: S704
        )
    )
    return f"{text.strip()}\n"


def _title(page: Page) -> str:
    facts = dict(page.facts)
    parts = [f"Writewise {page.kind}", facts.get("Host"), facts.get("Measured")]
    return ", ".join(filter(None, parts))


@cache
def _environment() -> Environment:
    environment = Environment(
        loader=FunctionLoader(_file),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
        finalize=_shown,
    )
    environment.auto_reload = False
    return environment


def _shown(value: object) -> object:
    """Return what a template prints: text of others without control characters."""
    return printable(value) if type(value) is str else value


@cache
def _file(name: str) -> str:
    return (_FOLDER / name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    """Return the source expression of an element's content, as in Content Security Policy 3."""
    digest = hashlib.sha256(text.encode()).digest()
    return f"'sha256-{base64.b64encode(digest).decode()}'"
