# SPDX-License-Identifier: Apache-2.0
"""Every generated page of docs/reference, by name."""

from __future__ import annotations

from pathlib import Path

from tools.docs import (
    commands,
    environment,
    exit_codes,
    files,
    iam,
    json_documents,
    metrics,
    settings,
)

REFERENCE = Path(__file__).parents[2] / "docs/reference"
_CALLS = "<!-- system calls: written by `make docs` -->\n"


def pages() -> dict[str, str]:
    """Return name → text, for whole pages and for the page with one generated table at its end."""
    whole = {
        "commands.md": commands.page,
        "environment.md": environment.page,
        "exit-codes.md": exit_codes.page,
        "files.md": files.page,
        "iam.md": iam.page,
        "json.md": json_documents.page,
        "metrics.md": metrics.page,
        "settings.md": settings.page,
    }
    return {**{name: page() for name, page in whole.items()}, "contracts.md": _contracts()}


def _contracts() -> str:
    head, mark, _ = (REFERENCE / "contracts.md").read_text(encoding="utf-8").partition(_CALLS)
    return head + mark + "\n" + "\n".join(settings.call_table()) + "\n"
