# SPDX-License-Identifier: Apache-2.0
"""Drops, for good, the capabilities that a profile no longer needs once its probes are attached.

Attached probes are descriptors: reading their maps and closing them needs no capability. A command
still gets all capabilities of the bounding set through root's execve(2) (capabilities(7)).
"""

from __future__ import annotations

import ctypes
from collections.abc import Iterable
from pathlib import Path

from contracts.shared import libc
from sysctl.host.mount_table import mount_at, parse_mountinfo

#: Numbers of include/uapi/linux/capability.h.
DAC_OVERRIDE, DAC_READ_SEARCH, FOWNER, KILL, SETGID, SETUID = 1, 2, 3, 5, 6, 7
SYS_PTRACE, SYS_ADMIN, SYS_RESOURCE, PERFMON, BPF = 19, 21, 24, 38, 39

#: KILL passes signals to another user's command, DAC_READ_SEARCH imports our modules from a home
#: directory. Map operations need BPF, or SYS_ADMIN on kernels before 5.8.
_ALWAYS = frozenset({KILL, DAC_READ_SEARCH})
_VERSION_3 = 0x20080522  # _LINUX_CAPABILITY_VERSION_3
_WORDS = 2


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


class _Data(ctypes.Structure):
    _fields_ = tuple((name, ctypes.c_uint32) for name in ("effective", "permitted", "inheritable"))


def keep_only(numbers: Iterable[int]) -> None:
    """Drop all other capabilities of this thread and of what it starts without an execve.

    Capabilities that it does not have are ignored. Raises OSError.
    """
    header, data = _Header(_VERSION_3, 0), (_Data * _WORDS)()
    libc.checked_call("capget", ctypes.byref(header), data)
    kept = sum(1 << number for number in set(numbers))
    for word in range(_WORDS):
        mask = kept >> 32 * word & 0xFFFFFFFF
        data[word].permitted &= mask
        data[word].effective = data[word].permitted
        data[word].inheritable &= mask
    libc.checked_call("capset", ctypes.byref(header), data)


def needed_to_watch(*, loads_probes: bool, reads_log_page: bool) -> frozenset[int]:
    """Return the capabilities that a watch needs after its probes are attached.

    `loads_probes` is whether it still attaches others: with SYS_ADMIN the compiler mounts tracefs,
    and without new privileges (systemd) it gets no more than this process has.
    """
    needed = {DAC_READ_SEARCH}
    if loads_probes:
        needed |= {SYS_ADMIN, SYS_RESOURCE, PERFMON, BPF}
    if reads_log_page:
        needed.add(SYS_ADMIN)
    return frozenset(needed)


def needed_to_profile(
    *,
    changes_user: bool,
    may_remove_output: bool,
    reads_log_page: bool = False,
    proc: Path = Path("/proc"),
) -> frozenset[int]:
    """Return the capabilities that a profile needs after its probes are attached.

    `changes_user` is whether it still starts a command as another user, `may_remove_output` whether
    it removes the output file if there is no report, `reads_log_page` whether there is an EBS
    volume: its counters need SYS_ADMIN at each reading (`profiler.ec2.log_page.read_page`). If
    /proc hides other users' processes (hidepid), SYS_PTRACE is needed to see them.
    """
    last = int((proc / "sys/kernel/cap_last_cap").read_text(encoding="ascii"))
    needed = {*_ALWAYS, BPF if last >= BPF else SYS_ADMIN}
    if changes_user:
        needed |= {SETUID, SETGID}
    if may_remove_output:
        needed |= {DAC_OVERRIDE, FOWNER}
    if reads_log_page:
        needed.add(SYS_ADMIN)
    table = (proc / "self/mountinfo").read_bytes().decode(errors="surrogateescape")
    mounted = mount_at(parse_mountinfo(table), "/proc")
    words = mounted.super_options if mounted else ()
    if any(word.startswith("hidepid=") and word != "hidepid=0" for word in words):
        needed.add(SYS_PTRACE)
    return frozenset(needed)
