# SPDX-License-Identifier: Apache-2.0
"""The files that a node needs for a recommendation, and the commands that load them.

For the formats that roll out to nodes. The comments in these files are fixed text: the snippet that
installs them has the evidence.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass

from sysctl.change.recommendation import DiskAdvice, MountAdvice, RecommendedChange
from sysctl.render import sysctl_d, udev
from sysctl.render.checked import mount_options, old_mount_options, sysctl_lines
from sysctl.render.comments import bytes_warning, evidence_lines, labelled, override_note, wrapped

_HEAD = "# Written by writewise. The evidence is in the file that installed this one."
#: Paths that no file format and no program of the nodes' set-up interprets.
_PLAIN_PATH = re.compile(r"/[A-Za-z0-9_./@:+-]{0,255}")
_PLAIN_SOURCE = re.compile(
    rf"{_PLAIN_PATH.pattern}|(UUID|LABEL|PARTUUID|PARTLABEL)=[A-Za-z0-9_.:-]{{1,255}}"
)


@dataclass(frozen=True)
class InstalledFile:
    """A file of a node, line by line, and the commands (without a shell) that load it."""

    path: str
    lines: tuple[str, ...]
    commands: tuple[tuple[str, ...], ...]

    @property
    def text(self) -> str:
        """The file's content."""
        return "".join(f"{line}\n" for line in self.lines)


def installed_files(change: RecommendedChange) -> tuple[InstalledFile, ...]:
    """Return the sysctl.d file and the udev rules, if they change. Raises InexpressibleError."""
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
    """Return comment lines: the evidence, each reason, how to use the snippet and to undo it."""
    disk = change.disk if change.disk and change.disk.knobs else None
    return [
        title,
        "",
        *evidence_lines(change),
        *(bytes_warning(change.sysctl_values) if change.changes_sysctls else ()),
        "",
        *(line for reason in _reasons(change, disk) for line in wrapped(reason)),
        *(udev.match_lines(disk) if disk else ()),
        *(wrapped(f"mount options: {change.mount.reason}") if change.mount else []),
        "",
        *use,
        *(override_note(sysctl_d.FOLDER) if change.changes_sysctls else ()),
        "To undo, on each node:",
        *_undo_lines(change),
    ]


def _reasons(change: RecommendedChange, disk: DiskAdvice | None) -> list[str]:
    sysctls = change.sysctls if change.changes_sysctls else ()
    return [
        *(f"{each.name} = {each.value}: {each.reason}" for each in sysctls),
        *(f"{knob.name} = {knob.value}: {knob.reason}" for knob in (disk.knobs if disk else ())),
    ]


def _undo_lines(change: RecommendedChange) -> list[str]:
    lines = []
    if change.changes_sysctls:
        undo = labelled("", sysctl_d.undo_command(change))
        lines += [f"  {line.strip()}" for line in undo]
    if change.disk and change.disk.knobs:
        lines.append(f"  rm {udev.PATH} && udevadm control --reload, then restore:")
        lines += [f"    {line}" for line in udev.undo_lines(change.disk)]
    if change.mount:
        lines.append(f"  restore the old mount options: {old_mount_options(change.mount)}")
    return lines


def is_plain(mount: MountAdvice) -> bool:
    """Return whether the user's fstab has the volume and no name in the line needs escapes."""
    if mount.fstab is None or not _PLAIN_PATH.fullmatch(mount.target):
        return False
    return _PLAIN_SOURCE.fullmatch(mount.fstab.source) is not None


def all_but_sysctls_left_out(change: RecommendedChange) -> list[str]:
    """Return comment lines on what a format with only sysctls leaves out."""
    disk = change.disk if change.disk and change.disk.knobs else None
    return [
        *(["", "NOT included: the knobs of the disk; use the format udev."] if disk else []),
        *mount_left_out(change),
    ]


def mount_left_out(change: RecommendedChange) -> list[str]:
    """Return comment lines on mount options that the snippet leaves out."""
    mount = change.mount
    if mount is None:
        return []
    why = [f"The measured host's fstab had no single line for {mount.target}."]
    return [
        "",
        f"NOT included: the mount options {mount_options(mount)} for {mount.target};",
        "add them to the fstab of the image, or where the volume is mounted.",
        *(why if mount.fstab is None else []),
    ]
