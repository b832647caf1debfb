# SPDX-License-Identifier: Apache-2.0
"""Mount options of XFS and ext4 that have been recommended for write bursts, each as data.

Sources: the kernel's `fs/xfs/xfs_super.c` and `fs/ext4/super.c`, and mount(8). Whether the running
kernel accepts an option is tried (`sysctl/host/probe.py`), not read from here.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass


class Takes(enum.Enum):
    """What is needed to change an option."""

    REMOUNT = "remount"
    FRESH_MOUNT = "fresh mount"  # a remount accepts and silently ignores it
    NOTHING = "not a kernel option"  # mount(8) or the init system reads it from fstab


@dataclass(frozen=True)
class MountOption:
    """One option, named by the word before any `=`.

    Options of one `group` replace each other; `default` is the word of the group for the file
    system's default. `note` describes the option, for the user. `wide` is the text that a wide
    sweep tries; None for an option that is unsafe or cannot help.
    """

    name: str
    filesystems: tuple[str, ...]
    takes: Takes
    note: str
    group: str = ""
    default: str = ""
    risk: str = ""
    wide: str | None = None


_BOTH = ("xfs", "ext4")
_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/=+-]{0,127}")
#: For mount(8), systemd and udisks, not for a file system: how to mount, who may mount, what to
#: run. In fstab they do more than change an option. The mount table does not show them.
_FOR_PROGRAMS = frozenset(
    (
        *("remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "encryption"),
        *("user", "users", "owner", "group", "nouser", "nousers", "noowner", "nogroup"),
        *("suid", "dev", "exec", "symfollow", "helper", "uhelper", "comment"),
        *("shared", "rshared", "slave", "rslave", "private", "rprivate"),
        *("unbindable", "runbindable"),
    )
)
_PREFIXES_FOR_PROGRAMS = ("x-", "X-", "verity.")
#: What a volume may be used for, and what it consists of: kept, never recommended.
_POLICY = frozenset(
    (
        *("ro", "rw", "nosuid", "nodev", "noexec", "nosymfollow", "acl", "noacl"),
        *("context", "fscontext", "defcontext", "rootcontext", "seclabel"),
        *("logdev", "rtdev", "journal_dev", "journal_path", "sb", "nouuid", "resuid", "resgid"),
        *("errors", "abort", "norecovery", "noload", "test_dummy_encryption"),
    )
)

OPTIONS: tuple[MountOption, ...] = (
    MountOption(
        "noatime",
        _BOTH,
        Takes.REMOUNT,
        "reading a file no longer writes its access time",
        group="atime",
        default="relatime",
        risk="programs that need access times (some mail readers, tmpwatch) do not get them",
        wide="noatime",
    ),
    MountOption(
        "relatime",
        _BOTH,
        Takes.REMOUNT,
        "the default since Linux 2.6.30: mostly updates access times once a day",
        group="atime",
        default="relatime",
    ),
    MountOption(
        "strictatime",
        _BOTH,
        Takes.REMOUNT,
        "every read writes an access time",
        group="atime",
        default="relatime",
    ),
    MountOption(
        "nodiratime",
        _BOTH,
        Takes.REMOUNT,
        "reading a directory does not write its access time; noatime includes it",
        group="diratime",
        default="diratime",
    ),
    MountOption(
        "lazytime",
        _BOTH,
        Takes.REMOUNT,
        "keeps timestamps in memory until the inode is written for another reason",
        group="lazytime",
        default="nolazytime",
        risk="a kernel panic or host failure may lose the timestamps of the last day",
        wide="lazytime",
    ),
    MountOption(
        "logbsize",
        ("xfs",),
        Takes.FRESH_MOUNT,
        "size of an in-memory log buffer; a larger one helps when many files are created",
        group="logbsize",
        wide="logbsize=256k",
    ),
    MountOption(
        "logbufs", ("xfs",), Takes.FRESH_MOUNT, "number of log buffers; 8 is the default", "logbufs"
    ),
    MountOption(
        "allocsize",
        ("xfs",),
        Takes.FRESH_MOUNT,
        "fixed preallocation at the end of a file; turns dynamic preallocation off",
        group="allocsize",
    ),
    MountOption(
        "inode64", ("xfs",), Takes.REMOUNT, "the default since Linux 3.7", "inode", "inode64"
    ),
    MountOption(
        "inode32",
        ("xfs",),
        Takes.REMOUNT,
        "places inodes only in the first TiB: slower on large volumes",
        group="inode",
        default="inode64",
    ),
    MountOption(
        "attr2", ("xfs",), Takes.FRESH_MOUNT, "no effect: every V5 XFS has attr2", "attr2", "attr2"
    ),
    MountOption(
        "discard",
        _BOTH,
        Takes.REMOUNT,
        "discards freed blocks at once; a timer with fstrim costs less",
        group="discard",
        default="nodiscard",
    ),
    MountOption(
        "nobarrier",
        ("xfs",),
        Takes.FRESH_MOUNT,
        "no effect since Linux 4.10, removed in 4.19",
        group="barrier",
    ),
    MountOption(
        "nobarrier",
        ("ext4",),
        Takes.REMOUNT,
        "commits no longer flush the device's write cache",
        group="barrier",
        default="barrier",
        risk="UNSAFE with a volatile write cache: a host failure may corrupt the file system",
    ),
    MountOption(
        "barrier",
        ("ext4",),
        Takes.REMOUNT,
        "the default: commits flush the device's write cache",
        group="barrier",
        default="barrier",
    ),
    MountOption(
        "commit",
        ("ext4",),
        Takes.REMOUNT,
        "seconds between journal commits, 5 by default",
        group="commit",
        default="commit=5",
        risk="a kernel panic or host failure loses up to that many seconds of work",
        wide="commit=30",
    ),
    MountOption(
        "data",
        ("ext4",),
        Takes.FRESH_MOUNT,
        "journalling mode; `writeback` does not write data before its metadata",
        group="data",
        risk="after a crash, data=writeback may expose old data of deleted files",
    ),
    MountOption(
        "noauto_da_alloc",
        ("ext4",),
        Takes.REMOUNT,
        "a rename that replaces a file no longer flushes the new file first",
        group="auto_da_alloc",
        default="auto_da_alloc",
        risk="a crash may leave an empty file in place of the replaced one",
    ),
    MountOption(
        "osyncisdsync",
        ("xfs",),
        Takes.FRESH_MOUNT,
        "the default behaviour since Linux 2.6.33; the option was removed in 4.0",
    ),
    MountOption("osyncisosync", ("xfs",), Takes.FRESH_MOUNT, "removed in Linux 4.0"),
    MountOption(
        "nodirtime",
        _BOTH,
        Takes.FRESH_MOUNT,
        "never was a kernel option (nodiratime is, and noatime includes it)",
    ),
    MountOption(
        "nobootwait",
        _BOTH,
        Takes.FRESH_MOUNT,
        "was read only by Ubuntu's mountall, which 16.04 removed; "
        "use nofail,x-systemd.device-timeout= in fstab",
    ),
    MountOption("noauto", _BOTH, Takes.NOTHING, "fstab policy: not mounted at boot"),
    MountOption("nofail", _BOTH, Takes.NOTHING, "fstab policy: the boot continues without it"),
    MountOption("_netdev", _BOTH, Takes.NOTHING, "fstab policy: mounted after the network"),
)


def wide_texts(fstype: str) -> tuple[str, ...]:
    """Return the mount option texts that a wide sweep tries on `fstype`, each alone."""
    return tuple(o.wide for o in OPTIONS if o.wide and fstype in o.filesystems)


def find(word: str, fstype: str) -> MountOption | None:
    """Return the option of `word` (`logbsize=256k`, `noatime`) on `fstype`; None if unknown."""
    name = word.partition("=")[0]
    return next((o for o in OPTIONS if o.name == name and fstype in o.filesystems), None)


def is_tunable(word: str, fstype: str) -> bool:
    """Return whether a sweep may remove the option; policy such as `nosuid` or quotas stays."""
    option = find(word, fstype)
    defaults = {o.default for o in OPTIONS if o.default and fstype in o.filesystems}
    return option is not None or word in defaults


def is_option_word(word: str) -> bool:
    """Return whether it has the form of an option: no comma, quote, space or backslash."""
    return _WORD.fullmatch(word) is not None


def is_kernel_option(word: str) -> bool:
    """Return whether it can be an option of a file system rather than of a program."""
    name = word.partition("=")[0]
    is_for_programs = name in _FOR_PROGRAMS or name.startswith(_PREFIXES_FOR_PROGRAMS)
    return is_option_word(word) and not is_for_programs


def may_be_recommended(word: str) -> bool:
    """Return whether a sweep may try the option, which need not be in the table above.

    Kernels have more options than the table; each is tried before a sweep. Options that decide who
    may do what on the volume are excluded.
    """
    return is_kernel_option(word) and word.partition("=")[0] not in _POLICY


_FSTAB_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/=+@-]{0,127}")
#: Words that create, select or expose something: only the administrator may write them into fstab.
_ADMINISTRATORS = frozenset(
    (
        *("remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "encryption"),
        *("suid", "dev", "helper", "uhelper", "x-systemd.makefs"),
    )
)
#: Of mount(8): owner, mode, subdirectory and user ids of the mount; of dm-verity.
_ADMINISTRATORS_PREFIXES = ("x-mount.", "X-mount.", "verity.")


def may_be_kept_in_fstab(word: str) -> bool:
    """Return whether an option of a user's fstab line may be written again: `nofail`, `x-…`.

    Options that format, hide or expose a volume may not: the text may come from others.
    """
    name = word.partition("=")[0]
    is_harmless = name not in _ADMINISTRATORS and not name.startswith(_ADMINISTRATORS_PREFIXES)
    return is_harmless and _FSTAB_WORD.fullmatch(word) is not None


def changed_options(own: Sequence[str], words: Sequence[str], fstype: str) -> tuple[str, ...]:
    """Return the options of a user's fstab line, with `words` for those that a sweep may change.

    Options that no kernel reads (`nofail`, `x-systemd.device-timeout=5s`) and policy stay.
    """
    kept = (word for word in own if not is_tunable(word, fstype) or _is_for_fstab(word, fstype))
    return tuple(dict.fromkeys([*kept, *words]))


def _is_for_fstab(word: str, fstype: str) -> bool:
    option = find(word, fstype)
    return option is not None and option.takes is Takes.NOTHING


def split_options(text: str) -> tuple[str, ...]:
    """`noatime,logbsize=256k` → its words; none for `defaults`."""
    return tuple(word for word in text.split(",") if word and word != "defaults")
