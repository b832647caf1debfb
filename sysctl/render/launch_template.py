# SPDX-License-Identifier: Apache-2.0
"""A recommendation as a CloudFormation fragment: a launch template for ECS and AWS Batch nodes.

Its user data is a MIME archive with one `#cloud-config` part: AWS Batch merges its own parts into
such an archive and accepts no other form. ECS merges nothing: the user adds the part that joins a
node to its cluster. The text has no shell commands, no `Fn::Sub` and no dynamic reference of
CloudFormation (two braces).
"""

from __future__ import annotations

from sysctl.change.recommendation import RecommendedChange
from sysctl.render.cloud_init import MAGIC, checked_size, cloud_config, source_lines
from sysctl.render.comments import comment
from sysctl.render.installed import header, mount_left_out
from sysctl.render.snippet import STEM, TITLE, Format, InexpressibleError, Snippet
from sysctl.render.yaml_text import dump

FILE_NAME = f"{STEM}.launch-template.yaml"
RESOURCE = "WritewiseLaunchTemplate"
USE = (
    "To use:   add the resource to your template, with what else your nodes need (image, volumes,",
    "          instance profile; for ECS the user data that names the cluster, as another part of",
    f"          the archive). Refer to {RESOURCE} in the Auto Scaling group or the",
    "          compute environment. It takes effect on new nodes.",
)
_BOUNDARY = "==WRITEWISE=="


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the fragment. Raises InexpressibleError."""
    document = cloud_config(change)
    if not document:
        return ()
    user_data = checked_size(_archive(MAGIC + dump(document)))
    if "{{" in user_data:
        raise InexpressibleError("CloudFormation would read two braces as a reference")
    data = {"UserData": {"Fn::Base64": user_data}}
    resource = {
        "Type": "AWS::EC2::LaunchTemplate",
        "Properties": {"LaunchTemplateData": data},
    }
    head = [
        *header(f"{TITLE}a launch template for an ECS or AWS Batch node.", change, USE),
        *(source_lines(change) if "mounts" in document else mount_left_out(change)),
        "Or remove the resource from the template and replace the nodes.",
    ]
    return (Snippet(FILE_NAME, comment(head) + "\n" + dump({"Resources": {RESOURCE: resource}})),)


def _archive(part: str) -> str:
    return (
        "MIME-Version: 1.0\n"
        f'Content-Type: multipart/mixed; boundary="{_BOUNDARY}"\n\n'
        f"--{_BOUNDARY}\n"
        'Content-Type: text/cloud-config; charset="us-ascii"\n\n'
        f"{part}\n"
        f"--{_BOUNDARY}--\n"
    )


FORMAT = Format("launch-template", render, (FILE_NAME,))
