# SPDX-License-Identifier: Apache-2.0
"""What the running kernel accepts: mount options, tried on a scratch volume, and a disk's knobs.

Versions are not compared. A small image on a loop device is mounted with each option, and the mount
table is read back, because XFS accepts and ignores some options. What a disk accepts depends on its
driver, so values are tried briefly on the destination's disk, journaled and restored.
"""

from __future__ import annotations

import secrets
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from sysctl.host import mounts
from sysctl.host.devices import Disk, lacking
from sysctl.host.host import Host
from sysctl.host.system import HostError
from sysctl.knobs.mount import Takes, find

#: The sizes of the sparse images; mkfs.xfs needs at least 300 MiB since xfsprogs 5.19.
_IMAGE_BYTES = {"xfs": 320 * 2**20, "ext4": 32 * 2**20}
#: An ext4 that the kernel initializes later holds up writers: `sysctl.host.ext4`.
_AT_ONCE = "lazy_itable_init=0,lazy_journal_init=0"
_MKFS = {
    "xfs": ["mkfs.xfs", "-q", "-f"],
    "ext4": ["mkfs.ext4", "-q", "-F", "-E", _AT_ONCE],
}


@dataclass(frozen=True)
class OptionVerdict:
    """Whether a trial can use a mount option; `reason` is why not, or a note on the option."""

    word: str
    usable: bool
    reason: str


@dataclass(frozen=True)
class DeviceVerdict:
    """Whether a trial can use a value of a disk's knob; `reason` is why not, or ""."""

    name: str
    value: str
    reason: str

    @property
    def usable(self) -> bool:
        """Whether it was accepted and read back."""
        return not self.reason


def judge_device_values(
    host: Host, disk: Disk, values: Mapping[str, Sequence[str]]
) -> list[DeviceVerdict]:
    """Set each value alone for a moment; return which values this disk accepts."""
    return [
        DeviceVerdict(name, value, _refusal(host, disk, name, value))
        for name, chosen in values.items()
        for value in chosen
    ]


def _refusal(host: Host, disk: Disk, name: str, value: str) -> str:
    reason = lacking(host.system, disk, name)
    if reason:
        return reason
    try:
        with host.temporary():
            host.set_device(disk, {name: value})
    except HostError as error:
        return f"this disk does not accept it: {error.message}"
    return ""


def make_file_system(host: Host, fstype: str, device: str) -> None:
    """Make an XFS or ext4 on a device of ours. Raises HostError."""
    host.system.run([*_MKFS[fstype], device])


def check_judged(fstype: str) -> None:
    """Raise HostError for a file system whose mount options are not tried."""
    if fstype not in _IMAGE_BYTES:
        raise HostError(
            f"this version supports only mount options of XFS and ext4, not of {fstype}",
            "omit --mount-options",
        )


def judge_options(host: Host, fstype: str, words: Iterable[str]) -> list[OptionVerdict]:
    """Try each option on a scratch volume of type `fstype`; return which can be used.

    Each option has its own volume: while a new mount namespace (of a starting container) keeps a
    volume mounted, it cannot get other options. Raises HostError if a scratch volume cannot be
    made (no mkfs, no loop device).
    """
    check_judged(fstype)
    return [_judge_on_its_own(host, fstype, word) for word in words]


def _judge_on_its_own(host: Host, fstype: str, word: str) -> OptionVerdict:
    folder = host.directory / f"probe-{secrets.token_hex(4)}"
    with host.temporary():
        host.make_directory(folder)
        device = _scratch_device(host, fstype, folder)
        return _judge(host, fstype, device, folder / "mnt", word)


def _scratch_device(host: Host, fstype: str, folder: Path) -> str:
    image = folder / "image"
    (folder / "mnt").mkdir(mode=0o700)
    host.make_sparse_file(image, _IMAGE_BYTES[fstype])
    device = host.attach_loop_device(image)
    make_file_system(host, fstype, device)
    return device


def _judge(host: Host, fstype: str, device: str, target: Path, word: str) -> OptionVerdict:
    known = find(word, fstype)
    note = f": {known.note}" if known else ""
    if known and known.takes is Takes.NOTHING:
        return OptionVerdict(word, False, known.note)
    try:
        with host.temporary():
            host.mount(device, target, fstype, word)
            missing = mounts.missing_words(host.system, str(target), (word,))
    except HostError:
        return OptionVerdict(word, False, f"this kernel refuses it on {fstype}{note}")
    if missing:
        return OptionVerdict(word, False, f"this kernel accepts but ignores it{note}")
    return OptionVerdict(word, True, known.note if known else "accepted by this kernel")
