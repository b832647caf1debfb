# SPDX-License-Identifier: Apache-2.0
"""Checks of every value that is written into a snippet.

Each function raises InexpressibleError. A recommendation may come from a file, so the renderers do
not rely on earlier checks.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping

from contracts.shared.text import is_unprintable, quoted
from sysctl.change.recommendation import DiskAdvice, FstabLine, KnobAdvice, MountAdvice
from sysctl.knobs.catalogue import DEVICE_BY_NAME, DEVICE_KNOBS
from sysctl.knobs.mount import (
    changed_options,
    is_kernel_option,
    may_be_kept_in_fstab,
    may_be_recommended,
)
from sysctl.knobs.transfer import transfer_problems, transfer_words
from sysctl.knobs.vm import BY_NAME
from sysctl.render.snippet import InexpressibleError

_NAMED = ("UUID=", "LABEL=", "PARTUUID=", "PARTLABEL=")
_FILESYSTEM = re.compile(r"[a-z0-9_.-]{1,32}")


def printable_text(text: str, what: str, *, escaped: str = "") -> str:
    """Return `text` unless it has control characters, formatting characters or surrogates.

    `escaped` are the ones of these that the format can escape.
    """
    if any(is_unprintable(character) for character in text if character not in escaped):
        raise InexpressibleError(f"the {what} {quoted(text)} has unprintable characters")
    return text


def sysctl_lines(values: Mapping[str, int]) -> list[str]:
    """Return `vm.dirty_ratio = 80` and so on; only known names and whole numbers are accepted."""
    for name, value in values.items():
        if name not in BY_NAME or type(value) is not int or value < 0:
            raise InexpressibleError(f"unknown or invalid: {quoted(name)} = {quoted(str(value))}")
    return [f"{name} = {value}" for name, value in values.items()]


def knobs_in_order(disk: DiskAdvice) -> list[KnobAdvice]:
    """Return the knobs of the disk in the order in which they are set.

    Each has a known name, and a number in its range or a scheduler's plain name as its value.
    """
    for knob in disk.knobs:
        known = DEVICE_BY_NAME.get(knob.name)
        refusal = known.refusal(knob.value) if known else "unknown knob of a disk"
        if refusal:
            raise InexpressibleError(f"{quoted(knob.name)}: {refusal}")
    order = [knob.name for knob in DEVICE_KNOBS]
    return sorted(disk.knobs, key=lambda knob: order.index(knob.name))


def mount_options(mount: MountAdvice) -> str:
    """Return the policy options, then the recommended options: `nosuid,noatime`."""
    policy = _options(mount.policy, is_kernel_option)
    return _joined([*policy, *_options(mount.value, may_be_recommended)])


def fstab_line(mount: MountAdvice) -> FstabLine:
    """Return the user's fstab line after checking its source, type and options."""
    line = mount.fstab
    if line is None:
        raise InexpressibleError(
            f"the measured host's fstab had no line for {quoted(mount.target)}; "
            f"add {mount_options(mount)} where that volume is mounted"
        )
    for path, begins in ((line.source, ("/", *_NAMED)), (mount.target, "/")):
        printable_text(path, "device or mount point", escaped="\t\n")
        if not path.startswith(begins):  # a line that begins with `#` would be a comment
            raise InexpressibleError(f"{quoted(path)} is not a path or device that fstab can name")
    if not _FILESYSTEM.fullmatch(line.fstype):
        raise InexpressibleError(f"invalid file system type {quoted(line.fstype)}")
    _options(line.options, may_be_kept_in_fstab)
    return line


def fstab_options(mount: MountAdvice) -> str:
    """Return the user's options with those recommended: `nofail,nosuid,noatime`."""
    mount_options(mount)
    return _joined(changed_options(fstab_line(mount).options, mount.value, mount.fstype))


def old_mount_options(mount: MountAdvice) -> str:
    """Return the policy options, then the old options."""
    return _joined(_options([*mount.policy, *mount.present], is_kernel_option))


def _options(words: Iterable[str], is_right: Callable[[str], bool]) -> list[str]:
    wrong = next((word for word in words if not is_right(word)), None)
    if wrong is not None:
        raise InexpressibleError(f"{quoted(wrong)} is not a mount option that can be recommended")
    return list(words)


def _joined(words: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(words)) or "defaults"


def shown_transfer(values: Mapping[str, int]) -> str:
    """Return transfer settings as options of `pull`. Raises InexpressibleError."""
    return transfer_words(known_transfer(values))


def known_transfer(values: Mapping[str, int]) -> Mapping[str, int]:
    """Return the values if all are known transfer settings within their ranges."""
    problems = transfer_problems(values)
    if problems:
        raise InexpressibleError(quoted("; ".join(problems)))
    return values
