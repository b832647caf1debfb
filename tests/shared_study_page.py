# SPDX-License-Identifier: Apache-2.0
"""What docs/how-to/shared-study.md shows: statements for the database, and a canary's service."""

from __future__ import annotations

import re

from tests.places import REPOSITORY

NAME = "writewise-study.service"
PROGRAM = "/opt/writewise/.venv/bin/writewise"
_PAGE = REPOSITORY / "docs/how-to/shared-study.md"


def block(title: str) -> str:
    """Return the text of the page's code block that begins with this language and name."""
    found = re.search(rf"```{re.escape(title)}\n(.*?)```", _PAGE.read_text(), re.DOTALL)
    assert found
    return found[1]


def shown_unit() -> str:
    """Return the unit of the service."""
    return block(f"ini {NAME}")
