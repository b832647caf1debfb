"""What stands in a snippet as a setting, checked: nothing else may reach its lines.

Each function raises InexpressibleError. A recommendation may come from a file, so the renderers
rely on nobody to have looked at it before.
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
    """`text` itself, if it has neither control and formatting characters nor surrogates.

    `escaped` are those of them for which the format has an escape of its own.
    """
    if any(is_unprintable(character) for character in text if character not in escaped):
        raise InexpressibleError(f"the {what} {quoted(text)} has characters that cannot be written")
    return text


def sysctl_lines(values: Mapping[str, int]) -> list[str]:
    """`vm.dirty_ratio = 80`: names that are known and whole numbers."""
    for name, value in values.items():
        if name not in BY_NAME or type(value) is not int or value < 0:
            raise InexpressibleError(f"{quoted(name)} = {quoted(str(value))} is no known sysctl")
    return [f"{name} = {value}" for name, value in values.items()]


def knobs_in_order(disk: DiskAdvice) -> list[KnobAdvice]:
    """The knobs of the disk in the order in which they are set.

    Each has a known name, and as value a number in its range or a scheduler's plain name.
    """
    for knob in disk.knobs:
        known = DEVICE_BY_NAME.get(knob.name)
        refusal = known.refusal(knob.value) if known else "is no knob of a disk"
        if refusal:
            raise InexpressibleError(f"{quoted(knob.name)}: {refusal}")
    order = [knob.name for knob in DEVICE_KNOBS]
    return sorted(disk.knobs, key=lambda knob: order.index(knob.name))


def mount_options(mount: MountAdvice) -> str:
    """The policy that stays, then the options recommended: `nosuid,noatime`."""
    policy = _options(mount.policy, is_kernel_option)
    return _joined([*policy, *_options(mount.value, may_be_recommended)])


def fstab_line(mount: MountAdvice) -> FstabLine:
    """The user's line, checked: its source, its type and each of its words."""
    line = mount.fstab
    if line is None:
        raise InexpressibleError(
            f"the fstab of the host that was measured had no line for {quoted(mount.target)}; "
            f"add {mount_options(mount)} where that volume is mounted"
        )
    for path, begins in ((line.source, ("/", *_NAMED)), (mount.target, "/")):
        printable_text(path, "device or mount point", escaped="\t\n")
        if not path.startswith(begins):  # `#` would make it a comment
            raise InexpressibleError(f"{quoted(path)} is not a path or device that fstab can name")
    if not _FILESYSTEM.fullmatch(line.fstype):
        raise InexpressibleError(f"{quoted(line.fstype)} is no type of file system")
    _options(line.options, may_be_kept_in_fstab)
    return line


def fstab_options(mount: MountAdvice) -> str:
    """The fourth field of the user's line with what is recommended: `nofail,nosuid,noatime`."""
    mount_options(mount)
    return _joined(changed_options(fstab_line(mount).options, mount.value, mount.fstype))


def old_mount_options(mount: MountAdvice) -> str:
    """The same with the options of before."""
    return _joined(_options([*mount.policy, *mount.present], is_kernel_option))


def _options(words: Iterable[str], is_right: Callable[[str], bool]) -> list[str]:
    wrong = next((word for word in words if not is_right(word)), None)
    if wrong is not None:
        raise InexpressibleError(f"{quoted(wrong)} is no mount option that could be recommended")
    return list(words)


def _joined(words: Iterable[str]) -> str:
    return ",".join(dict.fromkeys(words)) or "defaults"


def shown_transfer(values: Mapping[str, int]) -> str:
    """Settings of the pull as `pull` takes them. Raises InexpressibleError."""
    return transfer_words(known_transfer(values))


def known_transfer(values: Mapping[str, int]) -> Mapping[str, int]:
    """The values themselves, if all are settings of a pull within their ranges."""
    problems = transfer_problems(values)
    if problems:
        raise InexpressibleError(quoted("; ".join(problems)))
    return values


def filesystem(mount: MountAdvice) -> str:
    """The file system's type."""
    if not _FILESYSTEM.fullmatch(mount.fstype):
        raise InexpressibleError(f"{quoted(mount.fstype)} is no type of file system")
    return mount.fstype
