"""Knobs of the destination's disk as udev rules (udev(7)): what sysfs holds ends with the boot.

The disk is matched by what the kernel itself says of it (`wwid` or `serial` in sysfs), so the rules
rest on no others. `ATTR{bdi/…}` is the disk's backing device, to which its sysfs folder has a link.
"""

from __future__ import annotations

import re

from contracts.shared.text import quoted
from sysctl.change.recommendation import DiskAdvice, KnobAdvice, RecommendedChange
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.render.checked import knobs_in_order
from sysctl.render.comments import comment, evidence_lines
from sysctl.render.snippet import STEM, TITLE, Format, InexpressibleError, Snippet

FILE_NAME = f"{STEM}.rules"
FOLDER = "/etc/udev/rules.d"
PATH = f"{FOLDER}/{FILE_NAME}"
#: What takes the rules in force for the disks that are there; argument lists, no shell.
RELOAD = (
    ("udevadm", "control", "--reload"),
    ("udevadm", "trigger", "--action=change", "--subsystem-match=block"),
)
#: Nothing that udev takes for a pattern, a substitution or the end of a string.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,255}")
_KERNEL_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_PARTITION = re.compile(r"/dev/((?:nvme\d+n|mmcblk|loop)\d+(?=p\d+$)|(?:sd|xvd|vd)[a-z]+(?=\d+$))")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """The rules; nothing where no knob of the disk is to be changed. Raises InexpressibleError."""
    disk = change.disk
    if disk is None or not disk.knobs:
        return ()
    head = [
        f"{TITLE}knobs of the disk that the pulls go to.",
        *evidence_lines(change),
        "",
        *match_lines(disk),
        f"To use:   install -m 0644 {FILE_NAME} {FOLDER}/ && udevadm control --reload &&",
        f"          {' '.join(RELOAD[1])}",
        f"To undo:  rm {PATH} && udevadm control --reload, and write back what was there:",
        *(f"          {line}" for line in undo_lines(disk)),
    ]
    body = "".join(
        f"\n{comment(_about(knob.name, knob.reason))}{rule}\n"
        for knob, rule in zip(knobs_in_order(disk), rules(disk))
    )
    return (Snippet(FILE_NAME, comment(head) + body),)


def rules(disk: DiskAdvice) -> list[str]:
    """One rule for each knob, in the order in which they are set. Raises InexpressibleError."""
    match = ", ".join(
        f'{key}=="{value}"'
        for key, value in (
            ("ACTION", "add|change"),
            ("SUBSYSTEM", "block"),
            ("ENV{DEVTYPE}", "disk"),
            _identity(disk),
        )
    )
    return [f'{match}, ATTR{{{knob.name}}}="{knob.value}"' for knob in knobs_in_order(disk)]


def undo_lines(disk: DiskAdvice) -> list[str]:
    """For a comment: the command that writes each knob's value back, in the order of setting.

    The scheduler comes first, since it brings its own queue depth.
    """
    return [_undo_line(_kernel_name(disk), knob) for knob in knobs_in_order(disk)]


def _undo_line(disk_name: str | None, knob: KnobAdvice) -> str:
    if not disk_name or DEVICE_BY_NAME[knob.name].refusal(knob.present):
        return f"{knob.name} was {knob.present or 'not recorded'}"
    return f"echo {knob.present} > /sys/block/{disk_name}/{knob.name}"


def match_lines(disk: DiskAdvice) -> list[str]:
    """For a comment: what the rules take for this disk."""
    key, value = _identity(disk)
    if key == "KERNEL":
        return [
            f"WARNING: the disk is matched by its name {value}, which another one may have after a",
            'restart: better match by ATTRS{serial}=="…" or ATTRS{wwid}=="…".',
        ]
    return [
        f"The rules are for the one disk with {key} {value}. For a fleet, match what its volumes",
        'have in common, such as KERNEL=="nvme1n1" or ATTRS{model}=="Amazon Elastic Block Store".',
    ]


def _identity(disk: DiskAdvice) -> tuple[str, str]:
    """The key and the value by which the disk is known, the surest there is."""
    for key, value in (("ATTRS{wwid}", disk.wwid), ("ATTRS{serial}", disk.serial)):
        if _PLAIN.fullmatch(value):
            return key, value
    name = _kernel_name(disk)
    if not name:
        raise InexpressibleError(f"nothing known of {quoted(disk.device)} can be matched by a rule")
    return "KERNEL", name


def _kernel_name(disk: DiskAdvice) -> str | None:
    """The disk's name in /sys/block; None if it is not known."""
    name = disk.name or _name_of(disk.device)
    return name if _KERNEL_NAME.fullmatch(name) else None


def _name_of(device: str) -> str:
    """The disk's name in /sys/block, from the device that is mounted."""
    partition = _PARTITION.match(device)
    return partition[1] if partition else device[len("/dev/") :] * device.startswith("/dev/")


def _about(name: str, reason: str) -> list[str]:
    if not DEVICE_BY_NAME[name].is_rounded:
        return [reason]
    return [reason, "The kernel keeps it as a share of the dirty threshold of that moment."]


FORMAT = Format("udev", render, (FILE_NAME,))
