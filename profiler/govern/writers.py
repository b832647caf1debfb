# SPDX-License-Identifier: Apache-2.0
"""Who writes: what the admitted programs dirtied, or without --admit, every program.

Without --admit it is only for the name in a burst's line, so nothing is read while no data
arrives. Looks take at most a share of the time: on a host with many processes they become rare.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping

from profiler.govern.admission import Admission
from profiler.govern.control_groups import ControlGroups
from profiler.govern.process_names import ProcessNames
from profiler.govern.processes import Growth, Processes
from profiler.govern.reader import WritersSeen
from sysctl.govern.admitted import Attribution
from sysctl.govern.groups import GroupMemory
from sysctl.govern.samples import VolumeState, dirtied_between
from sysctl.host.system import System

#: Looks take this share of the time at rest, and while much is dirty.
_REST_SHARE, _BUSY_SHARE = 0.001, 0.04
#: Admitted writers are looked at this often while much is dirty, whatever it takes.
_LONGEST_REST_NS = 150_000_000
#: Without --admit nothing is read before so much has arrived.
_LEAST_BYTES = 1 << 20


def groups_for(admission: Admission) -> ControlGroups | None:
    """Return this host's control groups if some are admitted. Raises RequirementError."""
    return ControlGroups(System()) if admission.cgroups else None


class Writers:
    """Looks at writers when data has arrived on the named volumes."""

    def __init__(
        self,
        admission: Admission,
        groups: ControlGroups | None,
        processes: Processes | None = None,
        clock_ns: Callable[[], int] = time.monotonic_ns,
        cpu_ns: Callable[[], int] = time.thread_time_ns,
    ) -> None:
        """`groups` is needed if the admission has control groups.

        A look takes what it takes of a CPU: on a busy host it may also wait for one.
        """
        self._cpu_ns = cpu_ns
        self._admission, self._groups, self._clock_ns = admission, groups, clock_ns
        self._processes = processes or Processes()
        self._names = ProcessNames(self._processes, clock_ns)
        self._growth = Growth(self._processes)
        self._attribution = Attribution()
        self._volumes: tuple[VolumeState | None, ...] = ()
        self._arrived_bytes = 0
        self._began_ns: int | None = None
        self._took_ns = 0
        self._memory: tuple[GroupMemory, ...] = ()

    def look(self, volumes: tuple[VolumeState | None, ...], *, is_busy: bool) -> WritersSeen:
        """Return what is new; `volumes` are as just read, `is_busy` is whether much is dirty."""
        is_new = volumes is not self._volumes
        self._arrived_bytes += sum(dirtied_between(self._volumes, volumes))
        self._volumes = volumes
        writes: Mapping[str, int] = {}
        if is_new and self._is_due(is_busy=is_busy):
            self._began_ns, began_cpu_ns = self._clock_ns(), self._cpu_ns()
            writes = self._growth.since_last_look(self._members(is_busy=is_busy))
            self._attribution.add(self._arrived_bytes, sum(writes.values()))
            self._memory = self._memory_now()
            self._arrived_bytes = 0
            self._took_ns = self._cpu_ns() - began_cpu_ns
        total = self._attribution.total_bytes if self._admission else None
        return WritersSeen(total, writes, self._memory)

    def _is_due(self, *, is_busy: bool) -> bool:
        """Return whether to look; a look that took long is followed by a rest."""
        if not self._admission and not (is_busy and self._arrived_bytes >= _LEAST_BYTES):
            return False
        if self._began_ns is None:
            return True
        rest_ns = self._took_ns / (_BUSY_SHARE if is_busy else _REST_SHARE)
        if self._admission and is_busy:
            rest_ns = min(rest_ns, _LONGEST_REST_NS)
        return self._clock_ns() - self._began_ns >= rest_ns

    def _members(self, *, is_busy: bool) -> dict[int, str]:
        """Return the processes that count, with the name under which they do."""
        if not self._admission:
            return self._names.all(again=is_busy)
        found: dict[int, str] = {}
        if self._admission.comms:
            found = self._names.with_children(self._admission.comms, again=is_busy)
        for path in reversed(self._admission.cgroups):
            if self._groups is not None:
                found.update(dict.fromkeys(self._groups.processes(path), path))
        return found

    def _memory_now(self) -> tuple[GroupMemory, ...]:
        if self._groups is None:
            return ()
        found = (self._groups.memory(path) for path in self._admission.cgroups)
        return tuple(each for each in found if each)
