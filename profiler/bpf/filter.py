# SPDX-License-Identifier: Apache-2.0
"""Filters for the tasks that count: by command name and by cgroup.

The kernel checks the current task at each call (`filter.bpf.h`), so a thread that is renamed or
moved to another group is judged anew from its next call on.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property

from contracts.shared.errors import UsageError
from contracts.shared.text import is_unprintable, printable, quoted
from profiler.bpf import cgroups

SOURCE = "filter.bpf.h"
#: include/linux/sched.h, TASK_COMM_LEN, which includes the final NUL.
_COMM_BYTES = 16
_COMM_HINT = "show the names of a process's threads with `ps -L -o comm PID`"


@dataclass(frozen=True)
class ScopeFilter:
    """A command name and a cgroup that tasks must have; None lets every task pass.

    `comm` is the exact name of a *thread*, as in /proc/PID/task/TID/comm, at most 15 bytes. A
    thread inherits the name of the thread that started it. exec sets it to the file's name (of a
    script, not of its interpreter), cut to 15 bytes. Programs may rename their threads, which then
    do not pass. Raises UsageError for a name that no thread can have.

    `cgroup` is the absolute path of a group's directory on a mounted cgroup file system, of version
    1 or 2. Groups below it belong to it; with version 1, down to 15 levels (`cgroups.LEVELS_MAX`).
    The path is resolved when the macros or members are first requested, so a group made there later
    is not meant.
    """

    comm: str | None = None
    cgroup: str | None = None

    def __post_init__(self) -> None:
        if self.comm is not None:
            _comm_words(self.comm)

    def macros(self) -> dict[str, int]:
        """Return the macros that compile this filter into the C; none for an empty filter.

        Raises UsageError and RequirementError as `cgroups.resolve`.
        """
        numbers = dict(self._group.macros) if self._group else {}
        if self.comm is not None:
            first, second = _comm_words(self.comm)
            numbers.update(FILTER_COMM=1, COMM_WORD_0=first, COMM_WORD_1=second)
        return numbers

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The structure members that it needs, as in `Probe.members`. Raises as `macros`."""
        return self._group.members if self._group else {}

    @cached_property
    def _group(self) -> cgroups.Cgroup | None:
        return None if self.cgroup is None else cgroups.resolve(self.cgroup)


def _comm_words(comm: str) -> tuple[int, int]:
    """Return the name as the kernel stores it, padded with NULs, in two words of 64 bits."""
    if not comm:
        raise UsageError("the command name is empty", _COMM_HINT)
    if any(is_unprintable(character) for character in comm):
        message = f"the command name {printable(comm)} contains an unprintable character"
        raise UsageError(message, _COMM_HINT)
    name = os.fsencode(comm)
    if len(name) >= _COMM_BYTES:
        kept = name[: _COMM_BYTES - 1].decode(errors="ignore")
        message = f"the command name {quoted(comm)} is longer than Linux's limit of 15 bytes"
        raise UsageError(message, f"pass the truncated name: {kept!r}")
    padded = name.ljust(_COMM_BYTES, b"\0")
    first, second = padded[:8], padded[8:]
    return int.from_bytes(first, sys.byteorder), int.from_bytes(second, sys.byteorder)
