# SPDX-License-Identifier: Apache-2.0
"""docs/reference/iam.md: the IAM actions that each command needs."""

from __future__ import annotations

import json

from profiler.ec2 import permissions as ec2
from profiler.fleet.writing import PUT
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
_VOLUME_POLICY = {
    "Version": "2012-10-17",
    "Statement": [
        {"Effect": "Allow", "Action": [each.action for each in ec2.PERMISSIONS], "Resource": "*"}
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
            "Each needs the same actions. Only `--record` of `pull` and `watch`, and `study join",
            "--results`, write to a bucket (below). With `--no-sign-request` none is needed.",
            "",
            *table(["Action", "On", "For the operations", "To"], rows),
            "",
            "A policy for one prefix:",
            "",
            "```json",
            json.dumps(_POLICY, indent=2),
            "```",
            "",
            *_records(),
            *_results(),
            *_volumes(),
        ]
    )


def _records() -> list[str]:
    """Return the part about records of a fleet."""
    return [
        "## Records of a fleet",
        "",
        f"`--record s3://BUCKET/PREFIX` of `pull` and `watch` needs `{PUT.action}` on",
        f"`{PUT.resource}`, also with `--no-sign-request`: to {PUT.reason}.",
        "",
    ]


def _results() -> list[str]:
    """Return the part about results of a shared study."""
    return [
        "## Results of a shared study",
        "",
        f"`study join --results s3://BUCKET/PREFIX` needs `{PUT.action}` and `{GET.action}` on",
        "`arn:aws:s3:::BUCKET/PREFIX/studies/*`, also with `--no-sign-request`: to keep the node's",
        "results, and to look for those of nodes that were lost.",
        "",
    ]


def _volumes() -> list[str]:
    """Return the part about EC2 and CloudWatch."""
    rows = [[f"`{each.action}`", f"`{each.operation}`", each.reason] for each in ec2.PERMISSIONS]
    return [
        "## Volumes",
        "",
        "`writewise plan` looks up a volume, its instance and their credits if it runs on an EC2",
        "node, or if `--volume-id`, `--region` or `--profile` is given. All actions only read.",
        "Without one of them that figure comes from an option or a table, and the report says so.",
        "`writewise sweep` on an EC2 node asks for the volume and its credits in the same way.",
        "",
        *table(["Action", "For the operation", "To"], rows),
        "",
        "A policy; these actions cannot be limited to a resource:",
        "",
        "```json",
        json.dumps(_VOLUME_POLICY, indent=2),
        "```",
        "",
        "Every other command works without AWS.",
        "",
    ]
