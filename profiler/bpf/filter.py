"""Which tasks count, beside those that are followed: by command name and by cgroup.

The kernel asks the current task each time (`filter.bpf.h`), so a thread that is renamed or moved to
another group passes, or does not, from its next call on.
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
#: include/linux/sched.h, TASK_COMM_LEN: with the NUL at its end.
_COMM_BYTES = 16
_COMM_HINT = "`ps -L -o comm PID` shows the names of a process's threads"


@dataclass(frozen=True)
class ScopeFilter:
    """Tasks that pass have the name and are in the group; None lets every task pass.

    `comm` is the exact name of a *thread*: what /proc/PID/task/TID/comm shows, at most 15 bytes.
    A thread takes over the name of the one that started it, an exec sets it to the file's name, cut
    to 15 bytes (a script's own, not its interpreter's), and programs name threads of a pool as they
    like: such threads of a process with the name do not pass. Raises UsageError when no thread can
    have it.

    `cgroup` is the absolute path of a group's directory on a mounted cgroup file system, under any
    controller of version 1 or of version 2. Groups below it count as inside; of version 1 those
    down to 15 levels below (`cgroups.LEVELS_MAX`). It means the group that is there when the filter
    is first asked for its macros or members: one made later in its place is another.
    """

    comm: str | None = None
    cgroup: str | None = None

    def __post_init__(self) -> None:
        if self.comm is not None:
            _comm_words(self.comm)

    def macros(self) -> dict[str, int]:
        """The numbers by which the C is compiled for this filter; none without one.

        Raises UsageError and RequirementError as `cgroups.resolve`.
        """
        numbers = dict(self._group.macros) if self._group else {}
        if self.comm is not None:
            first, second = _comm_words(self.comm)
            numbers.update(FILTER_COMM=1, COMM_WORD_0=first, COMM_WORD_1=second)
        return numbers

    @property
    def members(self) -> Mapping[str, tuple[str, ...]]:
        """The structure members whose offsets it needs, as `Probe.members`. Raises as `macros`."""
        return self._group.members if self._group else {}

    @cached_property
    def _group(self) -> cgroups.Cgroup | None:
        return None if self.cgroup is None else cgroups.resolve(self.cgroup)


def _comm_words(comm: str) -> tuple[int, int]:
    """The name as the kernel keeps it, NULs to its end, in two words of 64 bits."""
    if not comm:
        raise UsageError("the command name is empty", _COMM_HINT)
    if any(is_unprintable(character) for character in comm):
        message = f"the command name {printable(comm)} has a character that cannot be printed"
        raise UsageError(message, _COMM_HINT)
    name = os.fsencode(comm)
    if len(name) >= _COMM_BYTES:
        kept = name[: _COMM_BYTES - 1].decode(errors="ignore")
        message = f"the command name {quoted(comm)} is longer than the 15 bytes that Linux keeps"
        raise UsageError(message, f"give what it keeps: {kept!r}")
    padded = name.ljust(_COMM_BYTES, b"\0")
    first, second = padded[:8], padded[8:]
    return int.from_bytes(first, sys.byteorder), int.from_bytes(second, sys.byteorder)
