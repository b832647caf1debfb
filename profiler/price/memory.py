"""The memory that programs lose while something runs, by the kernel's own counters.

What is reclaimed in all (`pgsteal_*`) says nothing of it: most of that are clean pages of the pull
itself, which nobody reads again. Programs lose memory where

- pages are swapped out (`pswpout`): anonymous memory, which only programs have;
- pages are read back after their reclaim (`workingset_refault*`, with `_file` and `_anon` since
  Linux 5.9, commit 170b04b7ae49; mm/workingset.c): somebody still needed them. A pull reads nothing
  back before its verification, which comes later;
- an allocation has to reclaim memory itself before it goes on (`allocstall_*`, one for each zone;
  mm/vmscan.c), by which a task waits;
- tasks wait for memory at all (`some` of /proc/pressure/memory; Documentation/accounting/psi.rst).
  The pull's own tasks are among them. Dirty throttling is not: its waits are pressure of I/O.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from profiler.watch.timeline import read_pressure
from sysctl.host.sysctls import read_vmstat
from sysctl.host.system import System
from sysctl.knobs.writeback import PAGE_BYTES

_PRESSURE = "/proc/pressure/memory"


@dataclass(frozen=True)
class MemoryTotals:
    """Running totals since the host booted; None where the kernel does not keep one."""

    swapped_out_bytes: int | None
    refaulted_bytes: int | None
    direct_reclaim_stalls: int | None
    pressure_some_us: int | None

    def since(self, before: MemoryTotals, elapsed_s: float) -> MemoryLost:
        """What was added to an earlier reading, `elapsed_s` ago."""
        some_us = _added(self.pressure_some_us, before.pressure_some_us)
        share = None if some_us is None or elapsed_s <= 0 else some_us / 1e6 / elapsed_s
        return MemoryLost(
            swapped_out_bytes=_added(self.swapped_out_bytes, before.swapped_out_bytes),
            refaulted_bytes=_added(self.refaulted_bytes, before.refaulted_bytes),
            direct_reclaim_stalls=_added(self.direct_reclaim_stalls, before.direct_reclaim_stalls),
            pressure_share=None if share is None else min(1.0, share),
        )


@dataclass(frozen=True)
class MemoryLost:
    """What programs lost in a time: bytes, stalls, and the share of it (0 to 1) that some waited.

    None where the kernel keeps no such figure.
    """

    swapped_out_bytes: int | None
    refaulted_bytes: int | None
    direct_reclaim_stalls: int | None
    pressure_share: float | None


def read_memory_totals(system: System) -> MemoryTotals:
    """The totals now. Raises HostError where there is no /proc/vmstat."""
    counts = {name: int(value) for name, value in read_vmstat(system).items()}
    some_us, _ = read_pressure(system.path(_PRESSURE))
    return MemoryTotals(
        swapped_out_bytes=_pages(_sum(counts, "pswpout")),
        refaulted_bytes=_pages(_sum(counts, "workingset_refault")),
        direct_reclaim_stalls=_sum(counts, "allocstall"),
        pressure_some_us=some_us,
    )


def _sum(counts: Mapping[str, int], name: str) -> int | None:
    """The counter of that name, and those of its parts (`NAME_file`); None without any."""
    found = [n for field, n in counts.items() if field == name or field.startswith(f"{name}_")]
    return sum(found) if found else None


def _pages(count: int | None) -> int | None:
    return None if count is None else count * PAGE_BYTES


def _added(now: int | None, before: int | None) -> int | None:
    """A counter's growth, which a kernel that sums over CPUs may let shrink for a moment."""
    return None if now is None or before is None else max(0, now - before)
