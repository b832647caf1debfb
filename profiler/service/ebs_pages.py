# SPDX-License-Identifier: Apache-2.0
"""The counters of EBS volumes for a service: read on demand, at most once a second, for ever.

A volume that is detached and attached anew begins again at zero; the sums here go on. A reading
that fails is tried again later. Then the name may be another volume's, whose counters are of its
whole attachment: the sums go on with what is added from then on.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from profiler.ec2 import log_page
from profiler.ec2.log_page import LogPage, LogPageError

#: More frequent requests are queued with other commands of the controller (profiler.watch.volumes).
INTERVAL_NS = 10**9
_US_PER_S = 10**6


@dataclass(frozen=True)
class EbsTotals:
    """Time over each limit (s) since the service began, and the queue's length now.

    `queue_length` is None if the last reading failed.
    """

    disk: str
    exceeded_s: tuple[float, float, float, float]
    queue_length: int | None


class EbsPages:
    """Reads the EBS volumes among some disks; other disks are sent no command.

    `problems` has a sentence for each volume whose last reading failed.
    """

    def __init__(
        self,
        disks: Iterable[str],
        sysfs: Path = Path("/sys"),
        open_disk: Callable[[str], int] = log_page.open_disk,
        read: Callable[[int], bytes] = log_page.read_page,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self.disks = tuple(disk for disk in disks if log_page.has_log_page(disk, sysfs))
        self.problems: dict[str, str] = {}
        self._open, self._read, self._clock_ns = open_disk, read, clock_ns
        self._descriptors: dict[str, int] = {}
        self._last: dict[str, LogPage] = {}
        self._sums_us: dict[str, tuple[int, ...]] = {}
        self._read_ns: int | None = None

    def totals(self) -> Iterator[EbsTotals]:
        """Yield the totals of each volume that could be read at least once."""
        now_ns = self._clock_ns()
        if self._read_ns is None or now_ns - self._read_ns >= INTERVAL_NS:
            self._read_ns = now_ns
            for disk in self.disks:
                self._look(disk)
        for disk, sums_us in self._sums_us.items():
            first, second, third, fourth = (each / _US_PER_S for each in sums_us)
            exceeded_s = (first, second, third, fourth)
            is_known = disk not in self.problems
            yield EbsTotals(disk, exceeded_s, self._last[disk].queue_length if is_known else None)

    def _look(self, disk: str) -> None:
        try:
            if disk not in self._descriptors:
                self._descriptors[disk] = self._open(disk)
            page = log_page.parse(self._read(self._descriptors[disk]))
        except (OSError, LogPageError) as error:
            reason = str(error) if isinstance(error, LogPageError) else error.strerror
            self.problems[disk] = f"the EBS counters of {disk} cannot be read: {reason}"
            self._close(disk)
            self._last.pop(disk, None)
            return
        self.problems.pop(disk, None)
        before = self._last.get(disk, page).exceeded_us
        grown = (now - then if now >= then else now for then, now in zip(before, page.exceeded_us))
        sums_us = self._sums_us.get(disk, (0, 0, 0, 0))
        self._sums_us[disk] = tuple(total + more for total, more in zip(sums_us, grown))
        self._last[disk] = page

    def _close(self, disk: str) -> None:
        descriptor = self._descriptors.pop(disk, None)
        if descriptor is not None:
            os.close(descriptor)

    def close(self) -> None:
        """Close the disks."""
        for disk in tuple(self._descriptors):
            self._close(disk)
