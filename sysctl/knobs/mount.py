"""Mount options of XFS and ext4 that have been recommended for write bursts, each as data.

What each does today is from the kernel's `fs/xfs/xfs_super.c`, `fs/ext4/super.c` and mount(8); what
the *running* kernel does with it is not taken from here but tried (`sysctl/host/probe.py`).
"""

from __future__ import annotations

import enum
import re
from collections.abc import Sequence
from dataclasses import dataclass


class Takes(enum.Enum):
    """What it takes to change an option."""

    REMOUNT = "remount"
    FRESH_MOUNT = "fresh mount"  # a remount accepts and silently ignores it
    NOTHING = "not a kernel option"  # mount(8) or the init system reads it from fstab


@dataclass(frozen=True)
class MountOption:
    """One option, by the word before any `=`.

    Options of one `group` replace each other; `default` is the word of the group that means what
    the file system does without any. `note` says what is known of it, for the person who asks.
    `wide` is the text that a wide sweep tries; None for what is unsafe or can gain nothing.
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
#: For mount(8), systemd and udisks, not for a file system: how to mount, who may, what to run. In
#: an fstab they would do more than change an option. The mount table shows none of them.
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
#: What a volume may be used for and what it consists of: kept as it is, never recommended.
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
        risk="programs that need access times (some mail readers, tmpwatch) do not see them",
        wide="noatime",
    ),
    MountOption(
        "relatime",
        _BOTH,
        Takes.REMOUNT,
        "the default since Linux 2.6.30: access times at most once a day",
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
        "timestamps stay in memory until the inode is written for another reason",
        group="lazytime",
        default="nolazytime",
        risk="timestamps of the last day may be lost in a crash",
        wide="lazytime",
    ),
    MountOption(
        "logbsize",
        ("xfs",),
        Takes.FRESH_MOUNT,
        "size of an in-memory log buffer; a larger one helps loads that create many files",
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
        "fixed preallocation at the end of a file; switches dynamic preallocation off",
        group="allocsize",
    ),
    MountOption(
        "inode64", ("xfs",), Takes.REMOUNT, "the default since Linux 3.7", "inode", "inode64"
    ),
    MountOption(
        "inode32",
        ("xfs",),
        Takes.REMOUNT,
        "inodes in the first TiB only: slower on large volumes",
        group="inode",
        default="inode64",
    ),
    MountOption(
        "attr2", ("xfs",), Takes.FRESH_MOUNT, "no effect: every V5 XFS is attr2", "attr2", "attr2"
    ),
    MountOption(
        "discard",
        _BOTH,
        Takes.REMOUNT,
        "trims at once; a timer with fstrim costs less",
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
        risk="UNSAFE with a volatile write cache, as EBS has: a power loss corrupts the volume",
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
        risk="up to that many seconds of work are lost in a crash",
        wide="commit=30",
    ),
    MountOption(
        "data",
        ("ext4",),
        Takes.FRESH_MOUNT,
        "journalling mode; `writeback` orders no data before its metadata",
        group="data",
        risk="data=writeback may show stale data of deleted files after a crash",
    ),
    MountOption(
        "noauto_da_alloc",
        ("ext4",),
        Takes.REMOUNT,
        "replacing a file by rename no longer flushes it first",
        group="auto_da_alloc",
        default="auto_da_alloc",
        risk="a crash may leave an empty file where one was replaced",
    ),
    MountOption(
        "osyncisdsync",
        ("xfs",),
        Takes.FRESH_MOUNT,
        "the behaviour of every kernel since 2.6.33, the word was removed in 4.0",
    ),
    MountOption("osyncisosync", ("xfs",), Takes.FRESH_MOUNT, "removed in Linux 4.0"),
    MountOption(
        "nodirtime",
        _BOTH,
        Takes.FRESH_MOUNT,
        "never a kernel option (nodiratime is, and noatime includes it)",
    ),
    MountOption(
        "nobootwait",
        _BOTH,
        Takes.FRESH_MOUNT,
        "read by Ubuntu's mountall only, gone since 16.04; "
        "use nofail,x-systemd.device-timeout= in fstab",
    ),
    MountOption("noauto", _BOTH, Takes.NOTHING, "fstab policy: not mounted at boot"),
    MountOption("nofail", _BOTH, Takes.NOTHING, "fstab policy: boot goes on without it"),
    MountOption("_netdev", _BOTH, Takes.NOTHING, "fstab policy: mounted after the network"),
)


def wide_texts(fstype: str) -> tuple[str, ...]:
    """The mount option texts that a wide sweep tries on `fstype`, each alone."""
    return tuple(o.wide for o in OPTIONS if o.wide and fstype in o.filesystems)


def find(word: str, fstype: str) -> MountOption | None:
    """What is known of option `word` (`logbsize=256k`, `noatime`) on `fstype`, or None."""
    name = word.partition("=")[0]
    return next((o for o in OPTIONS if o.name == name and fstype in o.filesystems), None)


def is_tunable(word: str, fstype: str) -> bool:
    """Whether a sweep may take the option away: policy such as `nosuid` or quotas it may not."""
    option = find(word, fstype)
    defaults = {o.default for o in OPTIONS if o.default and fstype in o.filesystems}
    return option is not None or word in defaults


def is_option_word(word: str) -> bool:
    """Whether it could be an option for a kernel's parser: no comma, quote, blank or backslash."""
    return _WORD.fullmatch(word) is not None


def is_kernel_option(word: str) -> bool:
    """Whether it could be an option of a file system, rather than a word for a program."""
    name = word.partition("=")[0]
    is_for_programs = name in _FOR_PROGRAMS or name.startswith(_PREFIXES_FOR_PROGRAMS)
    return is_option_word(word) and not is_for_programs


def may_be_recommended(word: str) -> bool:
    """Whether it is an option that a sweep may try, in the table above or not.

    A kernel knows more options than the table; what it takes is tried before a sweep. None of them
    decides who may do what on the volume.
    """
    return is_kernel_option(word) and word.partition("=")[0] not in _POLICY


_FSTAB_WORD = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.:/=+@-]{0,127}")
#: Words that make, choose or expose something: nobody but the administrator writes them into fstab.
_ADMINISTRATORS = frozenset(
    (
        *("remount", "bind", "rbind", "move", "loop", "offset", "sizelimit", "encryption"),
        *("suid", "dev", "helper", "uhelper", "x-systemd.makefs"),
    )
)
#: Of mount(8): owner, mode, subdirectory and user ids of what is mounted; of dm-verity.
_ADMINISTRATORS_PREFIXES = ("x-mount.", "X-mount.", "verity.")


def may_be_kept_in_fstab(word: str) -> bool:
    """Whether an option of a user's fstab line may be written again into one: `nofail`, `x-…`.

    What formats, hides or exposes a volume is not: the text may come from others.
    """
    name = word.partition("=")[0]
    is_harmless = name not in _ADMINISTRATORS and not name.startswith(_ADMINISTRATORS_PREFIXES)
    return is_harmless and _FSTAB_WORD.fullmatch(word) is not None


def changed_options(own: Sequence[str], words: Sequence[str], fstype: str) -> tuple[str, ...]:
    """The options of a user's fstab line with `words` in place of those that a sweep may change.

    What no kernel reads (`nofail`, `x-systemd.device-timeout=5s`) and policy stay as they are.
    """
    kept = (word for word in own if not is_tunable(word, fstype) or _is_for_fstab(word, fstype))
    return tuple(dict.fromkeys([*kept, *words]))


def _is_for_fstab(word: str, fstype: str) -> bool:
    option = find(word, fstype)
    return option is not None and option.takes is Takes.NOTHING


def split_options(text: str) -> tuple[str, ...]:
    """`noatime,logbsize=256k` → its words; `defaults` stands for none."""
    return tuple(word for word in text.split(",") if word and word != "defaults")
