# SPDX-License-Identifier: Apache-2.0
"""docs/reference/iam.md: the IAM actions that each command needs."""

from __future__ import annotations

import json

from profiler.pull.permissions import GET, LIST, PERMISSIONS
from tools.docs import commands
from tools.docs.markdown import table

_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": each.action, "Resource": each.resource}
        for each in (LIST, GET)
    ],
}


def page() -> str:
    """Return docs/reference/iam.md."""
    names = ", ".join(f"`{name}`" for name in commands.reaching_s3())
    rows = [
        [
            f"`{each.action}`",
            f"`{each.resource}`" if each.resource.startswith("arn:") else each.resource,
            ", ".join(f"`{name}`" for name in each.operations) or "–",
            each.reason,
        ]
        for each in PERMISSIONS
    ]
    return "\n".join(
        [
            "# IAM actions",
            "",
            f"These commands reach S3: {names}.",
            "Each needs the same actions, and none writes to a bucket. With `--no-sign-request`",
            "none is needed. Every other command works without AWS.",
            "",
            *table(["Action", "On", "For the operations", "To"], rows),
            "",
            "A policy for one prefix:",
            "",
            "```json",
            json.dumps(_POLICY, indent=2),
            "```",
            "",
        ]
    )
