# SPDX-License-Identifier: Apache-2.0
"""docs/reference/exit-codes.md, from the table of exit codes."""

from __future__ import annotations

from contracts.shared.exit_codes import TABLE
from tools.docs.markdown import cell, table


def page() -> str:
    """Return docs/reference/exit-codes.md."""
    return "\n".join(
        [
            "# Exit codes",
            "",
            "They mean the same in every command.",
            "",
            *table(["Code", "Meaning"], [[each.code, cell(each.meaning)] for each in TABLE]),
            "",
        ]
    )
