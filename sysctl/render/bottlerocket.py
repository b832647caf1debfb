# SPDX-License-Identifier: Apache-2.0
"""The sysctls of a recommendation as settings of Bottlerocket (TOML), for its user data.

Bottlerocket sets sysctls from `settings.kernel.sysctl`, whose values are strings. Its /etc is not
persistent, and it has no custom udev rules.
"""

from __future__ import annotations

import json
from collections.abc import Mapping

from sysctl.change.recommendation import RecommendedChange
from sysctl.render.checked import sysctl_lines
from sysctl.render.comments import bytes_warning, comment, evidence_lines, explained
from sysctl.render.installed import all_but_sysctls_left_out
from sysctl.render.snippet import STEM, TITLE, Format, Snippet

FILE_NAME = f"{STEM}.bottlerocket.toml"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the settings; nothing if no sysctl changes. Raises InexpressibleError."""
    if not change.changes_sysctls:
        return ()
    sysctl_lines(change.sysctl_values)  # raises for an unknown sysctl
    lines = {name: f'"{name}" = "{value}"' for name, value in change.sysctl_values.items()}
    head = [
        f"{TITLE}write-back settings for pulls from S3, for Bottlerocket.",
        *bytes_warning(change.sysctl_values),
        "",
        *evidence_lines(change),
        *all_but_sysctls_left_out(change),
        "",
        "To use:   add it to the user data of the nodes, or on a running node:",
        f"          {_set_by_hand(change.sysctl_values)}",
        "To undo:  remove it from the user data and replace the nodes, or on a running node:",
        f"          {_set_by_hand(change.undo_values)}",
    ]
    reasons = {advice.name: advice.reason for advice in change.sysctls}
    body = f"[settings.kernel.sysctl]{explained(lines, reasons)}"
    return (Snippet(FILE_NAME, f"{comment(head)}\n{body}"),)


def _set_by_hand(values: Mapping[str, int]) -> str:
    """Return the command, with JSON: `apiclient set` expects strings and would parse numbers."""
    settings = {"kernel": {"sysctl": {name: str(value) for name, value in values.items()}}}
    return f"apiclient set --json '{json.dumps(settings)}'"


FORMAT = Format("bottlerocket", render, (FILE_NAME,))
