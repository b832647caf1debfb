# SPDX-License-Identifier: Apache-2.0
"""Changing mount options: by remount or fresh mount, always read back from the mount table."""

from __future__ import annotations

import errno
import os
from collections.abc import Iterator, Sequence
from pathlib import Path

from sysctl.host.mount_table import (
    VFS_POLICY_FLAGS,
    Mount,
    is_below,
    mount_at,
    mount_of,
    parse_mountinfo,
)
from sysctl.host.system import HostError, System
from sysctl.knobs.mount import Takes, find, is_tunable, may_be_recommended, split_options

_UNMOUNT_ATTEMPTS = 15
#: Polls of a busy device, 0.1 s apart; after the second number other namespaces are checked.
_FREE_LOOKS, _NAMESPACE_LOOKS = 50, 10


def check_sweepable(system: System, destination: str) -> Mount:
    """Return DEST's mount if its options may be tried: nothing else uses it. Raises HostError."""
    table = system.mounts()
    mount = mount_of(table, destination)
    if mount.target == "/":
        raise HostError(
            f"{destination} is on /, whose mount options are never changed",
            "use a DEST on a volume of its own, or omit --mount-options",
        )
    others = [m.target for m in table if m.device == mount.device and m is not mount]
    nested = [m.target for m in table if is_below(m.target, mount.target) and m is not mount]
    if others or nested:
        raise HostError(
            f"{mount.target} cannot be remounted because of other mounts of the volume or below "
            f"it: {', '.join(others + nested)}",
            "unmount those first, or omit --mount-options",
        )
    users = list(users_of(system, mount))
    if users:
        raise HostError(
            f"{mount.target} is in use by {', '.join(users[:5])}",
            "stop them, or omit --mount-options",
        )
    return mount


def users_of(system: System, mount: Mount) -> Iterator[str]:
    """Yield processes with an open file, a working directory or a program on the volume."""
    major, minor = (int(part) for part in mount.device.split(":"))
    try:
        device = system.path(mount.target).stat().st_dev
    except OSError:
        device = os.makedev(major, minor)
    for process in system.path("/proc").glob("[0-9]*"):
        if any(_is_on(link, device) for link in _links(process)):
            yield f"{_name(process)} (process {process.name})"


def held_elsewhere(system: System, device: str) -> list[str]:
    """Return processes whose mount namespace (of a container, PrivateTmp=) has a device mounted."""
    holders: dict[Path, str] = {}
    for process in system.path("/proc").glob("[0-9]*"):
        try:
            namespace = (process / "ns" / "mnt").readlink()
            if namespace not in holders:
                table = parse_mountinfo((process / "mountinfo").read_text())
                is_holder = any(mount.device == device for mount in table)
                holders[namespace] = f"{_name(process)} (process {process.name})" * is_holder
        except OSError:
            continue  # the process has ended
    holders.pop(system.path("/proc/self/ns/mnt").readlink(), None)
    return [holder for holder in holders.values() if holder]


def _links(process: Path) -> Iterator[Path]:
    yield from (process / "cwd", process / "root", process / "exe")
    try:
        yield from (process / "fd").iterdir()
    except OSError:
        return  # the process has ended


def _is_on(link: Path, device: int) -> bool:
    try:
        return link.stat().st_dev == device
    except OSError:
        return False


def _name(process: Path) -> str:
    try:
        return (process / "comm").read_text().strip()
    except OSError:
        return "a process"


def wanted_options(fstype: str, original: Sequence[str], words: Sequence[str]) -> tuple[str, ...]:
    """Return the original options with the tunable ones replaced by `words`; policy stays.

    The original options are those before the first change: an option that is not in the table
    would otherwise look like policy after a trial has set it.
    """
    kept = [o for o in original if not is_tunable(o, fstype)]
    asked = [w for w in words if _takes(w, fstype) is not Takes.NOTHING]
    return tuple(dict.fromkeys([*kept, *asked]))


def _takes(word: str, fstype: str) -> Takes:
    option = find(word, fstype)
    return option.takes if option else Takes.FRESH_MOUNT


def needs_fresh_mount(mount: Mount, words: Sequence[str], original: Sequence[str] = ()) -> bool:
    """Return whether a remount is not enough: an option that needs a fresh mount changes."""
    known = {*words, *(original or mount.all_options)}
    if any(o not in known and not is_tunable(o, mount.fstype) for o in mount.all_options):
        return True  # a trial set an option that is not in the table: only this removes it
    present = {o for o in mount.all_options if is_tunable(o, mount.fstype)}
    shown = {*mount.options, *mount.super_options}
    coming = [w for w in words if w not in shown]
    going = [o for o in present if o not in words and not _is_shown_default(o, mount.fstype)]
    takes = {_takes(word, mount.fstype) for word in [*coming, *going]}
    return Takes.FRESH_MOUNT in takes


#: Options that XFS always shows, even if they were not requested (`xfs_fs_show_options()`).
_SHOWN_DEFAULTS = {"xfs": ("attr2", "inode64", "logbufs=8", "logbsize=32k"), "ext4": ()}


def _is_shown_default(word: str, fstype: str) -> bool:
    option = find(word, fstype)
    if word in _SHOWN_DEFAULTS.get(fstype, ()):
        return True
    return option is not None and option.default == word


def apply_words(system: System, mount: Mount, original: Sequence[str], words: Sequence[str]) -> str:
    """Mount `mount` with `words` instead of the tunable words of its original options.

    Returns how (`Takes`). The caller has journaled the original. After a HostError the volume may
    be unmounted.
    """
    options = wanted_options(mount.fstype, original, words)
    if needs_fresh_mount(mount, words, original):
        _fresh_mount(system, mount.target, mount.source, mount.fstype, options)
        return Takes.FRESH_MOUNT.value
    remount = (*options, *_opposites(mount, words))
    _mount(system, mount.target, mount.source, mount.fstype, ("remount", *remount))
    return Takes.REMOUNT.value


def _opposites(mount: Mount, words: Sequence[str]) -> list[str]:
    """Return the default of each removed option, because a remount keeps options not named."""
    going = [find(o, mount.fstype) for o in mount.all_options if o not in words]
    groups = {option.group for option in (find(w, mount.fstype) for w in words) if option}
    return [o.default for o in going if o and o.default and o.group not in groups]


def _mount(system: System, target: str, source: str, fstype: str, options: Sequence[str]) -> None:
    # With both source and target, mount(8) does not read fstab.
    system.run(["mount", "-t", fstype, "-o", ",".join(options), "--", source, target])


def _fresh_mount(
    system: System, target: str, source: str, fstype: str, options: Sequence[str]
) -> None:
    unmount(system, target)
    _wait_until_free(system, source)
    _mount(system, target, source, fstype, options)


def unmount(system: System, target: str) -> None:
    """Unmount, with retries: a process that was just killed may still hold the volume."""
    for attempt in range(_UNMOUNT_ATTEMPTS):
        try:
            system.run(["umount", "--", target])
            return
        except HostError:
            if attempt == _UNMOUNT_ATTEMPTS - 1:
                raise
        system.sleep(0.1)


def _wait_until_free(system: System, device: str) -> None:
    """Wait until the file system has released its device.

    If another mount namespace (a container, a service with PrivateTmp=) still holds it, a "fresh"
    mount would silently be the old one with its old options. A mounted device cannot be opened with
    O_EXCL. The wait ends after a second if a namespace still holds the device.
    """
    for look in range(_FREE_LOOKS):
        try:
            os.close(os.open(system.path(device), os.O_RDONLY | os.O_EXCL | os.O_CLOEXEC))
            return
        except OSError as error:
            if error.errno != errno.EBUSY:
                return  # not a block device: nothing to wait for
        if look == _NAMESPACE_LOOKS and _is_held_elsewhere(system, device):
            break
        system.sleep(0.1)
    # The volume is mounted again in any case; reading back finds options without effect.


def _is_held_elsewhere(system: System, device: str) -> bool:
    number = system.path(device).stat().st_rdev
    return bool(held_elsewhere(system, f"{os.major(number)}:{os.minor(number)}"))


def present_words(mount: Mount) -> tuple[str, ...]:
    """Return the tunable options of the mount that are not defaults."""
    tunable = (o for o in mount.all_options if is_tunable(o, mount.fstype))
    return tuple(o for o in tunable if not _is_shown_default(o, mount.fstype))


def missing_words(system: System, target: str, words: Sequence[str]) -> list[str]:
    """Return the `words` that the mount table does not show: they have no effect.

    Else return tunable options that are shown but not wanted.
    """
    mount = mount_at(system.mounts(), target)
    if mount is None:
        return list(words) or ["(not mounted)"]
    shown = {*mount.options, *mount.super_options, *_ext4_options(system, mount)}
    missing = [w for w in words if w not in shown and not _is_silent_default(w, mount.fstype)]
    if missing:
        return missing
    allowed = {find(w, mount.fstype) for w in words}
    extra = [
        option
        for option in (*mount.options, *mount.super_options)
        if find(option, mount.fstype) not in {None, *allowed}
        and not _is_shown_default(option, mount.fstype)
    ]
    return [f"{option} (still there)" for option in extra]


def _is_silent_default(word: str, fstype: str) -> bool:
    option = find(word, fstype)
    return option is not None and (option.takes is Takes.NOTHING or option.default == word)


def _ext4_options(system: System, mount: Mount) -> list[str]:
    """Return all options of ext4; the mount table does not show its defaults."""
    path = f"/proc/fs/ext4/{Path(mount.source).name}/options"
    return system.read(path).split() if mount.fstype == "ext4" and system.exists(path) else []


def restore(
    system: System, target: str, source: str, fstype: str, options: tuple[str, ...]
) -> None:
    """Mount `source` on `target` with exactly `options`. Raises HostError."""
    mount = mount_at(system.mounts(), target)
    if mount is not None and mount.source != source:
        raise HostError(
            f"{mount.source} is now mounted on {target} instead of {source}",
            "another program mounted it, so it was not changed",
        )
    if mount is None:
        _mount(system, target, source, fstype, options)
    elif set(mount.all_options) != set(options):
        _give_back(system, mount, options)
    mount = mount_at(system.mounts(), target)
    if mount is None or set(mount.all_options) != set(options):
        raise HostError(f"cannot restore the original options of {target}: {','.join(options)}")


def file_system_uuid(system: System, source: str) -> str | None:
    """Return the UUID of the file system on a device; None if it has none or it is unreadable."""
    words = ["blkid", "--probe", "--match-tag", "UUID", "--output", "value", "--", source]
    try:
        return system.run(words).strip() or None
    except HostError:
        return None


def check_file_system(system: System, target: str, source: str, uuid: str) -> None:
    """Raise HostError if `source` now has another file system; one without a UUID passes."""
    present = file_system_uuid(system, source) if uuid else None
    if present not in (None, uuid):
        raise HostError(
            f"{source} now has another file system (UUID {present}), so it was not mounted on "
            f"{target}; find the original one with `blkid --uuid {uuid}`"
        )


def _give_back(system: System, mount: Mount, options: tuple[str, ...]) -> None:
    """Restore the options by a remount if possible, else by a fresh mount."""
    words = [o for o in options if o not in VFS_POLICY_FLAGS]
    if not needs_fresh_mount(mount, words, options):
        remount = ("remount", *options, *_opposites(mount, words))
        _mount(system, mount.target, mount.source, mount.fstype, remount)
        now = mount_at(system.mounts(), mount.target)
        if now is not None and set(now.all_options) == set(options):
            return
    _fresh_mount(system, mount.target, mount.source, mount.fstype, options)


def loop_devices_of(system: System, backing_file: str) -> list[str]:
    """Return the loop devices whose backing file is `backing_file`, even if it is deleted."""
    listing = system.run(["losetup", "--list", "--noheadings", "--output", "NAME,BACK-FILE"])
    devices = []
    for line in listing.splitlines():
        name, _, backing = line.strip().partition(" ")
        if backing.strip() in (backing_file, f"{backing_file} (deleted)"):
            devices.append(name)
    return devices


def words_of(text: str) -> tuple[str, ...]:
    """Return the words of an option text that may be tried.

    Raises HostError for an invalid word, for words that only programs read, and for those that
    decide who may do what.
    """
    words = split_options(text)
    for word in words:
        if not may_be_recommended(word):
            raise HostError(
                f"{word!r} is not a mount option that Writewise tries",
                "use options of the file system that affect its speed, such as noatime",
            )
    return words
