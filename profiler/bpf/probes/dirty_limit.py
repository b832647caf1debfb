# SPDX-License-Identifier: Apache-2.0
"""The dirty limits that the kernel uses at this moment, which lag behind the settings.

Writers are throttled at the greater of the threshold, which follows the settings and the free
memory at once, and a domain limit that falls only slowly (mm/page-writeback.c, update_dirty_limit).
Only a tracepoint reports the latter.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass
from pathlib import Path

from contracts.shared.errors import RequirementError
from profiler.bpf import loader
from profiler.bpf.probe import Probe

PROBE = Probe(
    name="dirty_limit",
    sources=("dirty_limit.bpf.c",),
    tracepoints=("writeback:global_dirty_state",),
)
#: Reading this file calls global_dirty_limits(), which fires the tracepoint (mm/vmstat.c,
#: vmstat_start).
TRIGGER = Path("/proc/vmstat")


@dataclass(frozen=True)
class DirtyLimits:
    """The limit in force, the threshold it approaches, where flushing starts, and dirty memory."""

    limit_bytes: int
    threshold_bytes: int
    background_bytes: int
    dirty_bytes: int


class DirtyLimitReader:
    """Reads the limits any number of times; a context manager. Entry raises RequirementError."""

    def __init__(self, trigger: Path = TRIGGER) -> None:
        self._trigger = trigger
        self._page_bytes = os.sysconf("SC_PAGE_SIZE")
        self._resources = contextlib.ExitStack()

    def __enter__(self) -> DirtyLimitReader:
        module = self._resources.enter_context(loader.load((PROBE,), {}))
        self._state = module.map_words("dirty_states")
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def read(self) -> DirtyLimits:
        """Return the limits now. Raises RequirementError if the kernel does not report them."""
        before = self._state[0]
        self._trigger.read_bytes()
        events, limit, threshold, background, dirty = (w * self._page_bytes for w in self._state)
        if events == before * self._page_bytes:
            message = f"this kernel does not report its dirty limit when {self._trigger} is read"
            raise RequirementError(message, "use a kernel of docs/development/kernels.md")
        in_force = max(limit, threshold)  # mm/page-writeback.c, hard_dirty_limit
        return DirtyLimits(in_force, threshold, background, dirty)
