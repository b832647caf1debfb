# SPDX-License-Identifier: Apache-2.0
"""The mount table from /proc/self/mountinfo (proc(5)); only parsing."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from contracts.shared.errors import UsageError
from contracts.shared.text import printable

_ESCAPE = re.compile(r"\\([0-7]{3})")
#: Flags of one mount point (field 6) that belong to the VFS, not to the file system.
VFS_POLICY_FLAGS = ("ro", "rw", "nosuid", "nodev", "noexec", "nosymfollow")
#: Shown in the table, but not accepted by mount(2): SELinux adds `seclabel` to every file system.
_SHOWN_ONLY = ("seclabel",)


@dataclass(frozen=True)
class Mount:
    """One line of the table. `options` are the mount point's, `super_options` the file system's."""

    device: str  # MAJOR:MINOR
    root: str
    target: str
    options: tuple[str, ...]
    fstype: str
    source: str
    super_options: tuple[str, ...]
    mount_id: str = ""

    @property
    def all_options(self) -> tuple[str, ...]:
        """The distinct options, in order, that a fresh mount needs to be equal to this one."""
        own = [option for option in self.super_options if option not in ("rw", *_SHOWN_ONLY)]
        return tuple(dict.fromkeys([*self.options, *own]))


def _unescape(field: str) -> str:
    """Undo the table's octal escapes of space, tab, newline, `#` and backslash."""
    return _ESCAPE.sub(lambda match: chr(int(match[1], 8)), field)


def _parse_line(line: str) -> Mount | None:
    before, separator, after = line.partition(" - ")
    head, tail = before.split(" "), after.split(" ")
    if not separator or len(head) < 6 or len(tail) < 3:
        return None
    return Mount(
        device=head[2],
        root=_unescape(head[3]),
        target=_unescape(head[4]),
        options=tuple(head[5].split(",")),
        fstype=tail[0],
        source=_unescape(tail[1]),
        super_options=tuple(_unescape(tail[2]).split(",")),
        mount_id=head[0],
    )


def parse_mountinfo(text: str) -> tuple[Mount, ...]:
    """Return every mount in the order of the table (later mounts cover earlier ones)."""
    return tuple(mount for mount in map(_parse_line, text.split("\n")) if mount)


def is_below(path: str, folder: str) -> bool:
    """Return whether the absolute `path` is `folder` or below it, by name."""
    return path == folder or path.startswith(folder.rstrip("/") + "/")


def mount_at(mounts: Sequence[Mount], target: str) -> Mount | None:
    """Return the mount that is visible at mount point `target`, or None."""
    return next((mount for mount in reversed(mounts) if mount.target == target), None)


def mount_of(mounts: Sequence[Mount], path: str) -> Mount:
    """Return the mount of an absolute, resolved `path`.

    Raises UsageError below a root that is not in the mount table, as in a chroot.
    """
    holding = [mount for mount in mounts if is_below(path, mount.target)]
    if not holding:
        message = f"the mount table has no mount for {printable(path)}"
        raise UsageError(message, "run outside of the chroot")
    longest = max(len(mount.target) for mount in holding)
    return [mount for mount in holding if len(mount.target) == longest][-1]
