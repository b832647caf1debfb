# SPDX-License-Identifier: Apache-2.0
"""What processes have dirtied: `write_bytes` of /proc/PID/io.

The kernel counts there the pages that a process makes dirty, on all volumes together, when they
become dirty (`folio_account_dirtied()` in mm/page-writeback.c, Linux 6.18). A process that is
waited for adds its count to that of its parent (`wait_task_zombie()` in kernel/exit.c). Reading it
for other users' processes needs CAP_SYS_PTRACE.
"""

from __future__ import annotations

import os
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from profiler.govern.reader import number_after

_READ_BYTES = 4096
_TICK_NS = 10**9 // os.sysconf("SC_CLK_TCK")
#: A process that is younger than this at the first look has dirtied all of its count lately.
_YOUNG_NS = 10**9
#: After such a gap the counts say nothing of what happened lately.
_GAP_NS = 2 * 10**9
#: Fields of /proc/PID/stat after the name (proc_pid_stat(5)).
_STATE, _PARENT, _STARTED = 0, 1, 19


@dataclass(frozen=True)
class ProcessOrigin:
    """Where a process comes from. `started_ns` is on the clock that also counts suspends."""

    comm: str
    parent: int
    started_ns: int
    is_zombie: bool


class Processes:
    """Reads /proc. A process that has ended is None."""

    def __init__(self, proc: Path = Path("/proc")) -> None:
        self._proc = str(proc)

    def pids(self) -> set[int]:
        """Return all processes."""
        names = os.listdir(self._proc)  # noqa: PTH208, three times as fast as with paths
        return {int(name) for name in names if name.isdigit()}

    def origin(self, pid: int) -> ProcessOrigin | None:
        """Return where a process comes from."""
        text = self._read(f"{pid}/stat")
        if text is None:
            return None
        begin, end = text.index(b"(") + 1, text.rindex(b")")
        fields = text[end + 2 :].split()
        return ProcessOrigin(
            comm=text[begin:end].decode(errors="backslashreplace"),
            parent=int(fields[_PARENT]),
            started_ns=int(fields[_STARTED]) * _TICK_NS,
            is_zombie=fields[_STATE] in (b"Z", b"X"),
        )

    def dirtied_bytes(self, pid: int) -> int | None:
        """Return what a process has dirtied, with the children that it waited for."""
        text = self._read(f"{pid}/io")
        return None if text is None else number_after(b"\n" + text, b"\nwrite_bytes: ")

    def _read(self, name: str) -> bytes | None:
        try:
            descriptor = os.open(f"{self._proc}/{name}", os.O_RDONLY | os.O_CLOEXEC)
        except OSError:  # it has ended
            return None
        try:
            return os.read(descriptor, _READ_BYTES) or None
        except OSError:  # ESRCH: it has ended; EACCES without CAP_SYS_PTRACE
            return None
        finally:
            os.close(descriptor)


@dataclass
class _Known:
    """A process as last seen."""

    label: str
    parent: int
    bytes: int


class Growth:
    """Returns what a changing set of processes dirtied from look to look."""

    def __init__(self, processes: Processes) -> None:
        self._processes = processes
        self._known: dict[int, _Known] = {}
        self._looked_ns: int | None = None

    def since_last_look(self, members: Mapping[int, str]) -> dict[str, int]:
        """Return the bytes by label since the last look; `members` are pids with their labels.

        A process that ended and was waited for by another member is in the parent's count.
        """
        now_ns = time.clock_gettime_ns(time.CLOCK_BOOTTIME)
        if self._looked_ns is not None and now_ns - self._looked_ns > _GAP_NS:
            self._known.clear()
        before, grown = self._known, dict.fromkeys(members.values(), 0)
        self._known, by_pid = {}, {}
        for pid, label in self._with_zombies(members, before).items():
            total = self._processes.dirtied_bytes(pid)
            if total is None:
                continue
            known = before.get(pid) or self._first_seen(pid, label, total, now_ns)
            if known is not None:
                by_pid[pid] = max(0, total - known.bytes)
                self._known[pid] = _Known(label, known.parent, total)
        for pid, known in before.items():
            if pid not in self._known and known.parent in by_pid:
                by_pid[known.parent] = max(0, by_pid[known.parent] - known.bytes)
        for pid, size in by_pid.items():
            label = self._known[pid].label
            grown[label] = grown.get(label, 0) + size
        self._looked_ns = now_ns
        return grown

    def _with_zombies(
        self, members: Mapping[int, str], before: Mapping[int, _Known]
    ) -> dict[int, str]:
        """Return the members, and those of before that ended and were not yet waited for."""
        found = dict(members)
        for pid, known in before.items():
            if pid not in members:
                origin = self._processes.origin(pid)
                if origin and origin.is_zombie:
                    found[pid] = known.label
        return found

    def _first_seen(self, pid: int, label: str, total: int, now_ns: int) -> _Known | None:
        """Return what it had dirtied before the last look: all, unless it is younger."""
        origin = self._processes.origin(pid)
        if origin is None:
            return None
        since_ns = max(now_ns - _YOUNG_NS, self._looked_ns or 0)
        is_young = origin.started_ns + _TICK_NS >= since_ns
        return _Known(label, origin.parent, 0 if is_young else total)
