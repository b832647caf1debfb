# SPDX-License-Identifier: Apache-2.0
"""The memory that programs lose during a run, from the kernel's counters.

The total of reclaimed pages (`pgsteal_*`) does not show it: most are clean pages of the pull, which
are not read again. Programs lose memory if

- pages are swapped out (`pswpout`), which are anonymous memory of programs;
- pages are read back after reclaim (`workingset_refault*`, since Linux 5.9 with `_file` and
  `_anon`, commit 170b04b7ae49; mm/workingset.c), because a program still needed them. A pull reads
  nothing back before its verification, which comes later;
- an allocation must reclaim memory before it can continue (`allocstall_*`, one per zone;
  mm/vmscan.c), so that a task waits;
- tasks wait for memory (`some` of /proc/pressure/memory; Documentation/accounting/psi.rst). This
  includes the pull's own tasks, but not dirty throttling, which counts as pressure of I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profiler.watch.pressure import read_pressure
from sysctl.host.sysctls import read_vmstat
from sysctl.host.system import System
from sysctl.knobs.writeback import PAGE_BYTES

_PRESSURE = "/proc/pressure/memory"


@dataclass(frozen=True)
class MemoryTotals:
    """Totals since the host booted; None for those that the kernel does not keep."""

    swapped_out_bytes: int | None
    refaulted_bytes: int | None
    direct_reclaim_stalls: int | None
    pressure_some_ns: int | None

    def since(self, before: MemoryTotals, elapsed_s: float) -> MemoryLost:
        """Return the difference to an earlier reading, `elapsed_s` ago."""
        some_ns = _added(self.pressure_some_ns, before.pressure_some_ns)
        share = None if some_ns is None or elapsed_s <= 0 else some_ns / 1e9 / elapsed_s
        return MemoryLost(
            swapped_out_bytes=_added(self.swapped_out_bytes, before.swapped_out_bytes),
            refaulted_bytes=_added(self.refaulted_bytes, before.refaulted_bytes),
            direct_reclaim_stalls=_added(self.direct_reclaim_stalls, before.direct_reclaim_stalls),
            pressure_share=None if share is None else min(1.0, share),
        )


@dataclass(frozen=True)
class MemoryLost:
    """What programs lost in a period: bytes, stalls, the share of it (0 to 1) in which some waited.

    None for what the kernel does not count.
    """

    swapped_out_bytes: int | None
    refaulted_bytes: int | None
    direct_reclaim_stalls: int | None
    pressure_share: float | None


def read_memory_totals(system: System) -> MemoryTotals:
    """Return the totals now. Raises HostError if there is no /proc/vmstat."""
    counts = {name: int(value) for name, value in read_vmstat(system).items()}
    some_ns, _ = read_pressure(system.path(_PRESSURE))
    return MemoryTotals(
        swapped_out_bytes=_pages(_sum(counts, "pswpout")),
        refaulted_bytes=_pages(_sum(counts, "workingset_refault")),
        direct_reclaim_stalls=_sum(counts, "allocstall"),
        pressure_some_ns=some_ns,
    )


def _sum(counts: Mapping[str, int], name: str) -> int | None:
    """Return the sum of a counter and its parts (`NAME_file`); None if there are none."""
    found = [n for field, n in counts.items() if field == name or field.startswith(f"{name}_")]
    return sum(found) if found else None


def _pages(count: int | None) -> int | None:
    return None if count is None else count * PAGE_BYTES


def _added(now: int | None, before: int | None) -> int | None:
    """Return a counter's growth, at least 0: a sum over CPUs may shrink for a moment."""
    return None if now is None or before is None else max(0, now - before)
