# SPDX-License-Identifier: Apache-2.0
"""The service of a canary, as docs/how-to/shared-study.md shows it."""

from __future__ import annotations

import re

from tests.places import REPOSITORY

NAME = "writewise-study.service"
PROGRAM = "/opt/writewise/.venv/bin/writewise"


def shown_unit() -> str:
    """Return the page's unit."""
    page = (REPOSITORY / "docs/how-to/shared-study.md").read_text()
    found = re.search(rf"```ini {NAME}\n(.*?)```", page, re.DOTALL)
    assert found
    return found[1]
