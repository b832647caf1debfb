# SPDX-License-Identifier: Apache-2.0
"""The admitted control groups: their processes, and the memory that their limits leave.

A group is looked up by its path at each look, so one that is removed and made anew counts again.
"""

from __future__ import annotations

import contextlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import RequirementError
from profiler.watch.group_processes import processes_below
from profiler.watch.pressure import parse_pressure
from sysctl.govern.groups import GroupMemory, LimitedMemory
from sysctl.host.memory_group import V2_FILES, has_dirty_limits, limits_at
from sysctl.host.sysctls import read_total_bytes
from sysctl.host.system import HostError, System
from sysctl.knobs.writeback import GroupUse


@dataclass(frozen=True)
class _Names:
    """The names of a version's files and of the figures in memory.stat."""

    limits: tuple[str, ...]
    used: str
    file: tuple[str, str]
    unwritten: tuple[str, str]


_V2 = _Names(
    V2_FILES,
    "memory.current",
    ("active_file", "inactive_file"),
    ("file_dirty", "file_writeback"),
)
_V1 = _Names(
    ("memory.limit_in_bytes",),
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
    ("total_dirty", "total_writeback"),
)


class ControlGroups:
    """Reads groups by path. Raises RequirementError if no hierarchy is mounted."""

    def __init__(self, system: System) -> None:
        self._system = system
        mounts = system.mounts()
        v2 = [mount.target for mount in mounts if mount.fstype == "cgroup2"]
        v1 = [mount for mount in mounts if mount.fstype == "cgroup"]
        with_memory = [mount.target for mount in v1 if "memory" in mount.super_options]
        of_systemd = [mount.target for mount in v1 if "name=systemd" in mount.super_options]
        others = [mount.target for mount in v1]
        self._hierarchies = tuple(dict.fromkeys((*v2, *with_memory, *of_systemd, *others)))
        self._memory = [*((target, _V2) for target in v2), *((each, _V1) for each in with_memory)]
        if not self._hierarchies:
            raise RequirementError(
                "--admit cgroup= needs control groups, and none are mounted",
                "mount cgroup2 on /sys/fs/cgroup, or use --admit comm=NAME",
            )
        self._total_bytes = read_total_bytes(system)
        self._has_dirty_limits = has_dirty_limits(system)

    def folder(self, path: str) -> str | None:
        """Return the folder of a group, in version 2 if it is there; None if there is none."""
        folders = (f"{target}{path}" for target in self._hierarchies)
        return next((each for each in folders if self._system.path(each).is_dir()), None)

    def absent(self, paths: Sequence[str]) -> tuple[str, ...]:
        """Return the paths at which there is no group now."""
        return tuple(path for path in paths if self.folder(path) is None)

    def processes(self, path: str) -> set[int]:
        """Return the processes of a group and of those below it; none if there is no group."""
        folder = self.folder(path)
        return set() if folder is None else processes_below(Path(self._system.path(folder)))

    def memory(self, path: str) -> GroupMemory | None:
        """Return a group's memory; None if there is no such group with a memory controller."""
        for target, names in self._memory:
            with contextlib.suppress(HostError, OSError, KeyError, ValueError):
                return self._memory_in(target, path, names)
        return None

    def _memory_in(self, target: str, path: str, names: _Names) -> GroupMemory:
        parts = path.strip("/").split("/")
        folders = ["/".join((target, *parts[: depth + 1])) for depth in range(len(parts))]
        own = folders[-1]
        figures = self._figures(own)
        levels = tuple(level for each in folders if (level := self._level(each, names)))
        file_bytes, unwritten = _sums(figures, names)
        use = None
        if levels and names is _V2 and self._has_dirty_limits:
            headroom = min(max(0, level.limit_bytes - level.used_bytes) for level in levels)
            use = GroupUse(file_bytes, unwritten, headroom)
        some_ns, full_ns = self._pressure_ns(own)
        identity = self._system.path(own).stat().st_ino
        return GroupMemory(path, identity, levels, unwritten, use, some_ns, full_ns)

    def _level(self, folder: str, names: _Names) -> LimitedMemory | None:
        limit = min(limits_at(self._system, folder, names.limits), default=self._total_bytes)
        if limit >= self._total_bytes:
            return None
        used = int(self._system.read(f"{folder}/{names.used}"))
        return LimitedMemory(limit, used, *_sums(self._figures(folder), names))

    def _figures(self, folder: str) -> dict[str, int]:
        return dict(_rows(self._system.read(f"{folder}/memory.stat")))

    def _pressure_ns(self, folder: str) -> tuple[int | None, int | None]:
        path = f"{folder}/memory.pressure"
        with contextlib.suppress(HostError):
            return parse_pressure(self._system.read(path).encode())
        return None, None


def _rows(text: str) -> Iterator[tuple[str, int]]:
    for line in text.split("\n"):
        name, _, value = line.partition(" ")
        yield name, int(value)


def _sums(figures: Mapping[str, int], names: _Names) -> tuple[int, int]:
    """Return file pages and unwritten ones, in bytes. Raises KeyError if they are missing."""
    both: Sequence[tuple[str, str]] = (names.file, names.unwritten)
    file_bytes, unwritten = (sum(figures[name] for name in each) for each in both)
    return file_bytes, unwritten
