# SPDX-License-Identifier: Apache-2.0
"""The effect of a pull on other programs: on a neighbour on the volume, and on memory."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from profiler.price.memory import read_memory_totals
from profiler.price.process import Neighbour
from sysctl.evidence.price_seen import PriceSeen
from sysctl.host.ext4 import data_mode
from sysctl.host.mount_table import Mount
from sysctl.host.system import System


class PriceObserver:
    """Observes one pull into `folder`, which is on `mount`.

    Enter it before the host settles, and `observed` until the pull is durable; then `seen` has the
    result. `clock_ns` is the monotonic clock.
    """

    def __init__(
        self,
        system: System,
        mount: Mount,
        folder: Path,
        clock_ns: Callable[[], int] = time.monotonic_ns,
    ) -> None:
        self._system = system
        self._mount = mount
        self._neighbour = Neighbour(folder)
        self._clock_ns = clock_ns
        self.seen: PriceSeen | None = None

    def __enter__(self) -> PriceObserver:
        self._neighbour.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._neighbour.__exit__()

    @property
    def dirtied_bytes(self) -> int:
        """Bytes that the neighbour dirtied, which are not another program's."""
        return self._neighbour.dirtied_bytes

    @contextlib.contextmanager
    def observed(self) -> Iterator[None]:
        """Observe within the block. Raises HostError if there is no /proc/vmstat."""
        before, begun_ns = read_memory_totals(self._system), self._clock_ns()
        with self._neighbour.running():
            yield
            observed_s = (self._clock_ns() - begun_ns) / 1e9
            lost = read_memory_totals(self._system).since(before, observed_s)
        self.seen = PriceSeen(
            observed_s=observed_s,
            fsync=self._neighbour.fsync.latency(),
            read=self._neighbour.read.latency(),
            swapped_out_bytes=lost.swapped_out_bytes,
            refaulted_bytes=lost.refaulted_bytes,
            direct_reclaim_stalls=lost.direct_reclaim_stalls,
            memory_pressure_share=lost.pressure_share,
            ext4_data_mode=data_mode(self._system, self._mount),
            problem=self._neighbour.problem or "",
        )
