# SPDX-License-Identifier: Apache-2.0
"""Waits until a writer dirties pages, so that a host at rest is not looked at 20 times a second.

The kernel's tracepoint `writeback:global_dirty_state` happens when a writer compares the dirty
pages with the thresholds, every few hundred pages: before it can be made to wait
(`balance_dirty_pages()` in mm/page-writeback.c, Linux 6.18). A perf event with a filter wakes the
governor once more than a little is dirty. There is no BPF program. What it costs a writer is in
docs/development/measurements.md.

The events are opened with CAP_PERFMON or CAP_SYS_ADMIN, which can be dropped then.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import platform
import select
import struct
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from contracts.shared import libc
from sysctl.govern.samples import busy_bytes
from sysctl.host.kernel_filesystems import open_tracefs
from sysctl.knobs.writeback import PAGE_BYTES, Thresholds

_TRACEPOINT_ID = "events/writeback/global_dirty_state/id"
#: __NR_perf_event_open: syscall_64.tbl of arch/x86 and include/uapi/asm-generic/unistd.h.
_PERF_EVENT_OPEN = {"x86_64": 298, "aarch64": 241}
_CLOEXEC = 8  # PERF_FLAG_FD_CLOEXEC
_IOC_ENABLE, _IOC_DISABLE, _IOC_SET_FILTER = 0x2400, 0x2401, 0x40082406
#: struct perf_event_attr, version 0: type, size, config, sample_period, sample_type, read_format,
#: flags (disabled), wakeup_events, bp_type, bp_addr (include/uapi/linux/perf_event.h).
_ATTRIBUTES = struct.Struct("=IIQQQQQIIQ")
_TYPE_TRACEPOINT, _DISABLED = 2, 1
#: Of what makes a host busy: so the thresholds may fall by half before this is too late.
_SHARE = 0.25


class DirtyEvents:
    """Wakes its caller when more than `least_bytes` are dirty, or under write-back.

    Events are counted from the begin of a wait until one comes, or until `stop`.
    """

    def __init__(self, descriptors: Sequence[int], least_bytes: int) -> None:
        self.least_bytes = least_bytes
        self._descriptors = tuple(descriptors)
        self._is_counting = False
        self._poll = select.poll()
        for descriptor in self._descriptors:
            self._poll.register(descriptor, select.POLLIN)

    def wait(self, seconds: float) -> bool:
        """Wait for an event; return whether there was one."""
        if not self._is_counting:
            self._poll.poll(0)  # forget what came before
            self._all(_IOC_ENABLE)
            self._is_counting = True
        if not self._poll.poll(seconds * 1000):
            return False
        self.stop()
        return True

    def stop(self) -> None:
        """Count nothing until the next wait."""
        if self._is_counting:
            self._all(_IOC_DISABLE)
            self._is_counting = False

    def _all(self, request: int) -> None:
        for descriptor in self._descriptors:
            fcntl.ioctl(descriptor, request, 0)


@contextmanager
def opened_dirty_events(at_rest: Thresholds) -> Iterator[DirtyEvents | None]:
    """Yield the events of all CPUs; None if this kernel has none, or refuses them.

    They come well before a host with these thresholds is busy. A CPU that is added later has none:
    its writers are seen at the next look.
    """
    with ExitStack() as stack:
        yield _opened(stack, round(busy_bytes(at_rest) * _SHARE))


def _opened(stack: ExitStack, least_bytes: int) -> DirtyEvents | None:
    number = _PERF_EVENT_OPEN.get(platform.machine())
    if number is None:
        return None
    pages = least_bytes // PAGE_BYTES
    condition = f"nr_dirty > {pages} || nr_writeback > {pages}"
    with ExitStack() as on_failure:
        try:
            attributes = _attributes(tracepoint_id())
            descriptors = []
            for cpu in sorted(_online_cpus()):
                arguments = (ctypes.c_char_p(attributes), -1, cpu, -1, _CLOEXEC)
                descriptor = libc.checked_call("syscall", number, *arguments)
                on_failure.callback(os.close, descriptor)
                fcntl.ioctl(descriptor, _IOC_SET_FILTER, condition.encode() + b"\0")
                # Without a buffer there is nothing to wait for; one that is only read never fills.
                size = 2 * mmap.PAGESIZE
                on_failure.enter_context(mmap.mmap(descriptor, size, prot=mmap.PROT_READ))
                descriptors.append(descriptor)
        except (OSError, ValueError):
            return None
        stack.push(on_failure.pop_all())
    return DirtyEvents(descriptors, least_bytes)


def tracepoint_id() -> int:
    """Return the kernel's number of the tracepoint. Raises OSError."""
    tracefs = open_tracefs()
    try:
        descriptor = os.open(_TRACEPOINT_ID, os.O_RDONLY | os.O_CLOEXEC, dir_fd=tracefs)
        try:
            return int(os.read(descriptor, 32))
        finally:
            os.close(descriptor)
    finally:
        os.close(tracefs)


def _attributes(tracepoint: int) -> bytes:
    size, every, wakeup = _ATTRIBUTES.size, 1, 1
    return _ATTRIBUTES.pack(
        _TYPE_TRACEPOINT, size, tracepoint, every, 0, 0, _DISABLED, wakeup, 0, 0
    )


def _online_cpus() -> Iterator[int]:
    text = Path("/sys/devices/system/cpu/online").read_text(encoding="ascii")
    for part in text.strip().split(","):
        first, _, last = part.partition("-")
        yield from range(int(first), int(last or first) + 1)
