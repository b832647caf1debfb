"""A recommendation as cloud-init user data (`#cloud-config`): files, commands and mounts.

Format: cloud-init's modules `write_files`, `runcmd` (argument lists, so that no shell reads them)
and `mounts`. systemd reads the files at every boot; the commands are for the first one, which is
past that point.
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
    f"To use:   start nodes with it: aws ec2 run-instances … --user-data file://{FILE_NAME}",
    "          It is taken at the first boot alone; nodes that run take another of the formats.",
)
#: EC2's limit on user data, before the base64 encoding.
MAX_USER_DATA_BYTES = 16384
#: A node must start without the volume, too: its name may be another there.
_NO_FAIL = "nofail"


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The user data. Raises InexpressibleError."""
    document = cloud_config(change)
    if not document:
        return ()
    head = [
        *header(f"{TITLE}user data for cloud-init.", change, USE),
        *(source_lines(change) if "mounts" in document else mount_left_out(change)),
    ]
    return (Snippet(FILE_NAME, checked_size(MAGIC + comment(head) + "\n" + dump(document))),)


def source_lines(change: RecommendedChange) -> list[str]:
    """For the comments: that the volume's name may be one that no other node knows."""
    line = change.mount.fstab if change.mount else None
    if line is None or not line.source.startswith(("UUID=", "PARTUUID=")):
        return []
    return [
        "",
        f"Your fstab names the volume {line.source}. A volume that does not come",
        "from the same snapshot has another such name, so a node with one starts without it",
        "(nofail). Write a name that all nodes have, such as LABEL=….",
    ]


def checked_size(user_data: str) -> str:
    """`user_data` itself, if EC2 takes that much. Raises InexpressibleError."""
    size_bytes = len(user_data.encode())
    if size_bytes > MAX_USER_DATA_BYTES:
        raise InexpressibleError(f"user data of {size_bytes} bytes is more than EC2 takes")
    return user_data


def cloud_config(change: RecommendedChange) -> dict[str, Any]:
    """The document; nothing is in it if it cannot say any of the changes."""
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
