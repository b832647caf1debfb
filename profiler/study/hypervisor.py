# SPDX-License-Identifier: Apache-2.0
"""What the hypervisor took from this host in a period: CPU time, and memory by its balloon.

Steal time is the eighth field of the `cpu` line of /proc/stat (proc_stat(5)). The counters
`balloon_inflate` and `balloon_deflate` of /proc/vmstat are in pages; hosts without a balloon may
lack them (mm/vmstat.c, Linux 6.18).
"""

from __future__ import annotations

from sysctl.host.sysctls import read_vmstat
from sysctl.host.system import System
from sysctl.knobs.writeback import PAGE_BYTES

_STEAL_FIELD = 7
#: From user to steal; guest time is part of user time.
_FIELDS = 8
_BALLOON = ("balloon_inflate", "balloon_deflate")


class Hypervisor:
    """The counters since this object was made."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._ticks, self._pages = self._read_ticks(), self._read_pages()

    def since(self) -> tuple[float, int]:
        """Return the stolen share of the CPUs' time (0 to 1) and the bytes moved by the balloon."""
        before, now = self._ticks, self._read_ticks()
        passed = sum(now) - sum(before)
        stolen = now[_STEAL_FIELD] - before[_STEAL_FIELD]
        share = max(0.0, stolen / passed) if passed > 0 else 0.0
        return share, max(0, self._read_pages() - self._pages) * PAGE_BYTES

    def _read_ticks(self) -> list[int]:
        line = self._system.read("/proc/stat").partition("\n")[0]
        ticks = [int(word) for word in line.split()[1 : 1 + _FIELDS]]
        return ticks + [0] * (_FIELDS - len(ticks))

    def _read_pages(self) -> int:
        vmstat = read_vmstat(self._system)
        return sum(int(vmstat.get(name, 0)) for name in _BALLOON)
