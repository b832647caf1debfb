# SPDX-License-Identifier: Apache-2.0
"""Counts what can be counted without slowing down any system call, for as long as one likes.

Dirty throttling by a tracepoint that fires only for throttled writers, requests of disks by raw
tracepoints of the block layer. A `ProfileSession` counts calls as well, and costs each of them.
"""

from __future__ import annotations

import contextlib
from collections.abc import Sequence

from contracts.shared import libc
from contracts.stats import BUCKET_COUNT
from profiler.bpf import loader
from profiler.bpf.disks import BlockDevice
from profiler.bpf.probe import Probe
from profiler.bpf.probes import block, throttling
from profiler.bpf.probes.block import DeviceCounters, DeviceStats
from profiler.bpf.probes.throttling import Throttled
from profiler.bpf.session import possible_cpus


class StallSession:
    """Counts throttling of all writers, and requests of `devices`; a context manager.

    Entry raises RequirementError if the host lacks something.
    """

    def __init__(
        self, devices: Sequence[BlockDevice], compiler: loader.Compiler | None = None
    ) -> None:
        self._devices = tuple(devices)
        self._compiler = compiler
        self._resources = contextlib.ExitStack()

    def probes(self) -> tuple[Probe, ...]:
        """Return the probes: that of disks only if there are any."""
        return (throttling.PROBE, *((block.PROBE,) if self._devices else ()))

    def __enter__(self) -> StallSession:
        cpus = possible_cpus()
        numbers = {
            "BUCKET_COUNT": BUCKET_COUNT,
            "CPU_COUNT": cpus,
            **block.numbers(len(self._devices)),
        }
        with contextlib.ExitStack() as on_failure:
            module = loader.load(self.probes(), numbers, self._compiler, simple=True)
            self._module = on_failure.enter_context(module)
            self._throttled = module.map_words(throttling.MAP)
            self._counters = (
                DeviceCounters(module, [device.number for device in self._devices], cpus)
                if self._devices
                else None
            )
            self._resources = on_failure.pop_all()
        give_memory_back()
        return self

    def __exit__(self, *_: object) -> None:
        self._resources.close()

    def throttled(self) -> Throttled:
        """Return the sleeps of all writers since the beginning."""
        return throttling.decode_throttled(self._throttled)

    def disks(self) -> tuple[DeviceStats, ...]:
        """Return the requests of each device since the beginning."""
        return self._counters.stats() if self._counters else ()

    def runs_missed(self) -> int:
        """Return how many events were lost because the kernel skipped a program's run."""
        return self._module.runs_missed(block.HARMLESS)


def give_memory_back() -> None:
    """Return to the kernel what parsing BTF has taken: 4 MiB that a service would keep for ever.

    malloc_trim(3) is glibc's; without it the memory is kept.
    """
    with contextlib.suppress(AttributeError, OSError):
        libc.checked_call("malloc_trim", 0)
