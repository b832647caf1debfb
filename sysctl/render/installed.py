"""What a node must have for a recommendation: files, and the commands that take them in force.

For the formats that roll out to nodes. The files' own comments are fixed text: the evidence is in
the comments of the snippet that installs them.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.change.recommendation import MountAdvice, RecommendedChange
from sysctl.render import sysctl_d, udev
from sysctl.render.checked import mount_options, old_mount_options, sysctl_lines
from sysctl.render.comments import bytes_warning, evidence_lines

_HEAD = "# Written by writewise; its evidence is in what installed it."
#: Paths that mean the same in every file and to every program that the nodes' set-up goes through.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./@:+-]{0,255}")
_PLAIN_SOURCE = re.compile(
    rf"{_PLAIN_PATH.pattern}|(UUID|LABEL|PARTUUID|PARTLABEL)=[A-Za-z0-9_.:-]{{1,255}}"
)


@dataclass(frozen=True)
class InstalledFile:
    """A file of a node, line by line, and the commands (no shell) that take it in force."""

    path: str
    lines: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The file's content."""
        return "".join(f"{line}\n" for line in self.lines)


def installed_files(change: RecommendedChange) -> tuple[InstalledFile, ...]:
    """The sysctl.d file and the udev rules, as far as they change. Raises InexpressibleError."""
    files = []
    if change.changes_sysctls:
        lines = (_HEAD, *sysctl_lines(change.sysctl_values))
        command = ("sysctl", "-p", sysctl_d.PATH)
        files.append(InstalledFile(sysctl_d.PATH, lines, (command,)))
    if change.disk and change.disk.knobs:
        lines = (_HEAD, *udev.rules(change.disk))
        files.append(InstalledFile(udev.PATH, lines, udev.RELOAD))
    return tuple(files)


def header(title: str, change: RecommendedChange, use: Sequence[str]) -> list[str]:
    """For the comments: the evidence, each reason, how it is used and how all of it is undone."""
    disk = change.disk if change.disk and change.disk.knobs else None
    return [
        title,
        "",
        *evidence_lines(change),
        *(bytes_warning(change.sysctl_values) if change.changes_sysctls else ()),
        "",
        *(f"{a.name} = {a.value}: {a.reason}" for a in change.sysctls if change.changes_sysctls),
        *(f"{k.name} = {k.value}: {k.reason}" for k in (disk.knobs if disk else ())),
        *(udev.match_lines(disk) if disk else ()),
        *([f"mount options: {change.mount.reason}"] if change.mount else []),
        "",
        *use,
        "To undo, on each node:",
        *_undo_lines(change),
    ]


def _undo_lines(change: RecommendedChange) -> list[str]:
    lines = []
    if change.changes_sysctls:
        lines.append(f"  {sysctl_d.undo_command(change)}")
    if change.disk and change.disk.knobs:
        lines.append(f"  rm {udev.PATH} && udevadm control --reload, and write back what was there")
        lines += [f"    {line}" for line in udev.undo_lines(change.disk)]
    if change.mount:
        lines.append(f"  mount options were {old_mount_options(change.mount)}: write them back")
    return lines


def is_plain(mount: MountAdvice) -> bool:
    """Whether the user's fstab has the volume, and no format needs to escape it or its place."""
    if mount.fstab is None or not _PLAIN_PATH.fullmatch(mount.target):
        return False
    return _PLAIN_SOURCE.fullmatch(mount.fstab.source) is not None


def all_but_sysctls_left_out(change: RecommendedChange) -> list[str]:
    """For the comments of a format of sysctls alone: what is not part of it, if anything."""
    disk = change.disk if change.disk and change.disk.knobs else None
    return [
        *(["", "NOT in here: the knobs of the disk; they are udev's."] if disk else []),
        *mount_left_out(change),
    ]


def mount_left_out(change: RecommendedChange) -> list[str]:
    """For the comments: that the mount options are not part of this snippet, if there are any."""
    mount = change.mount
    if mount is None:
        return []
    why = [f"The host that was measured had no line for {mount.target} alone in its fstab."]
    return [
        "",
        f"NOT in here: the mount options {mount_options(mount)} for {mount.target};",
        "they belong in the fstab of the image, or where the volume is mounted.",
        *(why if mount.fstab is None else []),
    ]
