# SPDX-License-Identifier: Apache-2.0
"""A recommendation as a drop-in for the mount unit that systemd makes of the user's fstab line.

A drop-in changes only the options: the unit keeps its source (`UUID=`), its dependencies (`nofail`,
`x-systemd.*`) and its check. It must be in a directory named after the mount point
(systemd.unit(5), "String escaping for inclusion in unit names"). No option has a `%`, a space or a
backslash, which systemd would interpret (`config_parse()` in src/shared/conf-parser.c, as of
systemd 252).
"""

from __future__ import annotations

import re

from contracts.shared.text import quoted
from sysctl.change.recommendation import MountAdvice, RecommendedChange
from sysctl.render.checked import fstab_line, fstab_options, printable_text
from sysctl.render.comments import comment, evidence_lines, wrapped
from sysctl.render.snippet import STEM, TITLE, Format, InexpressibleError, Snippet

FOLDER = "/etc/systemd/system"
_SUFFIX = ".mount"
FILE_NAME = f"{STEM}{_SUFFIX}.conf"
#: UNIT_NAME_MAX in src/basic/unit-name.h counts the terminating NUL; `.d` is appended.
_MAX_NAME_BYTES = 253
_UNESCAPED = re.compile(rb"[A-Za-z0-9:_.]")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the drop-in; nothing if no mount options change. Raises InexpressibleError."""
    mount = change.mount
    if mount is None:
        return ()
    name = unit_name(mount.target)
    body = _drop_in(mount)
    path = f"{FOLDER}/{name}.d/{STEM}.conf"
    head = [
        f"{TITLE}a drop-in with the options recommended for this volume.",
        *wrapped(mount.reason),
        "",
        *evidence_lines(change),
        "",
        f"To use:   install -D -m 0644 {FILE_NAME} '{path}' &&",
        f"          systemctl daemon-reload && systemctl restart '{name}'",
        f"          It overrides the options of the line for {mount.target} in fstab, which stays.",
        f"To undo:  rm '{path}' &&",
        f"          systemctl daemon-reload && systemctl restart '{name}'",
        f"          The options of fstab apply again: {','.join(fstab_line(mount).options)}",
    ]
    return (Snippet(FILE_NAME, comment(head) + body),)


def unit_name(mount_point: str) -> str:
    r"""`/my data` → `my\x20data.mount`, as `systemd-escape -p --suffix=mount` prints it.

    Raises InexpressibleError for a path that cannot be a unit's name.
    """
    printable_text(mount_point, "mount point")
    if mount_point == "/":
        raise InexpressibleError("the root file system is mounted before systemd reads this unit")
    start, *parts = mount_point.split("/")
    if start or not parts or {"", ".", ".."} & set(parts):
        raise InexpressibleError(f"{quoted(mount_point)} is not a normalized absolute path")
    name = "".join(map(_escaped, mount_point[1:].encode())) + _SUFFIX
    if name.startswith("."):  # it would be a hidden file
        name = f"\\x{ord('.'):02x}{name[1:]}"
    if len(name) > _MAX_NAME_BYTES:
        raise InexpressibleError(
            f"the mount point {quoted(mount_point)} is too long for a unit's name"
        )
    return name


def _escaped(byte: int) -> str:
    if byte == ord("/"):
        return "-"
    return chr(byte) if _UNESCAPED.match(bytes([byte])) else f"\\x{byte:02x}"


def _drop_in(mount: MountAdvice) -> str:
    return f"\n[Mount]\nOptions={fstab_options(mount)}\n"


FORMAT = Format("systemd", render, (FILE_NAME, "*.mount"))
