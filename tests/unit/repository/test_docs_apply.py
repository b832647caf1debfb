# SPDX-License-Identifier: Apache-2.0
"""The difference that docs/how-to/apply.md shows is what `apply` prints.

With WRITEWISE_WRITE_DOCS set it is written instead of compared.
"""

from __future__ import annotations

import io
import os
import re

from rich.console import Console

from profiler.report.applying import print_plan
from sysctl.apply.plan import plan_of
from tests.places import REPOSITORY
from tests.unit.applied_hosts import FilesHost
from tests.unit.sysctl.apply.test_apply import SYSCTLS

DOC = REPOSITORY / "docs/how-to/apply.md"
MARK = "<!-- diff: written by tests/unit/repository/test_docs_apply.py -->\n"
_WIDTH = 100


def difference(root):
    system = FilesHost(root)
    system.put("/etc/sysctl.d/99-tuning.conf", "vm.dirty_ratio = 30")
    console = Console(width=_WIDTH, record=True, file=io.StringIO())
    print_plan(plan_of(system, SYSCTLS), console, remounts=False)
    lines = [line.rstrip() for line in console.export_text().strip().splitlines()]
    return "\n".join(lines)


def test_the_difference_in_the_docs_is_what_is_printed(tmp_path):
    block = f"{MARK}\n```\n{difference(tmp_path)}\n```\n"
    text = DOC.read_text()
    if os.environ.get("WRITEWISE_WRITE_DOCS"):
        pattern = re.escape(MARK) + r"(\n```\n.*?\n```\n)?"
        text = re.sub(pattern, lambda _: block, text, count=1, flags=re.DOTALL)
        DOC.write_text(text)
    assert block in text
