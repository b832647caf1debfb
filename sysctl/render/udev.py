# SPDX-License-Identifier: Apache-2.0
"""Knobs of the destination's disk as udev rules (udev(7)): a reboot resets values in sysfs.

The disk is matched by what the kernel reports (`wwid` or `serial` in sysfs), so the rules do not
depend on other rules. `ATTR{bdi/…}` is the disk's backing device, which its sysfs folder links to.
"""

from __future__ import annotations

import re

from contracts.shared.text import quoted
from sysctl.change.recommendation import DiskAdvice, KnobAdvice, RecommendedChange
from sysctl.knobs.catalogue import DEVICE_BY_NAME
from sysctl.render.checked import knobs_in_order
from sysctl.render.comments import comment, evidence_lines, labelled, wrapped
from sysctl.render.snippet import STEM, TITLE, Format, InexpressibleError, Snippet

FILE_NAME = f"{STEM}.rules"
FOLDER = "/etc/udev/rules.d"
PATH = f"{FOLDER}/{FILE_NAME}"
#: The commands that apply the rules to the disks present; argument lists, without a shell.
RELOAD = (
    ("udevadm", "control", "--reload"),
    ("udevadm", "trigger", "--action=change", "--subsystem-match=block"),
)
#: Values without patterns, substitutions or quotes of udev.
_PLAIN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._:-]{0,255}")
_KERNEL_NAME = re.compile(r"[a-z][a-z0-9]{0,31}")
_PARTITION = re.compile(r"/dev/((?:nvme\d+n|mmcblk|loop)\d+(?=p\d+$)|(?:sd|xvd|vd)[a-z]+(?=\d+$))")


def render(change: RecommendedChange) -> tuple[Snippet, ...]:
    """Return the rules; nothing if no knob of the disk changes. Raises InexpressibleError."""
    disk = change.disk
    if disk is None or not disk.knobs:
        return ()
    head = [
        f"{TITLE}knobs of the disk that the pulls write to.",
        *evidence_lines(change),
        "",
        *match_lines(disk),
        f"To use:   install -m 0644 {FILE_NAME} {FOLDER}/ && udevadm control --reload &&",
        f"          {' '.join(RELOAD[1])}",
        *labelled("To undo:", f"rm {PATH} && udevadm control --reload"),
        "          Then restore the old values:",
        *(f"          {line}" for line in undo_lines(disk)),
    ]
    body = "".join(
        f"\n{comment(_about(knob.name, knob.reason))}{rule}\n"
        for knob, rule in zip(knobs_in_order(disk), rules(disk))
    )
    return (Snippet(FILE_NAME, comment(head) + body),)


def rules(disk: DiskAdvice) -> list[str]:
    """Return one rule for each knob, in the order of setting. Raises InexpressibleError."""
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
    """Return the commands, as comment lines, that restore each knob's value.

    The scheduler comes first, because it resets the queue depth.
    """
    return [_undo_line(_kernel_name(disk), knob) for knob in knobs_in_order(disk)]


def _undo_line(disk_name: str | None, knob: KnobAdvice) -> str:
    if not disk_name or DEVICE_BY_NAME[knob.name].refusal(knob.present):
        return f"{knob.name} was {knob.present or 'not recorded'}"
    return f"echo {knob.present} > /sys/block/{disk_name}/{knob.name}"


def match_lines(disk: DiskAdvice) -> list[str]:
    """Return comment lines on how the rules match the disk."""
    key, value = _identity(disk)
    if key == "KERNEL":
        return [
            f"WARNING: the rules match the disk by its name {value}, which another disk may have",
            'after a reboot. Match it by ATTRS{serial}=="…" or ATTRS{wwid}=="…" if you can.',
        ]
    return wrapped(
        f"The rules match only the disk with {key} {value}. For a fleet, match what its volumes "
        'have in common, such as KERNEL=="nvme1n1" or ATTRS{model}=="Amazon Elastic Block Store".'
    )


def _identity(disk: DiskAdvice) -> tuple[str, str]:
    """Return the most reliable key, and its value, that identifies the disk."""
    for key, value in (("ATTRS{wwid}", disk.wwid), ("ATTRS{serial}", disk.serial)):
        if _PLAIN.fullmatch(value):
            return key, value
    name = _kernel_name(disk)
    if not name:
        raise InexpressibleError(f"a rule cannot match {quoted(disk.device)}: its disk is unknown")
    return "KERNEL", name


def _kernel_name(disk: DiskAdvice) -> str | None:
    """Return the disk's name in /sys/block; None if unknown."""
    name = disk.name or _name_of(disk.device)
    return name if _KERNEL_NAME.fullmatch(name) else None


def _name_of(device: str) -> str:
    """Return the disk's name in /sys/block for the device that is mounted."""
    partition = _PARTITION.match(device)
    return partition[1] if partition else device[len("/dev/") :] * device.startswith("/dev/")


def _about(name: str, reason: str) -> list[str]:
    if not DEVICE_BY_NAME[name].is_rounded:
        return wrapped(reason)
    return wrapped(f"{reason}.", "The kernel stores it as a share of the current dirty threshold.")


FORMAT = Format("udev", render, (FILE_NAME,))
