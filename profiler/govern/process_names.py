# SPDX-License-Identifier: Apache-2.0
"""Which process has which name, and whose child it is, with few reads.

A name changes when a process starts another program. So a process is read again while it is young,
and while data arrives all are, once a second.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass

from profiler.govern.processes import Processes, ProcessOrigin

_YOUNG_NS = _AGAIN_NS = 10**9


@dataclass(frozen=True)
class _Read:
    """A process as last read."""

    origin: ProcessOrigin
    found_ns: int


class ProcessNames:
    """Keeps the processes of this host, as far as they were looked at."""

    def __init__(self, processes: Processes, clock_ns: Callable[[], int]) -> None:
        self._processes, self._clock_ns = processes, clock_ns
        self._read: dict[int, _Read] = {}
        self._all_ns: int | None = None

    def all(self, *, again: bool) -> dict[int, str]:
        """Return every process with its name; `again` allows to read all again."""
        self._update(again=again)
        return {pid: read.origin.comm for pid, read in self._read.items()}

    def with_children(self, names: Collection[str], *, again: bool) -> dict[int, str]:
        """Return the processes of those names, and what they started, with the name."""
        self._update(again=again)
        found: dict[int, str] = {}
        for pid in self._read:
            self._label(pid, names, found)
        return {pid: name for pid, name in found.items() if name}

    def _label(self, pid: int, names: Collection[str], found: dict[int, str]) -> None:
        """Find the name of a process or of its nearest ancestor that has one; "" if none has."""
        chain: list[int] = []
        name = ""
        while pid in self._read and pid not in chain:
            if pid in found:
                name = found[pid]
                break
            chain.append(pid)
            if self._read[pid].origin.comm in names:
                name = self._read[pid].origin.comm
                break
            pid = self._read[pid].origin.parent
        found.update(dict.fromkeys(chain, name))

    def _update(self, *, again: bool) -> None:
        now_ns = self._clock_ns()
        is_all = again and (self._all_ns is None or now_ns - self._all_ns >= _AGAIN_NS)
        if is_all:
            self._all_ns = now_ns
        before, self._read = self._read, {}
        for pid in self._processes.pids():
            read = before.get(pid)
            if read is None or is_all or now_ns - read.found_ns < _YOUNG_NS:
                origin = self._processes.origin(pid)
                if origin is None:
                    continue
                read = _Read(origin, read.found_ns if read else now_ns)
            self._read[pid] = read
