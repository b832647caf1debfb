"""Capabilities that a profile needs no more once its probes are attached: given up, for good.

Attached probes are descriptors: reading their maps, and detaching by closing them, asks for no
capability. What a command is started with is untouched, since an execve(2) by root gives all that
the bounding set has (capabilities(7)).
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from sysctl.host.mount_table import mount_at, parse_mountinfo

#: Numbers of include/uapi/linux/capability.h.
DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL, SETGID, SETUID = 1, 2, 3, 5, 6, 7
SYS_PTRACE, SYS_ADMIN, BPF = 19, 21, 39

#: Map operations are BPF's, and SYS_ADMIN's on kernels that have no BPF capability (before 5.8);
#: KILL passes signals on to a command of another user, DAC_READ_SEARCH imports our own modules
#: from a home directory.
_ALWAYS = frozenset({KILL, DAC_READ_SEARCH})
_VERSION_3 = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_WORDS = 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def keep_only(numbers: Iterable[int]) -> None:
    """Give up every other capability of this thread and of what it starts without an execve.

    Those that it does not have are left out. Raises OSError.
    """
    header, data = _Header(_VERSION_3, 0), (_Data * _WORDS)()
    libc = ctypes.CDLL(None, use_errno=True)
    _check(libc.capget(ctypes.byref(header), data))
    kept = sum(1 << number for number in set(numbers))
    for word in range(_WORDS):
        mask = kept >> 32 * word & 0xFFFFFFFF
        data[word].permitted &= mask
        data[word].effective = data[word].permitted
        data[word].inheritable &= mask
    _check(libc.capset(ctypes.byref(header), data))


def needed_to_profile(
    *, changes_user: bool, may_remove_output: bool, proc: Path = Path("/proc")
) -> frozenset[int]:
    """What a profile needs between the attachment of its probes and its end.

    `changes_user`: the command is still to be started, as another user. `may_remove_output`: the
    report's file goes again if there is none. Where /proc hides the processes of others (hidepid),
    SYS_PTRACE is what shows them.
    """
    last = int((proc / "sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    needed = {*_ALWAYS, BPF if last >= BPF else SYS_ADMIN}
    if changes_user:
        needed |= {SETUID, SETGID}
    if may_remove_output:
        needed |= {DAC_OVERRIDE, FOWNER}
    table = (proc / "self/mountinfo").read_bytes().decode(errors="surrogateescape")
    mounted = mount_at(parse_mountinfo(table), "/proc")
    words = mounted.super_options if mounted else ()
    if any(word.startswith("hidepid=") and word != "hidepid=0" for word in words):
        needed.add(SYS_PTRACE)
    return frozenset(needed)


def _check(result: int) -> None:
    if result != 0:
        error = ctypes.get_errno()
        raise OSError(error, os.strerror(error))
