# SPDX-License-Identifier: Apache-2.0
"""A recommendation as cloud-init user data (`#cloud-config`): files, commands and mounts.

Format: cloud-init's modules `write_files`, `runcmd` (argument lists, so no shell interprets them)
and `mounts`. systemd reads the files at every boot; the commands load them during the first boot,
in which systemd has already passed that point.
"""

from __future__ import annotations

from typing import Any

from sysctl.change.recommendation import RecommendedChange
from sysctl.render.checked import fstab_line, fstab_options
from sysctl.render.comments import comment
from sysctl.render.installed import header, installed_files, is_plain, mount_left_out
from sysctl.render.snippet import STEM, TITLE, Format, InexpressibleError, Snippet
from sysctl.render.yaml_text import Command, dump

FILE_NAME = f"{STEM}.cloud-config.yaml"
MAGIC = "#cloud-config\n"
BEGINS = f"{MAGIC}# {TITLE}"
USE = (
    f"To use:   aws ec2 run-instances … --user-data file://{FILE_NAME}",
    "          cloud-init applies it only at the first boot; use another format on running nodes.",
)
#: EC2's limit on user data, before the base64 encoding.
MAX_USER_DATA_BYTES = 16384
#: A node must boot even if its volume has another name.
_NO_FAIL = "nofail"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the user data. Raises InexpressibleError."""
    document = cloud_config(change)
    if not document:
        return ()
    head = [
        *header(f"{TITLE}user data for cloud-init.", change, USE),
        *(source_lines(change) if "mounts" in document else mount_left_out(change)),
    ]
    return (Snippet(FILE_NAME, checked_size(MAGIC + comment(head) + "\n" + dump(document))),)


def source_lines(change: RecommendedChange) -> list[str]:
    """Return comment lines on a volume name (UUID) that other nodes may not have."""
    line = change.mount.fstab if change.mount else None
    if line is None or not line.source.startswith(("UUID=", "PARTUUID=")):
        return []
    return [
        "",
        f"Your fstab names the volume {line.source}. A volume from another",
        "snapshot has another UUID, and a node with such a volume boots without it (nofail). Use a",
        "name that all nodes have, such as LABEL=….",
    ]


def checked_size(user_data: str) -> str:
    """Return `user_data`, unless it exceeds EC2's limit. Raises InexpressibleError."""
    size_bytes = len(user_data.encode())
    if size_bytes > MAX_USER_DATA_BYTES:
        limit = f"EC2's limit of {MAX_USER_DATA_BYTES}"
        raise InexpressibleError(f"the user data has {size_bytes} bytes, more than {limit}")
    return user_data


def cloud_config(change: RecommendedChange) -> dict[str, Any]:
    """Return the document, which has an entry for each change that cloud-init can express."""
    files = installed_files(change)
    document: dict[str, Any] = {}
    if files:
        document["write_files"] = [
            {
                "path": file.path,
                "owner": "root:root",
                "permissions": "0644",
                "content": file.text,
            }
            for file in files
        ]
        document["runcmd"] = [Command(command) for file in files for command in file.commands]
    mount = change.mount
    if mount and is_plain(mount):
        line = fstab_line(mount)
        options = ",".join(dict.fromkeys([*fstab_options(mount).split(","), _NO_FAIL]))
        fields = (line.source, mount.target, line.fstype, options, str(line.dump), str(line.check))
        document["mounts"] = [Command(fields)]
    return document


FORMAT = Format("cloud-init", render, (FILE_NAME,), BEGINS)
